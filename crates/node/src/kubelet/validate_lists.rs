//! Rules for the items of lists and maps.

use std::collections::BTreeSet;
use std::net::IpAddr;

use types::Quantity;

use super::tree::Value;
use super::view::{Pair, View, Why};
use super::{EvictionSignal, GoDuration, Problem, ProblemKind, Threshold};

/// Resources that may be reserved.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Groups of processes for which a kubelet can enforce limits.
const ENFORCEABLE: [&str; 4] =
    ["system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible"];

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Cipher suites that the agent offers, by Go's names.
const CIPHER_SUITES: [&str; 11] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

pub(super) fn check(view: &mut View<'_>) {
    thresholds(view);
    soft_thresholds(view);
    reserved(view);
    allocatable(view);
    taints(view);
    sysctls(view);
    for (at, text) in view.texts("clusterDNS") {
        if text.parse::<IpAddr>().is_err() {
            let why = Why::new(format!("{text:?} is no IP address"), "use addresses such as 10.96.0.10");
            view.invalid_at(at, "clusterDNS", why);
        }
    }
    for (at, text) in view.texts("tlsCipherSuites") {
        if !CIPHER_SUITES.contains(&text.as_str()) {
            view.problems.push(Problem {
                at,
                field: "tlsCipherSuites".to_owned(),
                kind: ProblemKind::Refused,
                cause: format!("the agent does not offer {text}"),
                hint: format!("use some of {}", CIPHER_SUITES.join(", ")),
            });
        }
    }
}

fn thresholds(view: &mut View<'_>) {
    for field in ["evictionHard", "evictionSoft", "evictionMinimumReclaim"] {
        for Pair { at, name, text } in view.pairs(field) {
            if let Some(why) = unknown_signal(&name).or_else(|| bad_threshold(field, &text)) {
                view.invalid_at(at, &format!("{field}.{name}"), why);
            }
        }
    }
}

fn bad_threshold(field: &str, text: &str) -> Option<Why> {
    let is_reclaim = field == "evictionMinimumReclaim";
    match text.parse::<Threshold>() {
        Err(e) => Some(Why::new(e.to_string(), "write an amount such as 100Mi, or a percentage such as 10%")),
        Ok(Threshold::Quantity(quantity)) if quantity <= Quantity::ZERO && !is_reclaim => {
            Some(Why::new("it is zero", "use 0% to turn the signal off"))
        }
        Ok(Threshold::Percentage(percent)) if percent <= 0.0 && is_reclaim => {
            Some(Why::new("it is zero", "use a percentage above 0%, or leave it out"))
        }
        Ok(_) => None,
    }
}

fn soft_thresholds(view: &mut View<'_>) {
    let graced = view.pairs("evictionSoftGracePeriod");
    for Pair { at, name, text } in &graced {
        let period = text.parse::<GoDuration>().ok().filter(|period| *period >= GoDuration::default());
        let bad =
            || period.is_none().then(|| Why::new(format!("{text:?} is no duration"), "write it as 1m30s"));
        if let Some(why) = unknown_signal(name).or_else(bad) {
            view.invalid_at(at.clone(), &format!("evictionSoftGracePeriod.{name}"), why);
        }
    }
    for Pair { at, name, .. } in view.pairs("evictionSoft") {
        if !graced.iter().any(|pair| pair.name == name) {
            let hint = format!("set evictionSoftGracePeriod.{name}, such as 1m30s");
            view.invalid_at(at, &format!("evictionSoft.{name}"), Why::new("it has no grace period", hint));
        }
    }
}

fn unknown_signal(name: &str) -> Option<Why> {
    let unknown = !EvictionSignal::NAMES.contains(&name);
    unknown.then(|| Why::new("there is no such signal", format!("use {}", EvictionSignal::NAMES.join(", "))))
}

fn reserved(view: &mut View<'_>) {
    for field in ["systemReserved", "kubeReserved"] {
        for Pair { at, name, text } in view.pairs(field) {
            let why = match text.parse::<Quantity>() {
                _ if !RESERVABLE.contains(&name.as_str()) => {
                    Why::new("this resource cannot be reserved", format!("use {}", RESERVABLE.join(", ")))
                }
                Err(e) => Why::new(e.to_string(), "write a quantity such as 100m or 1Gi"),
                Ok(quantity) if quantity < Quantity::ZERO => Why::new("it is negative", "use 0 or more"),
                Ok(_) => continue,
            };
            view.invalid_at(at, &format!("{field}.{name}"), why);
        }
    }
}

fn allocatable(view: &mut View<'_>) {
    const FIELD: &str = "enforceNodeAllocatable";
    let items = view.texts(FIELD);
    let mut seen = BTreeSet::new();
    for (at, item) in &items {
        let (kind, why) = match item.as_str() {
            text if !seen.insert(text.to_owned()) => {
                (ProblemKind::Invalid, Why::new(format!("{text} is there twice"), "name it once"))
            }
            "none" if items.len() > 1 => {
                (ProblemKind::Invalid, Why::new("none stands beside others", "use none alone"))
            }
            "pods" | "none" => continue,
            text if ENFORCEABLE.contains(&text) => {
                let hint = "use pods: what is reserved is still kept from pods";
                (ProblemKind::Refused, Why::new(format!("the agent sets no limits for {text}"), hint))
            }
            text => {
                let cause = format!("{text:?} is none of its values");
                (ProblemKind::Invalid, Why::new(cause, "use pods or none"))
            }
        };
        let Why { cause, hint } = why;
        view.problems.push(Problem { at: at.clone(), field: FIELD.to_owned(), kind, cause, hint });
    }
}

fn taints(view: &mut View<'_>) {
    const FIELD: &str = "registerWithTaints";
    let Some(Value::List(items)) = view.tree.get(FIELD).map(|node| &node.value) else { return };
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let text = |name: &str| match item.get(name).map(|node| &node.value) {
            Some(Value::Text(text)) => text.as_str(),
            _ => "",
        };
        let (key, effect) = (text("key"), text("effect"));
        let wrong = [
            (
                !is_qualified_name(key),
                "key",
                "it is no qualified name",
                "use a name such as example.com/dedicated",
            ),
            (
                !is_label_value(text("value")),
                "value",
                "it is no label value",
                "use letters, digits, -, _ and .",
            ),
            (
                !EFFECTS.contains(&effect),
                "effect",
                "it is no effect of a taint",
                "use NoSchedule, PreferNoSchedule or NoExecute",
            ),
            (
                !seen.insert((key.to_owned(), effect.to_owned())),
                "key",
                "the same key and effect are there twice",
                "name each once",
            ),
        ];
        for (_, name, cause, hint) in wrong.into_iter().filter(|(is_wrong, ..)| *is_wrong) {
            let at = item.entry(name).map_or_else(|| item.at.clone(), |entry| entry.at.clone());
            view.invalid_at(at, &format!("{FIELD}[{index}].{name}"), Why::new(cause, hint));
        }
    }
}

/// Names of sysctls, the last part of which may be a pattern.
fn sysctls(view: &mut View<'_>) {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_./".contains(c);
    for (at, text) in view.texts("allowedUnsafeSysctls") {
        let name = text.strip_suffix('*').unwrap_or(&text);
        if name.is_empty() || !name.chars().all(is_part) {
            let hint = "use names such as net.core.somaxconn, or patterns such as net.ipv4.*";
            view.invalid_at(at, "allowedUnsafeSysctls", Why::new(format!("{text:?} is no sysctl"), hint));
        }
    }
}

/// A name of at most 63 characters, after a DNS subdomain and `/` if it has a prefix.
pub(super) fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_subdomain)
}

fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Empty, or at most 63 letters, digits, `-`, `_` and `.` that begin and end with a letter or digit.
pub(super) fn is_label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}
