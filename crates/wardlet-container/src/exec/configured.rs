//! The settings of a container's first process, from its OCI configuration.

use std::path::{Path, PathBuf};

use container::User;
use kernel::confine::{Capabilities, Filter, Limit, Limits};
use rustix::process::Resource;
use rustix::thread::CapabilitySet;
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::files::{self, FILTER};
use crate::seccomp;

/// What files lack that are made by processes of which nothing else is said.
const UMASK: u32 = 0o022;

#[derive(Debug, Deserialize)]
pub(super) struct Configured {
    process: Process,
    #[serde(default)]
    linux: Linux,
}

#[derive(Debug, Default, Deserialize)]
struct Linux {
    seccomp: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    #[serde(default)]
    user: Who,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    cwd: PathBuf,
    #[serde(default)]
    capabilities: container::capabilities::Sets,
    #[serde(default)]
    no_new_privileges: bool,
    #[serde(default)]
    rlimits: Vec<Rlimit>,
    oom_score_adj: Option<i32>,
    apparmor_profile: Option<String>,
    selinux_label: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Who {
    uid: u32,
    gid: u32,
    umask: Option<u32>,
    #[serde(default)]
    additional_gids: Vec<u32>,
}

#[derive(Debug, Deserialize)]
struct Rlimit {
    r#type: String,
    soft: u64,
    hard: u64,
}

impl Configured {
    pub(super) fn user(&self) -> User {
        let user = &self.process.user;
        User { uid: user.uid, gid: user.gid, groups: user.additional_gids.clone() }
    }

    pub(super) fn umask(&self) -> u32 {
        self.process.user.umask.unwrap_or(UMASK)
    }

    pub(super) fn env(&self) -> Vec<String> {
        self.process.env.clone()
    }

    pub(super) fn cwd(&self) -> PathBuf {
        self.process.cwd.clone()
    }

    pub(super) fn selinux(&self) -> Option<String> {
        self.process.selinux_label.clone()
    }

    pub(super) fn apparmor(&self) -> Option<String> {
        self.process.apparmor_profile.clone()
    }

    pub(super) fn capabilities(&self) -> Result<Capabilities, Failure> {
        let sets = &self.process.capabilities;
        Ok(Capabilities {
            bounding: bits(&sets.bounding)?,
            effective: bits(&sets.effective)?,
            inheritable: bits(&sets.inheritable)?,
            permitted: bits(&sets.permitted)?,
            ambient: bits(&sets.ambient)?,
        })
    }

    /// The filter that was compiled when the container was started. One that is missing is never taken
    /// for none.
    pub(super) fn filter(&self, dir: &Path) -> Result<Option<Filter>, Failure> {
        let filter = |profile: &Value| {
            let program = files::read(&dir.join(FILTER))?;
            Ok(Filter { program, flags: seccomp::flags(profile)? })
        };
        self.linux.seccomp.as_ref().map(filter).transpose()
    }

    pub(super) fn limits(&self, seccomp: Option<Filter>) -> Result<Limits, Failure> {
        Ok(Limits {
            no_new_privileges: self.process.no_new_privileges,
            seccomp,
            resources: self.process.rlimits.iter().map(limit).collect::<Result<_, _>>()?,
            oom_score_adj: self.process.oom_score_adj,
        })
    }
}

/// What the first process of a container may use.
pub(crate) fn limits(config: &Value) -> Result<Vec<Limit>, Failure> {
    let configured = Configured::deserialize(config)
        .map_err(|cause| Failure::during("cannot read the configuration", cause))?;
    configured.limits(None).map(|limits| limits.resources)
}

fn bits(names: &[String]) -> Result<u64, Failure> {
    names.iter().try_fold(0, |bits, name| {
        let known = name.strip_prefix("CAP_").and_then(CapabilitySet::from_name);
        let known = known.ok_or_else(|| Failure::of(format!("there is no capability {name:?}")))?;
        Ok(bits | known.bits())
    })
}

fn limit(limit: &Rlimit) -> Result<Limit, Failure> {
    let known = [
        ("RLIMIT_AS", Resource::As),
        ("RLIMIT_CORE", Resource::Core),
        ("RLIMIT_CPU", Resource::Cpu),
        ("RLIMIT_DATA", Resource::Data),
        ("RLIMIT_FSIZE", Resource::Fsize),
        ("RLIMIT_LOCKS", Resource::Locks),
        ("RLIMIT_MEMLOCK", Resource::Memlock),
        ("RLIMIT_MSGQUEUE", Resource::Msgqueue),
        ("RLIMIT_NICE", Resource::Nice),
        ("RLIMIT_NOFILE", Resource::Nofile),
        ("RLIMIT_NPROC", Resource::Nproc),
        ("RLIMIT_RSS", Resource::Rss),
        ("RLIMIT_RTPRIO", Resource::Rtprio),
        ("RLIMIT_RTTIME", Resource::Rttime),
        ("RLIMIT_SIGPENDING", Resource::Sigpending),
        ("RLIMIT_STACK", Resource::Stack),
    ];
    let found = known.into_iter().find(|(name, _)| *name == limit.r#type);
    let (_, resource) = found.ok_or_else(|| Failure::of(format!("there is no limit {:?}", limit.r#type)))?;
    Ok(Limit { resource, soft: limit.soft, hard: limit.hard })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_has_its_bit() {
        let all = container::capabilities::all().bounding;
        assert_eq!(bits(&all).unwrap(), (1u64 << all.len()) - 1);
        for (number, name) in all.iter().enumerate() {
            assert_eq!(bits(std::slice::from_ref(name)).unwrap(), 1u64 << number, "{name}");
        }
        assert!(bits(&["CAP_ROOT".to_owned()]).is_err());
    }

    #[test]
    fn an_unknown_limit_is_refused_and_not_passed_over() {
        let config =
            serde_json::json!({ "process": { "rlimits": [{ "type": "RLIMIT_X", "soft": 1, "hard": 1 }] } });
        assert!(limits(&config).unwrap_err().what.contains("RLIMIT_X"));
    }

    #[test]
    fn a_filter_that_is_missing_is_not_taken_for_none() {
        let config = serde_json::json!({ "process": {}, "linux": { "seccomp": { "defaultAction": "SCMP_ACT_ALLOW" } } });
        let configured = Configured::deserialize(&config).unwrap();
        assert!(configured.filter(Path::new("/nonexistent")).is_err());
    }
}
