//! Amounts in the canonical form of Kubernetes.

/// Bytes, with the largest binary suffix that leaves a whole number: `64Mi`. Less than 1024 bytes have a decimal one.
#[must_use]
pub fn binary_si(bytes: u64) -> String {
    if bytes < 1024 {
        return decimal_si(bytes);
    }
    suffixed(bytes, 1024, &["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// A number of things, with the largest decimal suffix that leaves a whole number: `20k`.
#[must_use]
pub fn decimal_si(number: u64) -> String {
    suffixed(number, 1000, &["k", "M", "G", "T", "P", "E"])
}

fn suffixed(mut number: u64, base: u64, suffixes: &[&str]) -> String {
    let mut suffix = "";
    for larger in suffixes {
        if number == 0 || !number.is_multiple_of(base) {
            break;
        }
        number /= base;
        suffix = larger;
    }
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_the_largest_suffix_that_leaves_a_whole_number() {
        let binary = [0, 1000, 1025, 1 << 10, 100 << 20, (1 << 30) + 1].map(binary_si);
        assert_eq!(binary, ["0", "1k", "1025", "1Ki", "100Mi", "1073741825"]);
        assert_eq!([0, 999, 2000, 32_768].map(decimal_si), ["0", "999", "2k", "32768"]);
    }
}
