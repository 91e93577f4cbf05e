//! The first process of a container.

use std::collections::HashMap;
use std::path::PathBuf;

use container::{Console, GroupPolicy, Process, WantedUser};

use cri::{LinuxContainerSecurityContext, SupplementalGroupsPolicy};
use ids::IdMappings;
use types::Refusal;

use super::ids::{Kind, id};
use super::mounts::inside::inside;
use super::request::{ContainerRequest, SECURITY};
use super::{confine, resources};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const TERM: &str = "TERM=xterm";

pub(super) fn of(asked: &ContainerRequest<'_>, ids: Option<&IdMappings>) -> Result<Process, Refusal> {
    let capabilities = confine::capabilities(asked)?;
    Ok(Process {
        args: args(asked)?,
        env: env(asked)?,
        cwd: cwd(asked)?,
        user: user(asked, ids)?,
        seccomp: confine::seccomp(asked, &capabilities)?,
        capabilities,
        no_new_privileges: asked.security().no_new_privs,
        rlimits: asked.node.rlimits.clone(),
        oom_score_adj: resources::oom_score_of(asked)?,
        apparmor_profile: confine::apparmor(asked)?,
        selinux_label: confine::selinux(asked)?,
        console: if asked.config.tty { Console::Terminal } else { Console::Pipes },
    })
}

/// A command replaces the image's entrypoint and with it its arguments; arguments alone replace the image's.
fn args(asked: &ContainerRequest<'_>) -> Result<Vec<String>, Refusal> {
    let (config, image) = (asked.config, asked.image);
    let given = config.command.iter().chain(&config.args);
    // Some builders write an entrypoint that is one empty word to say that there is none.
    let entrypoint = image.entrypoint.iter().filter(|_| image.entrypoint != [""]);
    let all: Vec<String> = match (config.command.is_empty(), config.args.is_empty()) {
        (false, _) => given.cloned().collect(),
        (true, false) => entrypoint.chain(&config.args).cloned().collect(),
        (true, true) => entrypoint.chain(&image.cmd).cloned().collect(),
    };
    if all.is_empty() {
        let cause = "neither it nor the image says what to run";
        return Err(Refusal::new("command", cause).with_hint("give the container a command"));
    }
    match all.iter().find(|word| word.contains('\0')) {
        Some(_) => Err(Refusal::new("command", "a word of it has a zero byte")),
        None => Ok(all),
    }
}

/// What is said later counts: our defaults, the image, the container.
fn env(asked: &ContainerRequest<'_>) -> Result<Vec<String>, Refusal> {
    let mut all = vec![PATH.to_owned()];
    if asked.config.tty {
        all.push(TERM.to_owned());
    }
    let name = Some(&asked.sandbox.hostname).filter(|name| !name.is_empty()).unwrap_or(&asked.node.hostname);
    all.push(format!("HOSTNAME={name}"));
    let mut all = Environment::of(all);
    asked.image.env.iter().for_each(|variable| all.set(variable.clone()));
    for (index, variable) in asked.config.envs.iter().enumerate() {
        let key = &variable.key;
        if key.is_empty() || key.contains(['=', '\0']) {
            return Err(Refusal::new(format!("envs[{index}].key"), format!("{key:?} names no variable")));
        }
        let value = std::str::from_utf8(&variable.value).ok().filter(|value| !value.contains('\0'));
        let Some(value) = value else {
            // The value may be a secret: it is not shown.
            let cause = format!("the value of {key} is not text in UTF-8, or has a zero byte");
            return Err(Refusal::new(format!("envs[{index}].value"), cause));
        };
        all.set(format!("{key}={value}"));
    }
    Ok(all.variables)
}

/// Variables in the order in which they were first set, each found by its name: there may be many thousands.
struct Environment {
    variables: Vec<String>,
    places: HashMap<String, usize>,
}

impl Environment {
    fn of(variables: Vec<String>) -> Self {
        let mut all = Self { variables: vec![], places: HashMap::new() };
        variables.into_iter().for_each(|variable| all.set(variable));
        all
    }

    fn set(&mut self, variable: String) {
        let name = variable.split_once('=').map_or(variable.as_str(), |(name, _)| name);
        let place = *self.places.entry(name.to_owned()).or_insert(self.variables.len());
        match self.variables.get_mut(place) {
            Some(known) => *known = variable,
            None => self.variables.push(variable),
        }
    }
}

fn cwd(asked: &ContainerRequest<'_>) -> Result<PathBuf, Refusal> {
    let (own, images) = (&asked.config.working_dir, &asked.image.working_dir);
    if own.is_empty() {
        // An image may say it without the slash, and means it from `/`.
        return Ok(inside(images));
    }
    if !own.starts_with('/') {
        return Err(Refusal::new("working_dir", format!("{own:?} is not absolute")));
    }
    Ok(inside(own))
}

fn user(asked: &ContainerRequest<'_>, ids: Option<&IdMappings>) -> Result<WantedUser, Refusal> {
    let security = asked.security();
    let number = |number: i64, kind: Kind, name: &str| id(number, kind, ids, &format!("{SECURITY}.{name}"));
    let uid = security.run_as_user.map(|uid| number(uid.value, Kind::User, "run_as_user")).transpose()?;
    let gid = security.run_as_group.map(|gid| number(gid.value, Kind::Group, "run_as_group")).transpose()?;
    let name = Some(security.run_as_username.clone()).filter(|name| !name.is_empty());
    match (uid.is_some(), name.is_some(), gid.is_some()) {
        (true, true, _) => {
            let cause = "is given together with run_as_user";
            return Err(Refusal::new(format!("{SECURITY}.run_as_username"), cause));
        }
        (false, false, true) => {
            let cause = "is given without run_as_user and run_as_username";
            return Err(Refusal::new(format!("{SECURITY}.run_as_group"), cause));
        }
        _ => {}
    }
    let images = Some(asked.image.user.clone()).filter(|user| !user.is_empty() && uid.is_none());
    let groups = security.supplemental_groups.iter();
    let groups = groups.map(|group| number(*group, Kind::Group, "supplemental_groups"));
    Ok(WantedUser {
        name: name.or(images),
        uid,
        gid,
        groups: groups.collect::<Result<_, _>>()?,
        policy: policy(&security)?,
    })
}

fn policy(security: &LinuxContainerSecurityContext) -> Result<GroupPolicy, Refusal> {
    match SupplementalGroupsPolicy::try_from(security.supplemental_groups_policy) {
        Ok(SupplementalGroupsPolicy::Merge) => Ok(GroupPolicy::Merge),
        Ok(SupplementalGroupsPolicy::Strict) => Ok(GroupPolicy::Strict),
        Err(_) => {
            let cause = format!("{} is no policy", security.supplemental_groups_policy);
            Err(Refusal::new(format!("{SECURITY}.supplemental_groups_policy"), cause))
        }
    }
}
