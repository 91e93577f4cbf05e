use std::fmt;
use std::str::FromStr;

/// An amount as Kubernetes writes it, `1500m` or `2Gi`, kept in billionths and rounded up to one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i128);

/// Text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a quantity: it takes a number and one of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or none"
)]
pub struct NotAQuantity(pub String);

/// Amounts are cut at 2^63-1, as Kubernetes does.
const MOST: i128 = 9_223_372_036_854_775_807 * BILLION;
const BILLION: i128 = 1_000_000_000;
const MILLION: i128 = 1_000_000;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One unit: a byte, a processor.
    pub const ONE: Self = Self(BILLION);
    /// A thousandth of a unit, the grain that processors are counted in: `1m`.
    pub const MILLI: Self = Self(MILLION);

    /// So many units: bytes of memory, whole processors.
    #[must_use]
    pub fn from_units(units: u64) -> Self {
        Self(i128::from(units) * BILLION)
    }

    /// So many thousandths: `100m` of a processor is 100.
    #[must_use]
    pub fn from_thousandths(thousandths: u64) -> Self {
        Self(i128::from(thousandths) * MILLION)
    }

    /// Whether it is a whole number of units.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.0 % BILLION == 0
    }

    /// The whole units, rounded up.
    #[must_use]
    pub fn units(self) -> i64 {
        i64::try_from(divided_up(self.0, BILLION)).unwrap_or(i64::MAX)
    }

    /// The whole thousandths, rounded up.
    #[must_use]
    pub fn thousandths(self) -> i64 {
        i64::try_from(divided_up(self.0, MILLION)).unwrap_or(i64::MAX)
    }

    /// How often `divisor` goes into it, rounded up, after both were rounded up to multiples of `grain`: as the
    /// downward API tells an amount.
    ///
    /// A divisor or grain that is not positive counts as one unit.
    #[must_use]
    pub fn divided_by(self, divisor: Self, grain: Self) -> i128 {
        let positive = |amount: Self| if amount > Self::ZERO { amount.0 } else { BILLION };
        let grain = positive(grain);
        divided_up(divided_up(self.0, grain), divided_up(positive(divisor), grain))
    }
}

impl FromStr for Quantity {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        parse(text).ok_or_else(|| NotAQuantity(text.to_owned()))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0.abs() / BILLION, self.0.abs() % BILLION);
        let sign = if self.0 < 0 { "-" } else { "" };
        if rest == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{rest:09}") }
    }
}

/// The quotient, rounded up; `divisor` is positive.
fn divided_up(amount: i128, divisor: i128) -> i128 {
    amount.div_euclid(divisor) + i128::from(amount.rem_euclid(divisor) != 0)
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let amount = scaled(whole, fraction, scale_of(suffix)?);
    Some(Quantity(if negative { -amount } else { amount }))
}

enum Scale {
    /// Powers of 1024.
    Binary(u32),
    /// Powers of ten.
    Decimal(i32),
}

fn scale_of(suffix: &str) -> Option<Scale> {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(power) = binary.iter().position(|s| *s == suffix) {
        return u32::try_from(power + 1).ok().map(Scale::Binary);
    }
    let decimal = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    if let Some((_, power)) = decimal.iter().find(|(s, _)| *s == suffix) {
        return Some(Scale::Decimal(*power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse::<i32>().ok().filter(|e| e.abs() <= 1000).map(Scale::Decimal)
}

/// whole.fraction times the scale, in billionths, rounded up and cut.
fn scaled(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let places = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    if significant.is_empty() {
        return 0;
    }
    if significant.len() > 30 {
        // More digits than any amount has: cut the fraction, which cannot matter but for rounding up.
        let keep = whole.trim_start_matches('0').len();
        return if keep > 20 { MOST } else { scaled(whole, &cut(fraction), scale) };
    }
    let mantissa: i128 = significant.parse().unwrap_or(MOST);
    match scale {
        Scale::Binary(power) => shift(mantissa.saturating_mul(1024_i128.pow(power)), 9 - places),
        Scale::Decimal(power) => shift(mantissa, i64::from(power) + 9 - places),
    }
}

/// The first digits of a fraction that is too long; the digits that are cut off still round up.
fn cut(fraction: &str) -> String {
    let head: String = fraction.chars().take(9).collect();
    format!("{head}1")
}

fn shift(amount: i128, power: i64) -> i128 {
    let ten = |n: i64| u32::try_from(n).ok().and_then(|n| 10_i128.checked_pow(n));
    let shifted = if power >= 0 {
        ten(power).and_then(|factor| amount.checked_mul(factor)).unwrap_or(MOST)
    } else {
        ten(-power).map_or(1, |divisor| (amount / divisor) + i128::from(amount % divisor != 0))
    };
    shifted.min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nano(text: &str) -> i128 {
        text.parse::<Quantity>().unwrap().0
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let cases = [
            ("0", 0),
            ("1", BILLION),
            ("100m", BILLION / 10),
            ("0.1", BILLION / 10),
            (".5", BILLION / 2),
            ("5.", 5 * BILLION),
            ("1Ki", 1024 * BILLION),
            ("1.5Gi", 1_610_612_736 * BILLION),
            ("1e3", 1000 * BILLION),
            ("1E3", 1000 * BILLION),
            ("1E", 1_000_000_000_000_000_000 * BILLION),
            ("12e-1", 1_200_000_000),
            ("-5", -5 * BILLION),
            ("+5", 5 * BILLION),
            ("1n", 1),
            ("0.1n", 1),
            ("9999999999999999999999999999999999999999", MOST),
            ("1e900", MOST),
            ("1e-900", 1),
        ];
        for (text, amount) in cases {
            assert_eq!(nano(text), amount, "{text}");
        }
        assert!(nano("500m") < nano("1") && nano("1Gi") > nano("1G"));
        assert_eq!("1500m".parse::<Quantity>().unwrap().units(), 2);
        assert!(!"1500m".parse::<Quantity>().unwrap().is_whole());
    }

    #[test]
    fn a_quantity_is_shown_with_its_sign() {
        for (text, shown) in [("1500m", "1.500000000"), ("-500m", "-0.500000000"), ("-2", "-2"), ("0", "0")] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn processors_are_counted_in_thousandths_and_rounded_up() {
        let divide = |cpu, divisor| {
            Quantity::from_thousandths(cpu).divided_by(Quantity::from_thousandths(divisor), Quantity::MILLI)
        };
        assert_eq!(divide(100, 1), 100);
        assert_eq!(divide(100, 1000), 1);
        assert_eq!(divide(1000, 1000), 1);
        assert_eq!(divide(1001, 1000), 2);
        assert_eq!(divide(0, 1), 0);
        assert_eq!(divide(1500, 0), 2, "no divisor is one unit");
        assert_eq!(Quantity(1).divided_by(Quantity::MILLI, Quantity::MILLI), 1);
        assert_eq!(Quantity(1).thousandths(), 1);
    }

    #[test]
    fn memory_is_counted_in_bytes_and_rounded_up() {
        const MIB: u64 = 1 << 20;
        let memory = Quantity::from_units(64 * MIB);
        assert_eq!(memory.divided_by(Quantity::ONE, Quantity::ONE), 67_108_864);
        assert_eq!(memory.divided_by(Quantity::from_units(MIB), Quantity::ONE), 64);
        assert_eq!(memory.divided_by(Quantity::from_units(1_000_000), Quantity::ONE), 68);
        // A divisor below one byte is one byte.
        assert_eq!(Quantity::from_thousandths(1500).divided_by(Quantity::MILLI, Quantity::ONE), 2);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "-", "1mi", "1 Gi", "Gi", "1.2.3", "1K", "1e", "1ee3", "0x10", "1Gii", "ä", "1_0"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_long_fraction_is_rounded_up() {
        let text = format!("0.{}1", "0".repeat(60));
        assert_eq!(nano(&text), 1);
        assert_eq!(nano(&format!("1.{}", "9".repeat(60))), 2 * BILLION);
    }
}
