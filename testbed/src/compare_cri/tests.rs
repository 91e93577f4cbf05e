//! Every field of every compared request, altered once and left out once: the comparison must see it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Against;
use super::difference::{Difference, Documented, between};
use super::recording::{COMPARED, Recording};
use super::schema::{Field, Shape, schema};
use crate::recorder::Call;

/// What is done to one field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Altered(usize),
    LeftOut(usize),
}

/// Encodes a message with each of its fields set, and counts them.
struct Encoder {
    change: Change,
    paths: Vec<String>,
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

fn bytes(number: u64, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(u64::try_from(content.len()).unwrap()), content.to_vec()].concat()
}

impl Encoder {
    fn message(&mut self, name: &str, path: &str) -> Vec<u8> {
        let fields = &schema().messages[name];
        fields.iter().flat_map(|field| self.field(field, &format!("{path}.{}", field.name))).collect()
    }

    fn field(&mut self, field: &Field, path: &str) -> Vec<u8> {
        if schema().messages.contains_key(&field.of) {
            let inner = self.message(&field.of, path);
            return bytes(field.number, &inner);
        }
        let index = self.paths.len();
        self.paths.push(path.to_owned());
        if self.change == Change::LeftOut(index) {
            return Vec::new();
        }
        let altered = self.change == Change::Altered(index);
        let text = format!("{}{index:04}", if altered { "altered" } else { "text" });
        match (field.shape, field.of.as_str()) {
            (Shape::Map, _) => bytes(field.number, &[bytes(1, b"key"), bytes(2, text.as_bytes())].concat()),
            (_, "string" | "bytes") => bytes(field.number, text.as_bytes()),
            (_, "bool") => [varint(field.number << 3), varint(u64::from(!altered))].concat(),
            (_, kind) if schema().is_enum(kind) => {
                [varint(field.number << 3), varint(if altered { 2 } else { 1 })].concat()
            }
            _ => {
                let number = u64::try_from(index).unwrap() + if altered { 100_000 } else { 1_000 };
                [varint(field.number << 3), varint(number)].concat()
            }
        }
    }
}

struct Encoded {
    call: Call,
    paths: Vec<String>,
}

fn encoded(method: &str, change: Change) -> Encoded {
    let mut encoder = Encoder { change, paths: Vec::new() };
    let request = encoder.message(schema().request(method).unwrap(), method);
    let response = STANDARD.encode(bytes(1, b"the-object"));
    let call = Call { path: format!("/runtime.v1/{method}"), request: STANDARD.encode(request), response };
    Encoded { call, paths: encoder.paths }
}

fn differences(theirs: &Call, ours: &Call) -> Vec<Difference> {
    let of = |call: &Call| Recording::of(std::slice::from_ref(call)).unwrap();
    between(&of(theirs), &of(ours), &Documented::read(Against::Run))
}

/// What two runs cannot have in common: the pod's UID, and the first host ID of its block.
const REPLACED: [&str; 4] = [
    "RunPodSandbox.config.metadata.uid",
    "RunPodSandbox.config.linux.security_context.namespace_options.userns_options.uids.host_id",
    "CreateContainer.sandbox_config.metadata.uid",
    "CreateContainer.sandbox_config.linux.security_context.namespace_options.userns_options.uids.host_id",
];

/// A kubelet also sends limits of the cgroup that it makes around a pod. We make none, so that each of these fields may
/// be missing.
fn is_of_pod_group(path: &str) -> bool {
    path.contains("sandbox_config.linux.resources.")
        || path.starts_with("RunPodSandbox.config.linux.resources.")
}

#[test]
fn a_field_that_is_altered_or_left_out_is_an_undocumented_difference() {
    let documented = Documented::read(Against::Run);
    let mut unseen = Vec::new();
    let mut fields = 0;
    for method in COMPARED {
        let base = encoded(method, Change::None);
        assert_eq!(differences(&base.call, &base.call), []);
        for (index, path) in base.paths.iter().enumerate() {
            fields += 1;
            let altered = differences(&base.call, &encoded(method, Change::Altered(index)).call);
            if altered.iter().all(|one| documented.has(one)) {
                unseen.push(path.clone());
            }
            let without = encoded(method, Change::LeftOut(index)).call;
            for (theirs, ours) in [(false, true), (true, false)] {
                let of = |out: bool| if out { &without } else { &base.call };
                let left = differences(of(theirs), of(ours));
                assert!(!left.is_empty(), "{path} can be left out unseen");
                let is_documented = left.iter().all(|one| documented.has(one));
                assert!(!is_documented || (ours && is_of_pod_group(path)), "{path}: {left:?}");
            }
        }
    }
    assert_eq!(unseen, REPLACED, "fields that can be altered unseen, of {fields}");
    assert!(fields > 250, "{fields} fields");
}

#[test]
fn a_field_that_our_proto_files_do_not_have_is_a_difference() {
    let base = encoded("CreateContainer", Change::None).call;
    let request = [STANDARD.decode(&base.request).unwrap(), bytes(99, b"new")].concat();
    let more = Call { request: STANDARD.encode(request), ..base.clone() };
    let found = differences(&more, &base);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].field.as_str(), found[0].wardlet.as_str()), ("unknown field 99[0]", "none"));
    assert!(!Documented::read(Against::Run).has(&found[0]));
}

fn recording(calls: &[(&str, Vec<u8>, &str)]) -> Recording {
    let calls: Vec<Call> = calls
        .iter()
        .map(|(method, request, made)| Call {
            path: format!("/runtime.v1/{method}"),
            request: STANDARD.encode(request),
            response: STANDARD.encode(if made.is_empty() { Vec::new() } else { bytes(1, made.as_bytes()) }),
        })
        .collect();
    Recording::of(&calls).unwrap()
}

/// The same pod in two runs: other IDs, another directory of all pods.
#[test]
fn what_differs_from_run_to_run_is_no_difference() {
    let run = |uid: &str, root: &str, sandbox: &str, container: &str| {
        let metadata = bytes(1, &[bytes(1, b"web"), bytes(2, uid.as_bytes())].concat());
        let logs = bytes(3, format!("{root}/logs/default_web_{uid}").as_bytes());
        let config = [metadata, logs].concat();
        let path = format!("{root}/pods/{uid}/volumes/v");
        let mount = bytes(7, &[bytes(1, b"/v"), bytes(2, path.as_bytes())].concat());
        let address =
            bytes(6, &[bytes(1, b"IP"), bytes(2, format!("10.88.0.{}", uid.len()).as_bytes())].concat());
        let of_container = bytes(2, &[bytes(1, &bytes(1, b"main")), mount, address].concat());
        let create = [bytes(1, sandbox.as_bytes()), of_container, bytes(3, &config)].concat();
        recording(&[
            ("RunPodSandbox", bytes(1, &config), sandbox),
            ("CreateContainer", create, container),
            ("StartContainer", bytes(1, container.as_bytes()), ""),
            ("StopContainer", [bytes(1, container.as_bytes()), vec![0x10, 3]].concat(), ""),
        ])
    };
    let (theirs, ours) = (run("u-1", "/var/lib/kubelet", "s1", "c1"), run("u-22", "/state", "s2", "c2"));
    assert_eq!(between(&theirs, &ours, &Documented::read(Against::Run)), []);
    assert_eq!(theirs.started.iter().collect::<Vec<_>>(), ["web/main"]);
    let stop = &ours.pods["web"]["StopContainer main"];
    assert_eq!(stop.iter().next().unwrap()["container_id"], "<main>");
}

fn image_status(annotations: &[(&str, &str)], more: &[u8]) -> (&'static str, Vec<u8>, &'static str) {
    let entry = |(key, text): &(&str, &str)| {
        bytes(2, &[bytes(1, key.as_bytes()), bytes(2, text.as_bytes())].concat())
    };
    let annotations = annotations.iter().flat_map(entry).collect();
    ("ImageStatus", bytes(1, &[bytes(1, b"app:1"), annotations, more.to_vec()].concat()), "")
}

/// A kubelet asks with annotations whether the image is there, and without for its user; how many distinct requests there are
/// depends on the pods. The comparison of a few pods failed because one of them had no counterpart by order.
#[test]
fn the_status_of_an_image_may_be_asked_for_as_often_as_a_client_likes() {
    let seen = [("kubernetes.io/config.seen", "2026-01-01"), ("kubernetes.io/config.source", "api")];
    let with_note = [seen[0], seen[1], ("note", "hello")];
    let documented = Documented::read(Against::Run);
    let undocumented = |theirs: &[_], ours: &[_]| {
        let mut all = between(&recording(theirs), &recording(ours), &documented);
        all.retain(|one| !documented.has(one));
        all
    };
    let theirs = [image_status(&seen, &[]), image_status(&[], &[])];
    assert_eq!(undocumented(&theirs, &[image_status(&[], &[])]), []);
    let handler = bytes(19, b"runc");
    let ours = [image_status(&[], &[]), image_status(&[], &handler)];
    assert_eq!(undocumented(&theirs, &ours), []);
    // Every distinct request counts, on both sides, in whatever order they are.
    let noted = [image_status(&with_note, &[]), image_status(&[], &[])];
    let found = undocumented(&noted, &[image_status(&[], &[])]);
    assert_eq!(found.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), ["image.annotations[note]"]);
    assert_eq!(undocumented(&noted, &[image_status(&with_note[2..], &[]), image_status(&[], &[])]), []);
    let other = [image_status(&[], &[]), image_status(&[], &bytes(18, b"app"))];
    assert_eq!(undocumented(&theirs, &other).len(), 1);
    assert_eq!(undocumented(&theirs, &[]).len(), 2, "no request at all");
}
