//! What differs between two recordings, and which differences are documented.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Against;
use super::flat::Flat;
use super::recording::Recording;

/// The documentation, whose tables are the list of differences that may be.
const DOCUMENT: &str = include_str!("../../../docs/reference/kubelet-differences.md");

/// The heading of the part of it that is about `wardlet agent`; what is before it is about `wardlet run`.
const AGENT_PART: &str = "\n## The agent of a node\n";

/// In place of a field's value: the request has no such field, or there is no such call.
const NONE: &str = "none";

/// Calls that change nothing and that a client makes as often as it likes.
const ASKED_AGAIN: &str = "ImageStatus ";

/// In place of a field: the call as a whole.
const CALL: &str = "call";

/// One field that is not the same in both recordings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Difference {
    pub(crate) pod: String,
    /// The method, and what it is about.
    pub(crate) call: String,
    /// The field's path, or [`CALL`] if one client does not make the call at all.
    pub(crate) field: String,
    pub(crate) kubelet: String,
    pub(crate) wardlet: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, field, kubelet, wardlet, .. } = self;
        write!(f, "{call}: {field}: kubelet {kubelet:?}, wardlet {wardlet:?}")
    }
}

/// All differences between the recording of a kubelet and ours, sorted. What is documented only decides which of several
/// requests is taken for the counterpart of one.
pub(crate) fn between(kubelet: &Recording, wardlet: &Recording, documented: &Documented) -> Vec<Difference> {
    let mut all = Vec::new();
    let pods: BTreeSet<&String> = kubelet.pods.keys().chain(wardlet.pods.keys()).collect();
    for pod in pods {
        let (theirs, ours) = (kubelet.pods.get(pod), wardlet.pods.get(pod));
        let calls: BTreeSet<&String> = theirs.into_iter().chain(ours).flat_map(BTreeMap::keys).collect();
        for call in calls {
            let requests = |of: Option<&BTreeMap<String, BTreeSet<Flat>>>| {
                of.and_then(|calls| calls.get(call)).cloned().unwrap_or_default()
            };
            let (theirs, ours) = (requests(theirs), requests(ours));
            let named = |fields: Fields| -> Vec<Difference> {
                let one = |(field, kubelet, wardlet)| Difference {
                    pod: pod.clone(),
                    call: call.clone(),
                    field,
                    kubelet,
                    wardlet,
                };
                fields.into_iter().map(one).collect()
            };
            let is_asked_again = call.starts_with(ASKED_AGAIN) && !theirs.is_empty() && !ours.is_empty();
            if is_asked_again {
                all.extend(of_counterparts(&theirs, &ours, documented, named));
            } else {
                all.extend(named(of_call(&theirs, &ours)));
            }
        }
    }
    all.sort();
    all
}

/// Field, the kubelet's value, ours.
type Fields = Vec<(String, String, String)>;

/// Requests that both have are left out; the others are compared in their order.
fn of_call(theirs: &BTreeSet<Flat>, ours: &BTreeSet<Flat>) -> Fields {
    let only_theirs: Vec<&Flat> = theirs.difference(ours).collect();
    let only_ours: Vec<&Flat> = ours.difference(theirs).collect();
    let mut all = Vec::new();
    for index in 0..only_theirs.len().max(only_ours.len()) {
        match (only_theirs.get(index), only_ours.get(index)) {
            (Some(theirs), Some(ours)) => all.extend(of_fields(theirs, ours)),
            (theirs, ours) => {
                let shown = |one: Option<&&Flat>| one.map_or_else(|| NONE.to_owned(), |one| brief(one));
                all.push((CALL.to_owned(), shown(theirs), shown(ours)));
            }
        }
    }
    all
}

/// Each request is compared with that of the other client from which it has the fewest undocumented differences. A kubelet asks
/// for the status of an image with the pod's annotations before and after a pull, and without them for the image's user: how
/// many distinct requests there are depends on the pods, so that they have no counterpart by their order.
fn of_counterparts(
    theirs: &BTreeSet<Flat>,
    ours: &BTreeSet<Flat>,
    documented: &Documented,
    named: impl Fn(Fields) -> Vec<Difference>,
) -> BTreeSet<Difference> {
    let nearest = |candidates: Vec<Vec<Difference>>| {
        let rank = |all: &Vec<Difference>| {
            (all.iter().filter(|one| documented.row(one).is_none()).count(), all.len())
        };
        candidates.into_iter().min_by_key(rank).unwrap_or_default()
    };
    let compared = |their: &Flat, our: &Flat| named(of_fields(their, our));
    let of_theirs = theirs.iter().map(|one| nearest(ours.iter().map(|other| compared(one, other)).collect()));
    let of_ours = ours.iter().map(|one| nearest(theirs.iter().map(|other| compared(other, one)).collect()));
    of_theirs.chain(of_ours).flatten().collect()
}

/// The fields of a request that only one client makes, as far as they fit on a line.
fn brief(request: &Flat) -> String {
    let fields: Vec<String> = request.iter().map(|(path, text)| format!("{path}={text}")).collect();
    fields.join(" ").chars().take(120).collect()
}

fn of_fields(theirs: &Flat, ours: &Flat) -> Fields {
    let paths: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let of = |side: &Flat, path: &String| side.get(path).cloned().unwrap_or_else(|| NONE.to_owned());
    let each = paths.into_iter().map(|path| (path.clone(), of(theirs, path), of(ours, path)));
    each.filter(|(_, theirs, ours)| theirs != ours).collect()
}

/// The differences as lines, those of several pods as one.
pub(crate) fn grouped(all: &[Difference]) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in all {
        groups.entry(one.to_string()).or_default().push(&one.pod);
    }
    let line = |(text, pods): (String, Vec<&str>)| match pods.as_slice() {
        [pod] => format!("{pod}: {text}"),
        [pod, ..] => format!("{pod} and {} more: {text}", pods.len() - 1),
        [] => text,
    };
    groups.into_iter().map(line).collect()
}

/// A row of the documentation: which calls and fields may differ, and how.
#[derive(Debug)]
pub(crate) struct Row {
    call: String,
    field: String,
    kubelet: String,
    wardlet: String,
    /// Whether a comparison may be without it: the reason begins with "sometimes".
    is_rare: bool,
    used: Cell<bool>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} | {} | {} |", self.call, self.field, self.kubelet, self.wardlet)
    }
}

/// The documented differences.
#[derive(Debug)]
pub(crate) struct Documented(Vec<Row>);

impl Documented {
    /// Those of docs/reference/kubelet-differences.md that are about this client.
    pub(crate) fn read(against: Against) -> Self {
        let (of_run, of_agent) = DOCUMENT.split_once(AGENT_PART).unwrap_or((DOCUMENT, ""));
        Self::of(match against {
            Against::Run => of_run,
            Against::Agent => of_agent,
        })
    }

    /// The rows of all tables whose first cell is code. Code spans are patterns with `*`, `none` an absent field; a call
    /// may begin with the name of a pod.
    pub(crate) fn of(text: &str) -> Self {
        let rows = text.lines().filter(|line| line.starts_with("| `")).filter_map(|line| {
            let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect();
            let [call, field, kubelet, wardlet, reason] = cells.as_slice() else { return None };
            let text = |cell: &str| cell.to_owned();
            (!reason.is_empty()).then(|| Row {
                call: text(call),
                field: text(field),
                kubelet: text(kubelet),
                wardlet: text(wardlet),
                is_rare: reason.starts_with("sometimes"),
                used: Cell::new(false),
            })
        });
        Self(rows.collect())
    }

    /// Whether the documentation has this difference.
    pub(crate) fn has(&self, difference: &Difference) -> bool {
        self.row(difference).inspect(|row| row.used.set(true)).is_some()
    }

    /// The row that has this difference.
    fn row(&self, difference: &Difference) -> Option<&Row> {
        self.0.iter().find(|row| {
            let pairs = [
                (&row.field, &difference.field),
                (&row.kubelet, &difference.kubelet),
                (&row.wardlet, &difference.wardlet),
            ];
            let of_pod = format!("{}: {}", difference.pod, difference.call);
            (matches(&row.call, &difference.call) || matches(&row.call, &of_pod))
                && pairs.iter().all(|(pattern, text)| matches(pattern, text))
        })
    }

    /// Rows that no difference has matched, except those that are not in every run.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(|row| !row.used.get() && !row.is_rare)
    }
}

/// Whether a text matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|tail| {
            let ends = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
            ends.into_iter().any(|at| tail.get(at..).is_some_and(|tail| matches(rest, tail)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_the_whole_text() {
        assert!(matches("*config.linux.cgroup_parent", "sandbox_config.linux.cgroup_parent"));
        assert!(matches("Create* attempt *", "CreateContainer main attempt 0") && matches("*", ""));
        assert!(!matches("config.args[0]", "config.args[01]") && !matches("a*b", "ab c"));
    }

    #[test]
    fn a_row_without_a_reason_documents_nothing() {
        let text = "| `StopContainer *` | `timeout` | `2` | `1` | why |\n| `*` | `*` | `*` | `*` |  |\n";
        let rows = Documented::of(text);
        let difference = |field: &str, wardlet: &str| Difference {
            pod: "p".into(),
            call: "StopContainer main".into(),
            field: field.into(),
            kubelet: "2".into(),
            wardlet: wardlet.into(),
        };
        assert!(!rows.has(&difference("other", "1")) && !rows.has(&difference("timeout", "3")));
        assert_eq!(rows.unused().count(), 1);
        assert!(rows.has(&difference("timeout", "1")));
        assert_eq!(rows.unused().count(), 0);
        let rare = Documented::of("| `*` | `call` | none | `*` | sometimes: under load |\n");
        assert_eq!(rare.unused().count(), 0);
    }
}
