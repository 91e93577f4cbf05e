use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::label::Part;
use crate::{Label, LabelError, Level, Name, SelinuxOptions};

/// The labels that this host gives to containers without SELinux options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostDefaults {
    /// Of processes.
    pub process: Label,
    /// Of files that containers write.
    pub file: Label,
    /// Of files that containers share and only read.
    pub read_only_file: Label,
}

/// Why a contexts file says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextsError {
    /// One of the two labels that it takes is missing.
    #[error("no line says what {0:?} is")]
    Missing(&'static str),
    /// A label that cannot be read.
    #[error("line {line}: {key}: {source}")]
    Label {
        /// The line's number, from 1.
        line: usize,
        /// What it was to be.
        key: String,
        /// Why not.
        source: LabelError,
    },
}

#[derive(Default)]
struct Found {
    process: Option<Label>,
    file: Option<Label>,
    read_only_file: Option<Label>,
}

impl Found {
    /// The later of two lines with one key holds.
    fn take(&mut self, key: &str, text: &str) -> Result<(), LabelError> {
        let slot = match key {
            "process" => &mut self.process,
            "file" => &mut self.file,
            "ro_file" => &mut self.read_only_file,
            _ => return Ok(()),
        };
        *slot = Some(text.parse()?);
        Ok(())
    }
}

/// Key and value of a line; `None` where it says nothing.
fn entry(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with([';', '#']) {
        return None;
    }
    let (key, value) = line.split_once('=')?;
    Some((key.trim(), value.trim().trim_matches('"')))
}

impl FromStr for HostDefaults {
    type Err = ContextsError;

    /// Reads `/usr/share/containers/selinux/contexts` (Fedora and its family) or a policy's `contexts/lxc_contexts`
    /// (Debian): lines of the form `key = "label"`; others are ignored.
    fn from_str(text: &str) -> Result<Self, ContextsError> {
        let mut found = Found::default();
        for (index, line) in text.lines().enumerate() {
            let Some((key, value)) = entry(line) else { continue };
            let wrong = |source| ContextsError::Label { line: index + 1, key: key.to_owned(), source };
            found.take(key, value).map_err(wrong)?;
        }
        let process = found.process.ok_or(ContextsError::Missing("process"))?;
        let file = found.file.ok_or(ContextsError::Missing("file"))?;
        let read_only_file = found.read_only_file.unwrap_or_else(|| file.clone());
        Ok(Self { process, file, read_only_file })
    }
}

impl HostDefaults {
    /// The label that a container's processes run with; `level` applies if the options have none.
    pub fn process_label(&self, options: &SelinuxOptions, level: Option<Level>) -> Result<Label, LabelError> {
        let mut label = self.process.clone();
        if let Some(user) = options.user() {
            label = label.with_user(Name::new(user, Part::User)?);
        }
        if let Some(role) = options.role() {
            label = label.with_role(Name::new(role, Part::Role)?);
        }
        if let Some(kind) = options.kind() {
            label = label.with_kind(Name::new(kind, Part::Type)?);
        }
        let named = options.level().map(Level::from_str).transpose()?;
        Ok(named.or(level).map_or(label.clone(), |level| label.with_level(level)))
    }

    /// The label of processes of privileged containers, which no category keeps apart: `spc_t`, the super privileged
    /// container of the policies that have containers at all.
    pub fn privileged_label(&self) -> Result<Label, LabelError> {
        let label = self.process.clone().with_kind(Name::new("spc_t", Part::Type)?);
        Ok(label.with_level(Level::from_str("s0")?))
    }

    /// The label of files that only this process can reach: the host's file label with the user and
    /// the level of the process. Role and type of a process say nothing about files.
    #[must_use]
    pub fn file_label_of(&self, process: &Label) -> Label {
        let label = self.file.clone().with_user(process.user().clone());
        process.level().cloned().map_or(label.clone(), |level| label.with_level(level))
    }

    /// The label for a volume of a container with these options. Without a level there is none: the runtime will pick
    /// categories that are not known yet.
    pub fn volume_label(&self, options: &SelinuxOptions) -> Result<Option<Label>, LabelError> {
        if options.level().is_none() {
            return Ok(None);
        }
        let user = options.user().map(|user| Name::new(user, Part::User)).transpose()?;
        let process = self.process_label(options, None)?;
        // Unless the options name another, the file's own user stays.
        Ok(Some(self.file_label_of(&process.with_user(user.unwrap_or_else(|| self.file.user().clone())))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privileged_container_has_a_type_of_its_own_and_no_categories() {
        let host: HostDefaults = FEDORA.parse().unwrap();
        assert_eq!(host.privileged_label().unwrap().to_string(), "system_u:system_r:spc_t:s0");
    }

    const FEDORA: &str = include_str!("../tests/contexts/fedora");
    const DEBIAN: &str = include_str!("../tests/contexts/debian");

    fn defaults(text: &str) -> HostDefaults {
        text.parse().unwrap()
    }

    fn level(text: &str) -> SelinuxOptions {
        SelinuxOptions { level: Some(text.into()), ..Default::default() }
    }

    #[test]
    fn the_contexts_files_of_both_families_are_read() {
        let fedora = defaults(FEDORA);
        assert_eq!(fedora.process.to_string(), "system_u:system_r:container_t:s0");
        assert_eq!(fedora.file.to_string(), "system_u:object_r:container_file_t:s0");
        assert_eq!(fedora.read_only_file.to_string(), "system_u:object_r:container_ro_file_t:s0");
        let debian = defaults(DEBIAN);
        assert_eq!(debian.process.kind().as_str(), "svirt_lxc_net_t");
        assert_eq!(debian.file, debian.read_only_file);
    }

    #[test]
    fn a_volume_gets_the_hosts_file_type_and_the_level_that_was_asked_for() {
        let label = |text, o| defaults(text).volume_label(&o).unwrap().unwrap().to_string();
        assert_eq!(label(FEDORA, level("s0:c10,c0")), "system_u:object_r:container_file_t:s0:c0,c10");
        assert_eq!(label(DEBIAN, level("s0:c10,c0")), "system_u:object_r:svirt_lxc_file_t:s0:c0,c10");
    }

    #[test]
    fn role_and_type_of_a_process_do_not_reach_its_files_but_its_user_does() {
        let options = SelinuxOptions {
            user: Some("staff_u".into()),
            role: Some("staff_r".into()),
            kind: Some("spc_t".into()),
            ..level("s0:c1,c2")
        };
        let fedora = defaults(FEDORA);
        let process = fedora.process_label(&options, None).unwrap();
        assert_eq!(process.to_string(), "staff_u:staff_r:spc_t:s0:c1,c2");
        let file = "staff_u:object_r:container_file_t:s0:c1,c2";
        assert_eq!(fedora.volume_label(&options).unwrap().unwrap().to_string(), file);
        assert_eq!(fedora.file_label_of(&process).to_string(), file);
    }

    #[test]
    fn no_level_means_no_volume_label() {
        let only_type = SelinuxOptions { kind: Some("container_t".into()), ..Default::default() };
        assert_eq!(defaults(FEDORA).volume_label(&only_type), Ok(None));
        assert_eq!(defaults(FEDORA).volume_label(&level("")), Ok(None));
    }

    #[test]
    fn a_process_without_a_level_gets_the_one_it_was_leased() {
        let leased = "s0:c3,c4".parse().ok();
        let label = |o| defaults(FEDORA).process_label(&o, leased.clone()).unwrap().to_string();
        assert_eq!(label(SelinuxOptions::default()), "system_u:system_r:container_t:s0:c3,c4");
        assert_eq!(label(level("s0:c1,c2")), "system_u:system_r:container_t:s0:c1,c2");
    }

    #[test]
    fn a_bad_part_is_refused_not_passed_on() {
        let options = SelinuxOptions { user: Some("a\",b".into()), ..level("s0") };
        assert!(matches!(defaults(FEDORA).volume_label(&options), Err(LabelError::Name { .. })));
        assert!(matches!(defaults(FEDORA).volume_label(&level("c1,c2")), Err(LabelError::Level { .. })));
    }

    #[test]
    fn what_a_contexts_file_lacks_is_named() {
        assert_eq!("".parse::<HostDefaults>(), Err(ContextsError::Missing("process")));
        let no_file = "process = \"u:r:t:s0\"\n#file = \"u:r:t:s0\"";
        assert_eq!(no_file.parse::<HostDefaults>(), Err(ContextsError::Missing("file")));
        let error = "\nprocess = nonsense".parse::<HostDefaults>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2: process: \"nonsense\" is not an SELinux label: it takes user:role:type:level"
        );
    }
}
