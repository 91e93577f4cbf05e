//! What an unquoted word of YAML means, as the reader that Kubernetes uses (go-yaml 2) takes it.

use crate::tree::Value;

/// A word that has no place in JSON: infinite, or no number at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoJson;

/// The value of a plain scalar.
pub(super) fn resolve(word: &str) -> Result<Value, NoJson> {
    if let Some(value) = named(word) {
        return value;
    }
    match word.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-') => number(word),
        Some(b'.') => Ok(decimal(word).map_or_else(|| Value::Text(word.into()), whole_or_float)),
        _ => Ok(Value::Text(word.into())),
    }
}

fn named(word: &str) -> Option<Result<Value, NoJson>> {
    Some(match word {
        "" | "~" | "null" | "Null" | "NULL" => Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Ok(Value::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Ok(Value::Bool(false))
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => Err(NoJson),
        _ => return None,
    })
}

/// A number, or text that only starts like one. Digits may be set apart by underscores.
fn number(word: &str) -> Result<Value, NoJson> {
    let plain: String = word.chars().filter(|c| *c != '_').collect();
    match integer(&plain) {
        Some(Some(value)) => Ok(value),
        // An integer of more than 64 bits: with a decimal point in mind it is a float, else nothing.
        found => match decimal(&plain) {
            Some(float) => Ok(whole_or_float(float)),
            None if found.is_some() => Err(NoJson),
            None => Ok(Value::Text(word.into())),
        },
    }
}

/// `None`: no integer. `Some(None)`: one that does not fit.
#[allow(clippy::option_option)]
fn integer(plain: &str) -> Option<Option<Value>> {
    let (negative, digits) = match plain.as_bytes().first() {
        Some(b'-') => (true, plain.get(1..)?),
        Some(b'+') => (false, plain.get(1..)?),
        _ => (false, plain),
    };
    let (radix, digits) = radix_of(digits);
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    Some(u64::from_str_radix(digits, radix).ok().and_then(|n| signed(negative, n)))
}

/// A leading 0 means octal: `0400` is 256.
fn radix_of(digits: &str) -> (u32, &str) {
    let lower = digits.get(..2).map(str::to_ascii_lowercase);
    let rest = digits.get(2..).unwrap_or_default();
    match lower.as_deref() {
        Some("0x") => (16, rest),
        Some("0o") => (8, rest),
        Some("0b") => (2, rest),
        Some(_) if digits.starts_with('0') => (8, digits),
        _ => (10, digits),
    }
}

fn signed(negative: bool, n: u64) -> Option<Value> {
    match (negative, i64::try_from(n)) {
        (false, Ok(n)) => Some(Value::Int(n)),
        (false, Err(_)) => Some(Value::Unsigned(n)),
        (true, Ok(n)) => Some(Value::Int(-n)),
        (true, Err(_)) if n == 1 << 63 => Some(Value::Int(i64::MIN)),
        (true, Err(_)) => None,
    }
}

/// A decimal fraction, with or without an exponent.
fn decimal(plain: &str) -> Option<f64> {
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(before) && digits(after) && !(before.is_empty() && after.is_empty());
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    let float = plain.parse::<f64>().ok().filter(|f| f.is_finite())?;
    (mantissa_fits && exponent_fits).then_some(float)
}

/// JSON writes a float without a fraction as an integer, and so it fits a field that takes one.
fn whole_or_float(float: f64) -> Value {
    let is_short = float.fract() == 0.0 && float.abs() < 1e15;
    match format!("{float:.0}").parse::<i64>() {
        Ok(whole) if is_short => Value::Int(whole),
        _ => Value::Float(float),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_mean_to_kubernetes() {
        let cases = [
            ("0400", Value::Int(256)),
            ("0o400", Value::Int(256)),
            ("0x1F", Value::Int(31)),
            ("0b11", Value::Int(3)),
            ("-0b11", Value::Int(-3)),
            ("1_000", Value::Int(1000)),
            ("+5", Value::Int(5)),
            ("08", Value::Int(8)),
            ("0888", Value::Int(888)),
            ("1e3", Value::Int(1000)),
            ("1.0", Value::Int(1)),
            ("0.5", Value::Float(0.5)),
            (".5", Value::Float(0.5)),
            ("18446744073709551615", Value::Unsigned(u64::MAX)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("yes", Value::Bool(true)),
            ("n", Value::Bool(false)),
            ("OFF", Value::Bool(false)),
            ("oFF", Value::Text("oFF".into())),
            ("~", Value::Null),
            ("", Value::Null),
            ("100Mi", Value::Text("100Mi".into())),
            ("1.2.3", Value::Text("1.2.3".into())),
            ("2001-01-01", Value::Text("2001-01-01".into())),
            ("-", Value::Text("-".into())),
            ("0x", Value::Text("0x".into())),
            ("1e999", Value::Text("1e999".into())),
            ("12e", Value::Text("12e".into())),
            ("infinity", Value::Text("infinity".into())),
            (".", Value::Text(".".into())),
        ];
        for (word, value) in cases {
            assert_eq!(resolve(word), Ok(value), "{word}");
        }
    }

    #[test]
    fn words_without_a_place_in_json_are_refused() {
        for word in [".inf", "-.Inf", ".nan", "0xfffffffffffffffff"] {
            assert_eq!(resolve(word), Err(NoJson), "{word}");
        }
        assert!(matches!(resolve("123456789012345678901234567890"), Ok(Value::Float(_))));
    }
}
