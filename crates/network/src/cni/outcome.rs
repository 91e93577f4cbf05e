use std::net::IpAddr;

use serde_json::Value;

use super::configuration::Plugin;
use super::record::Record;
use crate::error::{Error, Result};
use crate::pod::Addresses;

/// Parses a plugin's output.
pub(super) fn parse(printed: &[u8], plugin: &Plugin) -> Result<Value> {
    serde_json::from_slice(printed).map_err(|error| Error::CniPlugin {
        plugin: plugin.kind.clone(),
        command: "ADD",
        said: format!("cannot parse the result: {error}"),
    })
}

/// The addresses of a result of any version; none is an error.
pub(super) fn addresses(result: &Value, record: &Record) -> Result<Addresses> {
    let mut ips: Vec<IpAddr> = Vec::new();
    for entry in result.get("ips").and_then(Value::as_array).into_iter().flatten() {
        if is_inside(entry, result) {
            ips.extend(entry.get("address").and_then(ip));
        }
    }
    for key in ["ip4", "ip6"] {
        ips.extend(result.get(key).and_then(|entry| entry.get("ip")).and_then(ip));
    }
    if ips.is_empty() {
        let plugin = record.list.kinds().last().unwrap_or_default().to_owned();
        return Err(Error::CniPlugin { plugin, command: "ADD", said: "no address".to_owned() });
    }
    Ok(Addresses { ips })
}

/// An address may belong to an interface on the host.
fn is_inside(entry: &Value, result: &Value) -> bool {
    let Some(index) = entry.get("interface").and_then(Value::as_u64) else { return true };
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let interface = result.get("interfaces").and_then(|all| all.get(index));
    let sandbox = interface.and_then(|interface| interface.get("sandbox")).and_then(Value::as_str);
    sandbox.is_some_and(|sandbox| !sandbox.is_empty())
}

/// An address with the length of its subnet.
fn ip(value: &Value) -> Option<IpAddr> {
    value.as_str()?.split('/').next()?.parse().ok()
}

/// A plugin's error message, on one line: the one of its JSON error, else its standard error.
pub(super) fn complaint(printed: &[u8], complained: &str) -> String {
    let error: Value = serde_json::from_slice(printed).unwrap_or_default();
    let word = |key: &str| error.get(key).and_then(Value::as_str).filter(|word| !word.is_empty());
    let said = match (word("msg"), word("details")) {
        (Some(message), Some(details)) => format!("{message}; {details}"),
        (Some(message), None) => message.to_owned(),
        _ if !complained.trim().is_empty() => complained.to_owned(),
        _ if !printed.is_empty() => String::from_utf8_lossy(printed).into_owned(),
        _ => "nothing".to_owned(),
    };
    let line: Vec<_> = said.split_whitespace().collect();
    line.join(" ").chars().take(1000).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::tests::record;
    use super::*;

    fn found(result: &Value) -> Vec<String> {
        let found = addresses(result, &record()).unwrap();
        found.ips.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_of_all_versions_are_read() {
        let new = json!({ "ips": [{ "address": "10.1.0.9/24", "interface": 1 }, { "address": "fd00::9/64" }, { "address": "10.1.0.1/24", "interface": 0 }],
            "interfaces": [{ "name": "b0" }, { "name": "eth0", "sandbox": "/run/ns" }] });
        assert_eq!(found(&new), ["10.1.0.9", "fd00::9"]);
        assert_eq!(found(&json!({ "ip4": { "ip": "10.1.0.9/24" } })), ["10.1.0.9"]);
        assert!(addresses(&json!({}), &record()).is_err());
        assert!(addresses(&json!({ "ips": [{ "address": 7 }] }), &record()).is_err());
    }

    #[test]
    fn complaints_are_one_line() {
        let printed = br#"{"code":7,"msg":"no more\naddresses","details":"in  10.1.0.0/24"}"#;
        assert_eq!(complaint(printed, "ignored"), "no more addresses; in 10.1.0.0/24");
        assert_eq!(complaint(b"", "a panic\nin two lines"), "a panic in two lines");
        assert_eq!(complaint(b"{ no\nJSON", ""), "{ no JSON");
        assert_eq!(complaint(b"", " "), "nothing");
    }
}
