//! Which system calls a container may make.

use std::path::Path;

use container::Seccomp;
use container::capabilities::Sets;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use types::Refusal;

use super::super::request::{ContainerRequest, SECURITY};
use super::profile::Profile;

/// A seccomp profile in OCI's format, with the fields that every engine enforces. Unknown fields are refused: a profile
/// of another format, read without its own fields, would allow more than it should.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    default_action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_errno_ret: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    architectures: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flags: Vec<String>,
    #[serde(default)]
    syscalls: Vec<Rule>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    names: Vec<String>,
    action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errno_ret: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    args: Vec<Argument>,
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "the format allows comments")]
    comment: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Argument {
    index: u32,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

/// Refused: it needs a supervisor process for the whole life of the container.
const NOTIFY: &str = "SCMP_ACT_NOTIFY";

/// The filter. Nothing said means none, as callers without a default of their own want it.
pub(crate) fn seccomp(asked: &ContainerRequest<'_>, capabilities: &Sets) -> Result<Seccomp, Refusal> {
    let security = asked.security();
    let (today, old) = (format!("{SECURITY}.seccomp"), format!("{SECURITY}.seccomp_profile_path"));
    let profile = Profile::of(&today, security.seccomp.as_ref(), &old, &security.seccomp_profile_path)?;
    let field = if security.seccomp.is_some() { format!("{today}.localhost_ref") } else { old };
    match profile {
        _ if security.privileged => Ok(Seccomp::Unconfined),
        Profile::Unsaid | Profile::Unconfined => Ok(Seccomp::Unconfined),
        Profile::Default => Ok(Seccomp::Profile(Box::new(container::seccomp::runtime_default(capabilities)))),
        Profile::Local(path) => read(asked, Path::new(&path), &field),
    }
}

fn read(asked: &ContainerRequest<'_>, path: &Path, field: &str) -> Result<Seccomp, Refusal> {
    let refused = |cause: String| Refusal::new(field, format!("{}: {cause}", path.display()));
    if !path.is_absolute() {
        return Err(refused("is not absolute".to_owned()));
    }
    let bytes = (asked.read_profile)(path).map_err(|error| refused(error.to_string()))?;
    let wrong =
        |cause: String| refused(cause).with_hint("write the profile in the form of OCI's linux.seccomp");
    let tree: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if !all_named(&tree) {
        return Err(wrong("a list stands where fields with names are wanted".to_owned()));
    }
    let file: File = serde_json::from_value(tree).map_err(|error| wrong(error.to_string()))?;
    let mut actions = file.syscalls.iter().map(|rule| &rule.action).chain([&file.default_action]);
    if actions.any(|action| action == NOTIFY) {
        return Err(refused(format!("{NOTIFY} is not something this runtime does")));
    }
    let profile = serde_json::to_value(&file).map_err(|error| refused(error.to_string()))?;
    Ok(Seccomp::Profile(Box::new(profile)))
}

/// Whether the file, its rules and their arguments are objects: a list would be read by position.
fn all_named(file: &Value) -> bool {
    let each = |value: &Value, field: &str, holds: &dyn Fn(&Value) -> bool| {
        value.get(field).and_then(Value::as_array).is_none_or(|all| all.iter().all(holds))
    };
    let rule = |rule: &Value| rule.is_object() && each(rule, "args", &Value::is_object);
    file.is_object() && each(file, "syscalls", &rule)
}
