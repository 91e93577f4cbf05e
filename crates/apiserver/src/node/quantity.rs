//! Amounts in the form that the API server writes: a different form would look like a change.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use types::{binary_si, decimal_si};

/// Bytes, with the largest binary suffix that leaves a whole number.
pub(super) fn bytes(bytes: u64) -> Quantity {
    Quantity(binary_si(bytes))
}

/// A size of huge pages, as the kernel's cgroup files are named: `2MB`.
pub(crate) fn kernel_page_size(size: u64) -> String {
    bytes(size).0.replace('i', "B")
}

/// A number of things, with the largest decimal suffix that leaves a whole number.
pub(super) fn count(number: u64) -> Quantity {
    Quantity(decimal_si(number))
}

/// Thousandths of a processor.
pub(super) fn millis(millis: u64) -> Quantity {
    if millis.is_multiple_of(1000) { count(millis / 1000) } else { Quantity(format!("{millis}m")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_the_api_server_writes_them() {
        let texts = [
            bytes(0).0,
            bytes(1000).0,
            bytes(1025).0,
            bytes(24_056_364 << 10).0,
            bytes(1 << 30).0,
            count(110).0,
            count(2000).0,
            millis(1900).0,
            millis(2000).0,
            millis(0).0,
        ];
        assert_eq!(texts, ["0", "1k", "1025", "24056364Ki", "1Gi", "110", "2k", "1900m", "2", "0"]);
    }
}
