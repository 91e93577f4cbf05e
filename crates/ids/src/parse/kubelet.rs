//! The kubelet's record of a pod's user namespace, `pods/<uid>/userns` under its root directory.
//!
//! Accepted is what the kubelet accepts: unknown fields are ignored, `null` is nothing, a number
//! left out is 0, the last of two equal keys counts. We are stricter than Go where it cannot matter to a record that a kubelet wrote:
//! keys match in their exact case only, and text that is not UTF-8 is refused.

use serde_json::{Map, Value};

use crate::block::{BlockError, IdBlock};
use crate::mapping::{IdMapping, MappingError};
use crate::span::HostSpan;

/// The one past the last number an ID could have: a record that ends here contains 2^32-1.
const WRAP: u64 = 1 << 32;

/// What the kubelet noted for a pod: one map, for users and groups alike, from root inside.
///
/// The host IDs are whatever the kubelet gave out, possibly the host's own: [`Self::block`] judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubeletRecord {
    /// Its container side starts at 0.
    mapping: IdMapping,
}

/// Why a record is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No JSON, or JSON of another shape.
    #[error("not a userns record: {0}")]
    NotJson(String),
    /// Not one mapping on each side.
    #[error("expected one uid and one gid mapping, found {uid} and {gid}")]
    WrongCount {
        /// How many uid mappings.
        uid: usize,
        /// How many gid mappings.
        gid: usize,
    },
    /// The mapping for users is not that for groups.
    #[error("uidMappings and gidMappings differ")]
    Differ,
    /// The map does not start at root inside.
    #[error("containerId is {container_id}, not 0")]
    NotRoot {
        /// Where it starts.
        container_id: u32,
    },
    /// The block ends at 4294967295, which the kernel refuses to map.
    #[error("{length} host IDs from {host_id} contain 4294967295, which the kernel cannot map")]
    LastId {
        /// The first host ID.
        host_id: u32,
        /// How many.
        length: u32,
    },
    /// The numbers are no runs of IDs.
    #[error(transparent)]
    Impossible(MappingError),
}

impl KubeletRecord {
    /// The record that hands this block to a kubelet.
    #[must_use]
    pub fn of_block(block: IdBlock) -> Self {
        Self { mapping: IdMapping::of_block(block) }
    }

    /// The map, for users and groups alike.
    #[must_use]
    pub fn mapping(&self) -> IdMapping {
        self.mapping
    }

    /// The host IDs.
    #[must_use]
    pub fn span(&self) -> HostSpan {
        self.mapping.host()
    }

    /// The host IDs as a block that could be leased. A kubelet whose range wrapped around noted
    /// host IDs 0-65535; those are refused here.
    pub fn block(&self) -> Result<IdBlock, BlockError> {
        IdBlock::new(self.span().first().into(), self.span().length())
    }

    /// The record byte for byte as a kubelet writes it.
    #[must_use]
    pub fn to_json(&self) -> String {
        let (host, length) = (self.span().first(), self.span().length());
        let line = format!(r#"[{{"hostId":{host},"containerId":0,"length":{length}}}]"#);
        format!(r#"{{"uidMappings":{line},"gidMappings":{line}}}"#)
    }
}

/// Reads a record file. No bytes at all mean a pod without a user namespace.
pub fn parse_record(bytes: &[u8]) -> Result<Option<KubeletRecord>, RecordError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let root: Value = serde_json::from_slice(bytes).map_err(|e| RecordError::NotJson(e.to_string()))?;
    let root = object("record", &root)?;
    let (uids, gids) = (lines(root, "uidMappings")?, lines(root, "gidMappings")?);
    let ([uid], [gid]) = (uids.as_slice(), gids.as_slice()) else {
        return Err(RecordError::WrongCount { uid: uids.len(), gid: gids.len() });
    };
    if uid != gid {
        return Err(RecordError::Differ);
    }
    uid.record().map(Some)
}

/// A mapping as written, before anything is asked of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    host_id: u32,
    container_id: u32,
    length: u32,
}

impl Line {
    fn read(value: &Value) -> Result<Self, RecordError> {
        let fields = object("mapping", value)?;
        Ok(Self {
            host_id: number(fields, "hostId")?,
            container_id: number(fields, "containerId")?,
            length: number(fields, "length")?,
        })
    }

    fn record(self) -> Result<KubeletRecord, RecordError> {
        let Self { host_id, container_id, length } = self;
        if container_id != 0 {
            return Err(RecordError::NotRoot { container_id });
        }
        if u64::from(host_id) + u64::from(length) == WRAP {
            return Err(RecordError::LastId { host_id, length });
        }
        let mapping = IdMapping::new(0, host_id.into(), length.into()).map_err(RecordError::Impossible)?;
        Ok(KubeletRecord { mapping })
    }
}

type Fields = Map<String, Value>;

fn lines(fields: Option<&Fields>, key: &str) -> Result<Vec<Line>, RecordError> {
    match fields.and_then(|f| f.get(key)) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(Line::read).collect(),
        Some(_) => Err(RecordError::NotJson(format!("{key} is not a list"))),
    }
}

fn object<'a>(what: &str, value: &'a Value) -> Result<Option<&'a Fields>, RecordError> {
    match value {
        Value::Null => Ok(None),
        Value::Object(fields) => Ok(Some(fields)),
        _ => Err(RecordError::NotJson(format!("the {what} is not an object"))),
    }
}

fn number(fields: Option<&Fields>, key: &str) -> Result<u32, RecordError> {
    match fields.and_then(|f| f.get(key)) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_u64().and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
            RecordError::NotJson(format!("{key} {value} is not a whole number from 0 to 4294967295"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(uid: &str, gid: &str) -> String {
        format!(r#"{{"uidMappings":[{uid}],"gidMappings":[{gid}]}}"#)
    }

    fn line(host: u64, container: u64, length: u64) -> String {
        format!(r#"{{"hostId":{host},"containerId":{container},"length":{length}}}"#)
    }

    fn read(text: &str) -> Result<KubeletRecord, RecordError> {
        parse_record(text.as_bytes()).map(|record| record.expect("not zero bytes"))
    }

    fn read_both(line: &str) -> Result<KubeletRecord, RecordError> {
        read(&text(line, line))
    }

    #[test]
    fn a_record_is_written_as_the_kubelet_writes_it_and_read_back() {
        let record = KubeletRecord::of_block(IdBlock::new(131_072, 65_536).unwrap());
        let json = r#"{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}"#;
        assert_eq!(record.to_json(), json);
        assert_eq!(parse_record(json.as_bytes()), Ok(Some(record)));
        assert_eq!(record.mapping(), IdMapping::new(0, 131_072, 65_536).unwrap());
    }

    #[test]
    fn no_bytes_are_a_pod_without_a_user_namespace() {
        assert_eq!(parse_record(b""), Ok(None));
        assert!(matches!(parse_record(b"\n"), Err(RecordError::NotJson(_))));
    }

    #[test]
    fn fields_of_a_newer_kubelet_are_ignored() {
        let line = r#"{"hostId":65536,"containerId":0,"length":65536,"since":"1.40"}"#;
        let json = format!(r#" {{"version":{{"x":[1.5]}},"gidMappings":[{line}],"uidMappings":[{line}]}} "#);
        assert_eq!(read(&json).unwrap().span(), HostSpan::new(65_536, 65_536).unwrap());
    }

    #[test]
    fn any_other_shape_is_no_record() {
        let not_json = |text: &str| assert!(matches!(read(text), Err(RecordError::NotJson(_))), "{text}");
        for root in ["{", "[]", "7", r#""x""#, "{} {}", r#"{"uidMappings":{}}"#, r#"{"uidMappings":[7]}"#] {
            not_json(root);
        }
        not_json(&text("[65536,0,65536]", "[65536,0,65536]"));
        assert!(matches!(parse_record(b"{\"\xff\":1}"), Err(RecordError::NotJson(_))));
    }

    #[test]
    fn a_number_that_gos_uint32_does_not_take_is_refused() {
        for bad in
            ["-1", "-0", "65536.0", "6.5e4", "4294967296", "18446744073709551616", r#""65536""#, "true"]
        {
            let line = format!(r#"{{"hostId":{bad},"containerId":0,"length":65536}}"#);
            let e = read_both(&line).unwrap_err();
            assert!(matches!(&e, RecordError::NotJson(why) if why.starts_with("hostId ")), "{bad}: {e}");
        }
    }

    #[test]
    fn there_is_just_one_mapping_on_each_side() {
        let one = line(65_536, 0, 65_536);
        let two = format!("{one},{one}");
        assert_eq!(read("{}"), Err(RecordError::WrongCount { uid: 0, gid: 0 }));
        assert_eq!(read("null"), Err(RecordError::WrongCount { uid: 0, gid: 0 }));
        assert_eq!(read(r#"{"uidMappings":null}"#), Err(RecordError::WrongCount { uid: 0, gid: 0 }));
        assert_eq!(read(&text(&one, "")), Err(RecordError::WrongCount { uid: 1, gid: 0 }));
        assert_eq!(read(&text(&one, &two)), Err(RecordError::WrongCount { uid: 1, gid: 2 }));
        assert_eq!(read(&text(&two, &two)), Err(RecordError::WrongCount { uid: 2, gid: 2 }));
    }

    #[test]
    fn users_and_groups_have_the_same_mapping() {
        let uid = line(65_536, 0, 65_536);
        for gid in [line(131_072, 0, 65_536), line(65_536, 1, 65_536), line(65_536, 0, 131_072)] {
            assert_eq!(read(&text(&uid, &gid)), Err(RecordError::Differ));
        }
    }

    #[test]
    fn the_mapping_starts_at_root_inside() {
        assert_eq!(read_both(&line(65_536, 1, 65_536)), Err(RecordError::NotRoot { container_id: 1 }));
    }

    #[test]
    fn a_number_left_out_is_0_and_the_last_of_two_counts_as_in_go() {
        let span = |first| HostSpan::new(first, 65_536).unwrap();
        assert_eq!(read_both(r#"{"length":65536,"containerId":null}"#).unwrap().span(), span(0));
        assert_eq!(read_both(r#"{"hostId":1,"hostId":65536,"length":65536}"#).unwrap().span(), span(65_536));
        assert!(matches!(read_both("{}"), Err(RecordError::Impossible(_))));
    }

    /// A subuid range that passes 2^32 wraps in the kubelet's 32 bits; a pod then owns the host.
    #[test]
    fn a_record_of_the_hosts_own_ids_is_read_for_the_audit_and_is_no_block() {
        let record = read_both(&line(0, 0, 65_536)).unwrap();
        assert_eq!(record.span(), HostSpan::new(0, 65_536).unwrap());
        assert_eq!(record.block(), Err(BlockError::Host { base: 0, length: 65_536 }));
    }

    /// The kubelet's default range ends with the block of 2^32-1, and pods that get it never start.
    #[test]
    fn the_last_block_has_an_error_of_its_own() {
        let e = read_both(&line(4_294_901_760, 0, 65_536)).unwrap_err();
        assert_eq!(e, RecordError::LastId { host_id: 4_294_901_760, length: 65_536 });
        assert!(matches!(read_both(&line(4_294_901_760, 0, 65_537)), Err(RecordError::Impossible(_))));
        assert!(read_both(&line(4_294_901_760, 0, 65_535)).is_ok());
    }

    #[test]
    fn a_record_of_an_unaligned_span_is_no_block() {
        let record = read_both(&line(100_000, 0, 65_536)).unwrap();
        assert!(matches!(record.block(), Err(BlockError::Unaligned { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::cases()))]

        #[test]
        fn every_block_is_read_back(unit in 1u64..65_535) {
            let block = IdBlock::new(unit * 65_536, 65_536).unwrap();
            let read = read(&KubeletRecord::of_block(block).to_json()).unwrap();
            prop_assert_eq!(read.block(), Ok(block));
        }

        #[test]
        fn every_pair_of_numbers_is_judged_by_the_ids_it_names(host in any::<u32>(), length in any::<u32>()) {
            let (host, length) = (u64::from(host), u64::from(length));
            match read_both(&line(host, 0, length)) {
                Ok(record) => {
                    prop_assert_eq!(Ok(record.span()), HostSpan::new(host, length));
                    prop_assert_eq!(read(&record.to_json()), Ok(record));
                }
                Err(RecordError::LastId { .. }) => prop_assert_eq!(host + length, WRAP),
                Err(RecordError::Impossible(_)) => prop_assert!(length == 0 || host + length > WRAP),
                Err(e) => prop_assert!(false, "{e}"),
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(parse_record(&bytes).is_ok(), bytes.is_empty());
        }

        #[test]
        fn a_record_with_a_byte_changed_is_read_or_refused(at in 0usize..130, byte in any::<u8>()) {
            let mut bytes = text(&line(65_536, 0, 65_536), &line(65_536, 0, 65_536)).into_bytes();
            let end = bytes.len();
            bytes[at % end] = byte;
            if let Ok(Some(record)) = parse_record(&bytes) {
                prop_assert_eq!(read(&record.to_json()), Ok(record));
            }
        }
    }
}
