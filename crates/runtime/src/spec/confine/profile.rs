//! Security profiles as CRI names them, in today's fields and in the deprecated ones.

use cri::SecurityProfile;
use cri::security_profile::ProfileType;
use types::Refusal;

use super::super::request::{ContainerRequest, SECURITY};

/// Which profile was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Profile {
    /// The request has no profile.
    Unsaid,
    /// The runtime's own.
    Default,
    /// None.
    Unconfined,
    /// One of the host's: a path or a name.
    Local(String),
}

impl Profile {
    /// From today's field, else from the deprecated one. Refusals name the field by its path in the configuration.
    pub(super) fn of(
        field: &str,
        profile: Option<&SecurityProfile>,
        deprecated_field: &str,
        deprecated_profile: &str,
    ) -> Result<Self, Refusal> {
        match profile {
            Some(profile) => Self::of_message(field, profile),
            None => Self::of_deprecated(deprecated_field, deprecated_profile),
        }
    }

    fn of_message(field: &str, profile: &SecurityProfile) -> Result<Self, Refusal> {
        let refused = |name: &str, cause: &str| Err(Refusal::new(format!("{field}.{name}"), cause));
        let kind = ProfileType::try_from(profile.profile_type);
        let local = profile.localhost_ref.as_str();
        match kind {
            Ok(ProfileType::Localhost) if local.is_empty() => {
                refused("localhost_ref", "is empty, and the profile is of type Localhost")
            }
            Ok(ProfileType::Localhost) => {
                Ok(Self::Local(local.strip_prefix("localhost/").unwrap_or(local).to_owned()))
            }
            Ok(_) if !local.is_empty() => refused("localhost_ref", "is only for profiles of type Localhost"),
            Ok(ProfileType::RuntimeDefault) => Ok(Self::Default),
            Ok(ProfileType::Unconfined) => Ok(Self::Unconfined),
            Err(_) => refused("profile_type", "is no type of a profile"),
        }
    }

    fn of_deprecated(field: &str, text: &str) -> Result<Self, Refusal> {
        match text {
            "" => Ok(Self::Unsaid),
            "runtime/default" | "docker/default" => Ok(Self::Default),
            "unconfined" => Ok(Self::Unconfined),
            _ => match text.strip_prefix("localhost/").filter(|name| !name.is_empty()) {
                Some(name) => Ok(Self::Local(name.to_owned())),
                None => {
                    let cause = format!("{text:?} is no runtime/default, unconfined or localhost/NAME");
                    Err(Refusal::new(field, cause))
                }
            },
        }
    }
}

/// The AppArmor profile of its processes.
pub(crate) fn apparmor(asked: &ContainerRequest<'_>) -> Result<Option<String>, Refusal> {
    let security = asked.security();
    let (today, old) = (format!("{SECURITY}.apparmor"), format!("{SECURITY}.apparmor_profile"));
    let profile = Profile::of(&today, security.apparmor.as_ref(), &old, &security.apparmor_profile)?;
    let field = if security.apparmor.is_some() { today } else { old };
    let Some(node) = &asked.node.apparmor else {
        return match profile {
            Profile::Unsaid | Profile::Unconfined => Ok(None),
            Profile::Default | Profile::Local(_) => {
                Err(Refusal::new(field, "AppArmor is not switched on on this node"))
            }
        };
    };
    match profile {
        Profile::Unconfined => Ok(None),
        Profile::Unsaid | Profile::Default if security.privileged => Ok(None),
        Profile::Unsaid => Ok(node.default.clone()),
        Profile::Default if node.default.is_none() => {
            let cause = "this node has no AppArmor profile of the runtime's own";
            Err(Refusal::new(field, cause).with_hint("name a loaded profile (Localhost), or Unconfined"))
        }
        Profile::Default => Ok(node.default.clone()),
        Profile::Local(name) if node.loaded.contains(&name) => Ok(Some(name)),
        Profile::Local(name) => Err(Refusal::new(field, format!("AppArmor has no profile {name:?} loaded"))),
    }
}
