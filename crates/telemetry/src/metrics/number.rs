//! Numbers of metrics, and how they are written.

/// The number as a float; above 2^53 the nearest one.
#[must_use]
pub fn to_f64(number: u64) -> f64 {
    const HIGH: f64 = 4_294_967_296.0;
    let half = |bits: u64| f64::from(u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX));
    half(number >> 32) * HIGH + half(number)
}

/// The shortest text that reads as the same float, in the form that Go's client libraries write: with an exponent of at
/// least two digits below 1e-4 and from 1e+06 on. Bounds of buckets are compared as text (`le="1e+06"`), so the form
/// counts.
pub(super) fn text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) || number == 0.0 {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let pairs = [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (12.5, "12.5"),
            (999_999.0, "999999"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (number, written) in pairs {
            assert_eq!(text(number), written);
        }
    }

    #[test]
    fn whole_numbers_are_exact_up_to_the_precision_of_a_float() {
        for number in [0, 1, u64::from(u32::MAX), 1 << 32, (1 << 53) - 1] {
            assert_eq!(format!("{}", to_f64(number)), number.to_string());
        }
        assert_eq!(to_f64(u64::MAX), 18_446_744_073_709_551_616.0);
    }

    proptest! {
        #[test]
        fn a_written_number_reads_as_the_same(bits: u64) {
            let number = f64::from_bits(bits);
            let read: f64 = text(number).parse().unwrap();
            prop_assert!(read.to_bits() == bits || (read.is_nan() && number.is_nan()));
        }
    }
}
