//! The user of a process, from the request and the container's own `/etc/passwd` and `/etc/group`.
//!
//! The rules are those of the runtimes that Kubernetes is used with: a number needs no entry and has
//! group 0 then; a name needs one; the first group is always among the others, too.

mod files;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel::Dir;

use crate::container_spec::{GroupPolicy, User, WantedUser};
use crate::error::{Error, Result};
use files::{Group, Login, read};

const LOGINS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
/// The kernel takes no more.
const MOST_GROUPS: usize = 65_536;

/// A name that is to be looked up in the image, or an ID that need not be.
enum NameOrId<'a> {
    Id(u32),
    Name(&'a str),
}

/// Resolves `wanted` in the container whose `/` is `root`: the user, and its home directory.
pub fn resolve(root: &Dir, wanted: &WantedUser) -> Result<(User, Option<String>)> {
    let (user, group) = split(wanted.name.as_deref());
    // A group that stands beside the image's user is not that of a user the pod chose.
    let group = group.filter(|_| wanted.uid.is_none());
    let logins = read::<Login>(root, Path::new(LOGINS))?;
    let (uid, login) = first_user(wanted.uid, user, &logins)?;
    let mut groups = GroupFile { root, read: None };
    let gid = first_group(wanted.gid, group, login, &mut groups)?;
    let mut held = Held::new(gid);
    if let (GroupPolicy::Merge, Some(login)) = (wanted.policy, login) {
        let of_user = groups.all()?.iter().filter(|group| group.has(&login.name)).map(|group| group.gid);
        held.add(of_user)?;
    }
    held.add(wanted.groups.iter().copied())?;
    let held = held.groups;
    possible("user", uid)?;
    held.iter().try_for_each(|gid| possible("group", *gid))?;
    let home = login.map(|login| login.home.clone()).filter(|home| home.starts_with('/'));
    Ok((User { uid, gid, groups: held }, home))
}

/// The user's number, and its entry if it has one.
fn first_user<'l>(
    wanted: Option<u32>,
    named: Option<&str>,
    logins: &'l [Login],
) -> Result<(u32, Option<&'l Login>)> {
    let number = match (wanted, named.map(|name| name_or_id(name, "user")).transpose()?) {
        (Some(uid), _) | (None, Some(NameOrId::Id(uid))) => uid,
        (None, None) => 0,
        (None, Some(NameOrId::Name(name))) => {
            let login = find(logins, name, |login| &login.name).ok_or_else(|| Error::NoSuchUser {
                kind: "user",
                name: name.to_owned(),
                file: PathBuf::from(LOGINS),
            })?;
            return Ok((login.uid, Some(login)));
        }
    };
    Ok((number, logins.iter().find(|login| login.uid == number)))
}

fn first_group(
    wanted: Option<u32>,
    named: Option<&str>,
    login: Option<&Login>,
    groups: &mut GroupFile<'_>,
) -> Result<u32> {
    match (wanted, named.map(|name| name_or_id(name, "group")).transpose()?) {
        (Some(gid), _) | (None, Some(NameOrId::Id(gid))) => Ok(gid),
        (None, Some(NameOrId::Name(name))) => {
            find(groups.all()?, name, |group| &group.name).map(|group| group.gid).ok_or_else(|| {
                Error::NoSuchUser { kind: "group", name: name.to_owned(), file: PathBuf::from(GROUPS) }
            })
        }
        (None, None) => Ok(login.map_or(0, |login| login.gid)),
    }
}

/// `/etc/group`, read when it is first needed: a number alone starts without it.
struct GroupFile<'d> {
    root: &'d Dir,
    read: Option<Vec<Group>>,
}

impl GroupFile<'_> {
    fn all(&mut self) -> Result<&[Group]> {
        let groups = match self.read.take() {
            Some(groups) => groups,
            None => read::<Group>(self.root, Path::new(GROUPS))?,
        };
        Ok(self.read.insert(groups))
    }
}

/// `user:group`; what is empty was not said.
fn split(name: Option<&str>) -> (Option<&str>, Option<&str>) {
    let said = |text: &'_ str| !text.is_empty();
    match name.map(|name| name.split_once(':').unwrap_or((name, ""))) {
        Some((user, group)) => (Some(user).filter(|t| said(t)), Some(group).filter(|t| said(t))),
        None => (None, None),
    }
}

fn name_or_id<'a>(text: &'a str, kind: &'static str) -> Result<NameOrId<'a>> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(NameOrId::Name(text));
    }
    let number = text.parse().map_err(|_| Error::ImpossibleId { kind, id: text.to_owned() })?;
    Ok(NameOrId::Id(number))
}

fn find<'a, T>(entries: &'a [T], name: &str, name_of: impl Fn(&T) -> &String) -> Option<&'a T> {
    entries.iter().find(|entry| name_of(entry) == name)
}

/// Each once, in the order of their first naming.
struct Held {
    known: BTreeSet<u32>,
    groups: Vec<u32>,
}

impl Held {
    fn new(first: u32) -> Self {
        Self { known: BTreeSet::from([first]), groups: vec![first] }
    }

    fn add(&mut self, more: impl Iterator<Item = u32>) -> Result<()> {
        self.groups.extend(more.filter(|gid| self.known.insert(*gid)).take(MOST_GROUPS));
        if self.groups.len() <= MOST_GROUPS {
            return Ok(());
        }
        Err(Error::UnfitFile { file: GROUPS.into(), why: "the user would be in more than 65536 groups" })
    }
}

/// The kernel takes the last number for "no change".
fn possible(kind: &'static str, id: u32) -> Result<()> {
    if id == u32::MAX { Err(Error::ImpossibleId { kind, id: id.to_string() }) } else { Ok(()) }
}
