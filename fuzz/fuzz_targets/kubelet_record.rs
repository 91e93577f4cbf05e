#![no_main]
//! The kubelet's record: what is read is read again from our own print, nothing leasable touches
//! the host or 2^32-1, and only zero bytes are "no user namespace".

use ids::parse::kubelet::{KubeletRecord, RecordError, parse_record};
use libfuzzer_sys::fuzz_target;

fn check(record: KubeletRecord) {
    assert!(record.span().end() <= 4_294_967_295);
    assert_eq!(record.mapping().host(), record.span());
    assert_eq!(u32::from(record.mapping().container()), 0);
    assert_eq!(parse_record(record.to_json().as_bytes()), Ok(Some(record)));
    if let Ok(block) = record.block() {
        assert!(record.span().first() >= 65_536);
        assert_eq!(KubeletRecord::of_block(block), record);
    }
}

fuzz_target!(|bytes: &[u8]| {
    match parse_record(bytes) {
        Ok(None) => assert!(bytes.is_empty()),
        Ok(Some(record)) => check(record),
        Err(RecordError::LastId { host_id, length }) => {
            assert_eq!(u64::from(host_id) + u64::from(length), 1 << 32);
        }
        Err(_) => {}
    }
});
