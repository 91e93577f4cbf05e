use ids::HostId;
use rustix::io::Errno;

use super::{Answer, Limits, NOBODY, Stopped, Unsupported, trial_maps};
use crate::userns::as_user;
use crate::{Charge, Error, Result, UsernsFd};

/// Whether the caller can make user namespaces with maps; if not, what stops it.
#[must_use]
pub fn user_namespaces() -> Answer<Limits> {
    let limits = Limits::read();
    match trial_maps().and_then(|maps| UsernsFd::charged(&maps, Charge::Caller)) {
        Ok(_) => Answer::Works(limits),
        Err(error) => Answer::Refused(explain(error, &limits)),
    }
}

/// Whether they can be counted against another user than the caller, as pods' are.
#[must_use]
pub fn charged_user_namespaces() -> Answer<()> {
    trial_maps().and_then(|maps| UsernsFd::charged(&maps, Charge::Pod)).map(drop).into()
}

fn explain(error: Error, limits: &Limits) -> Unsupported {
    let Some(stopped) = stopped_by(&error, limits) else { return error.into() };
    let (cause, fix) = words(stopped, limits);
    Unsupported { error, cause, fix: Some(fix) }
}

/// What stands behind the kernel's answer to the making of the namespace itself.
fn stopped_by(error: &Error, limits: &Limits) -> Option<Stopped> {
    match error {
        Error::StartChild { errno: Errno::NOSPC | Errno::USERS } => Some(match limits.per_user {
            Some(0) => Stopped::LimitOfZero,
            _ if another_user_can() => Stopped::UserHasAll,
            _ => Stopped::LimitAround,
        }),
        Error::StartChild { errno: Errno::INVAL | Errno::NOSYS } => Some(Stopped::NoSuchThing),
        Error::StartChild { errno: Errno::PERM | Errno::ACCESS } => Some(Stopped::Forbidden),
        _ => None,
    }
}

fn another_user_can() -> bool {
    let made = || -> Result<UsernsFd> {
        let nobody =
            HostId::try_from(u64::from(NOBODY)).map_err(|error| super::unlike("take a user", &error))?;
        as_user(nobody, || UsernsFd::charged(&trial_maps()?, Charge::Caller))
    };
    made().is_ok()
}

fn words(stopped: Stopped, limits: &Limits) -> (String, String) {
    const RAISE: &str =
        "raise it: sysctl -w user.max_user_namespaces=15000, and the same line in /etc/sysctl.d";
    match stopped {
        Stopped::LimitOfZero => (
            "user.max_user_namespaces is 0 (the kernel calls that \"no space left on device\")".to_owned(),
            RAISE.to_owned(),
        ),
        Stopped::UserHasAll => {
            let limit = limits.per_user.map_or_else(|| "unknown".to_owned(), |limit| limit.to_string());
            let cause =
                format!("this user has as many user namespaces as user.max_user_namespaces allows: {limit}");
            (cause, format!("{RAISE}; or end what has them: lsns -t user"))
        }
        Stopped::LimitAround if limits.nested => (
            "a user namespace around this one is at its user.max_user_namespaces, or they are nested too deep"
                .to_owned(),
            "raise user.max_user_namespaces on the host, outside of this container".to_owned(),
        ),
        Stopped::LimitAround => {
            ("every user is at its limit of user namespaces".to_owned(), RAISE.to_owned())
        }
        Stopped::NoSuchThing => (
            "this kernel was built without user namespaces".to_owned(),
            "use a kernel with CONFIG_USER_NS".to_owned(),
        ),
        Stopped::Forbidden => match limits.forbidding().as_slice() {
            [] => (
                "making user namespaces is forbidden to this process".to_owned(),
                "run as root, outside of a chroot and of containers".to_owned(),
            ),
            settings => (
                format!("making user namespaces is forbidden by {}", settings.join(" and ")),
                "run as root, or change that setting with sysctl".to_owned(),
            ),
        },
    }
}
