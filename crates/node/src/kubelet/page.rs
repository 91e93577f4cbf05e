//! docs/reference/kubelet-configuration.md, from the tables.

use std::fmt::Write as _;

use super::field::{Class, Field, Kind};
use super::fields::{self, FIELDS};
use super::flag::{FLAGS, Flag, FlagTarget};
use super::gates::{FeatureGate, feature_gates, is_honoured_gate};

const INTRODUCTION: &str = "\
# Configuration of a kubelet, as `wardlet agent` reads it

KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`) of Kubernetes 1.37, as kubeadm, kubespray and k3s write it, unchanged, and
the flags of a kubelet.
This page is written from the tables in `crates/node/src/kubelet`; tests hold it against them, and them
against upstream's type, flags and feature gates.

- **Order**: defaults, `--config`, drop-ins `*.conf` of `--config-dir` in lexical order with those of directories below it, flags.
  A drop-in is a JSON merge patch: maps are merged, lists are replaced, `null` goes back to the default. Each file has its own
  `apiVersion` and `kind`. Flags replace maps of files, but feature gates add up.
- **Safe without a file**: a command line without `--config` has the defaults below. A kubelet accepts anonymous requests then,
  allows every request, opens port 10255 and has no eviction thresholds; here `--anonymous-auth=true` and
  `--authorization-mode=AlwaysAllow` must be asked for.
- **Strict**: an unknown or repeated key, a wrong type, an invalid value and a contradiction stop the agent, with file, line and what
  to do. A kubelet ignores unknown keys with a warning.
- **honoured**: the agent does what a kubelet does. **no effect**: any valid value is accepted; one that is not the default is
  logged at the start with the reason. **not yet**: as no effect; the agent is to have it. **refused**: the agent does not have it; only the default is accepted.
- Relative paths in the main file are relative to that file.
";

/// The whole page.
#[must_use]
pub fn reference_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Fields\n\n| field | type | default | | |\n|---|---|---|---|---|\n");
    FIELDS.iter().filter(|field| field.kind != Kind::Object).for_each(|field| field_row(&mut page, field));
    page.push_str("\n## Flags\n\n");
    page.push_str(
        "Flags are named as a kubelet's; underscores stand for dashes. A flag of a field does what the field does.\n\n",
    );
    page.push_str("| flag | sets | | passed by |\n|---|---|---|---|\n");
    FLAGS.iter().for_each(|flag| flag_row(&mut page, flag));
    gates(&mut page);
    page
}

fn field_row(page: &mut String, field: &Field) {
    let kind = match field.kind {
        Kind::OneOf(values) => values.iter().map(|value| code(value)).collect::<Vec<_>>().join(", "),
        kind => kind.name().to_owned(),
    };
    let (class, words) = words(&field.class);
    let _ = writeln!(page, "| `{}` | {kind} | {} | {class} | {words} |", field.path, code(field.default));
}

fn words(class: &Class) -> (&'static str, String) {
    match class {
        Class::Honoured { note } => ("honoured", (*note).to_owned()),
        Class::NoEffect { reason } => ("no effect", (*reason).to_owned()),
        Class::NotYet { what } => ("not yet", format!("the agent has no {what} yet")),
        Class::Refused { also: [], reason, hint } => ("refused", format!("{reason}: {hint}")),
        Class::Refused { also, reason, hint } => {
            let also = also.iter().map(|value| code(value)).collect::<Vec<_>>().join(", ");
            ("refused", format!("{reason}: {hint}. Accepted too: {also}"))
        }
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn flag_row(page: &mut String, flag: &Flag) {
    let (sets, does) = match flag.target {
        FlagTarget::Field(path) => {
            let class = fields::find(path).map_or("", |field| words(&field.class).0);
            (format!("`{path}`"), class.to_owned())
        }
        FlagTarget::Node(_) => ("the node itself".to_owned(), "honoured".to_owned()),
        FlagTarget::NoEffect(reason) => (String::new(), format!("no effect: {reason}")),
        FlagTarget::Refused { reason, hint } => (String::new(), format!("refused: {reason}: {hint}")),
    };
    let removed = if flag.is_removed { " (gone from 1.37)" } else { "" };
    let _ = writeln!(page, "| `--{}`{removed} | {sets} | {does} | {} |", flag.name, flag.passed_by);
}

fn gates(page: &mut String) {
    let list = |gates: &dyn Fn(&FeatureGate) -> bool| {
        let names = feature_gates().filter(|gate| gates(gate)).map(|gate| format!("`{}`", gate.name));
        names.collect::<Vec<_>>().join(", ")
    };
    let own = |gate: &FeatureGate| gate.is_of_nodes && !gate.is_locked && !is_honoured_gate(gate.name);
    page.push_str("\n## Feature gates\n\nThe names are those of Kubernetes 1.37; another name is refused. A gate at its default is accepted, a locked gate at\n");
    page.push_str("its other value is refused, and gates of other components have no effect. `AllAlpha` may be false; `AllBeta` is refused.\n\n");
    page.push_str("| gates | set to the other value |\n|---|---|\n");
    let honoured = list(&|gate| is_honoured_gate(gate.name) && !gate.is_locked);
    let _ = writeln!(page, "| {honoured} | honoured |");
    let _ = writeln!(page, "| {} | no effect | ", list(&|gate| own(gate) && gate.default));
    let _ = writeln!(
        page,
        "| {} | refused: the agent does not have the feature |",
        list(&|gate| own(gate) && !gate.default)
    );
}
