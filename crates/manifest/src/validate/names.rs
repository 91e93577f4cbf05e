//! How things may be named.

use std::net::IpAddr;

fn is_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn rule(holds: bool, words: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(words) }
}

fn is_dns_label(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    name.len() <= 63
        && ends.iter().all(|end| end.is_some_and(|b| is_lower(*b)))
        && bytes.iter().all(|b| is_lower(*b) || *b == b'-')
}

fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label_of_any_length)
}

/// A part of a subdomain may be as long as the whole.
fn is_dns_label_of_any_length(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(|b| is_lower(*b)))
        && bytes.iter().all(|b| is_lower(*b) || *b == b'-')
}

pub(super) fn dns_label(name: &str) -> Result<(), &'static str> {
    rule(
        is_dns_label(name),
        "must be at most 63 lower-case letters, digits and '-', a letter or digit at both ends",
    )
}

pub(super) fn dns_subdomain(name: &str) -> Result<(), &'static str> {
    rule(
        is_dns_subdomain(name),
        "must be at most 253 lower-case letters, digits, '-' and '.', a letter or digit at both ends of each part",
    )
}

/// The name part of a label's key, and a label's value when it is not empty.
fn is_word(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    name.len() <= 63
        && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

pub(super) fn qualified(name: &str) -> Result<(), &'static str> {
    let holds = match name.split_once('/') {
        Some((prefix, rest)) => is_dns_subdomain(prefix) && is_word(rest),
        None => is_word(name),
    };
    rule(
        holds,
        "must be at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends, \
        with or without a DNS name and '/' before",
    )
}

pub(super) fn label_value(value: &str) -> Result<(), &'static str> {
    rule(
        value.is_empty() || is_word(value),
        "must be at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends",
    )
}

pub(super) fn port_name(name: &str) -> Result<(), &'static str> {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    let holds = name.len() <= 15
        && bytes.iter().all(|b| is_lower(*b) || *b == b'-')
        && bytes.iter().any(u8::is_ascii_lowercase)
        && !name.contains("--")
        && ends.iter().all(|end| end.is_some_and(|b| is_lower(*b)));
    rule(
        holds,
        "must be at most 15 lower-case letters, digits and single '-', with a letter, no '-' at an end",
    )
}

pub(super) fn env_name(name: &str) -> Result<(), &'static str> {
    let holds = name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    rule(holds, "must be printable ASCII characters other than '='")
}

pub(super) fn config_key(name: &str) -> Result<(), &'static str> {
    let holds = name.len() <= 253
        && name != "."
        && !name.starts_with("..")
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    rule(holds, "must be at most 253 letters, digits, '-', '_' and '.', and not start with '..'")
}

/// A path that stays below where it starts: no '..' on the way.
pub(super) fn local_path(path: &str) -> Result<(), &'static str> {
    let climbs = path.split('/').any(|part| part == "..");
    rule(!path.starts_with('/') && !climbs, "must be a relative path without '..'")
}

/// A file in a volume: also its name may not start with two dots, which the node keeps for itself.
pub(super) fn projected_path(path: &str) -> Result<(), &'static str> {
    local_path(path)?;
    rule(!path.starts_with(".."), "must not start with '..'")
}

/// A path without '..', absolute or not.
pub(super) fn no_climbing(path: &str) -> Result<(), &'static str> {
    rule(!path.split('/').any(|part| part == ".."), "must not contain '..'")
}

pub(super) fn absolute_path(path: &str) -> Result<(), &'static str> {
    rule(path.starts_with('/'), "must be an absolute path")
}

pub(super) fn ip(text: &str) -> Result<(), &'static str> {
    let is_plain = match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().is_none(),
        Ok(IpAddr::V4(_)) => true,
        Err(_) => false,
    };
    rule(is_plain, "must be an IP address, not one of IPv4 in the form of IPv6")
}

pub(super) fn csi_driver(name: &str) -> Result<(), &'static str> {
    rule(
        name.len() <= 63 && is_dns_subdomain(&name.to_ascii_lowercase()),
        "must be at most 63 letters, digits, '-' and '.', a letter or digit at both ends",
    )
}

/// The start of a name with something after it: the server adds letters and digits.
pub(super) fn completed(start: &str) -> String {
    match start.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut kept: String = rest.chars().take(rest.chars().count() - 1).collect();
            kept.push('a');
            kept
        }
        _ => start.to_owned(),
    }
}

/// A name, or the start of one, which may end with a dash.
pub(super) fn start_or_name(text: &str) -> Result<(), &'static str> {
    dns_subdomain(&completed(text))
}

/// What must happen before an object is deleted: a name with a domain, or one of Kubernetes' own.
pub(super) fn finalizer(text: &str) -> Result<(), &'static str> {
    qualified(text)?;
    let is_known = matches!(text, "kubernetes" | "orphan" | "foregroundDeletion");
    rule(is_known || text.contains('/'), "must have a domain and '/' before it")
}

/// `v1` or `apps/v1`.
pub(super) fn group_version(text: &str) -> Result<(), &'static str> {
    let holds = text.matches('/').count() <= 1 && !text.ends_with('/');
    rule(holds, "must be VERSION or GROUP/VERSION")
}

/// A domain and a path: `acme.io/controller`.
pub(super) fn domain_path(text: &str) -> Result<(), &'static str> {
    let is_path = |b: u8| b.is_ascii_alphanumeric() || b"/%-._~!$&'()*+,;=:".contains(&b);
    let holds = text.len() <= 63
        && text.split_once('/').is_some_and(|(domain, path)| {
            is_dns_subdomain(domain) && !path.is_empty() && path.bytes().all(is_path)
        });
    rule(holds, "must be at most 63 characters: a domain, '/' and a path")
}

/// A domain to search in: also '_' is taken, a dot at the end, or nothing but one.
pub(super) fn search_domain(text: &str) -> Result<(), &'static str> {
    let is_label = |label: &str| {
        let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|b| is_lower(*b)))
            && bytes.iter().all(|b| is_lower(*b) || b"-_".contains(b))
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    rule(
        text == "." || (name.len() <= 253 && name.split('.').all(is_label)),
        "must be a DNS name of lower-case letters, digits, '-', '_' and '.'",
    )
}

/// A signer of certificates: a domain of at least two parts, '/' and a name.
pub(super) fn signer(text: &str) -> Result<(), &'static str> {
    let parts: Vec<&str> = text.split('/').collect();
    let holds = match parts.as_slice() {
        [domain, path] => {
            domain.len() <= 253
                && domain.contains('.')
                && domain.split('.').all(is_dns_label)
                && path.split('.').all(is_dns_subdomain)
                && text.len() <= 571
        }
        _ => false,
    };
    rule(holds, "must be a domain and a name, such as example.com/signer")
}

/// The name of a ClusterTrustBundle: that of its signer, with ':' for '/', comes before it.
pub(super) fn trust_bundle(text: &str) -> Result<(), &'static str> {
    let holds = match text.rsplit_once(':') {
        Some((signer, name)) => !signer.is_empty() && !signer.contains('/') && is_dns_subdomain(name),
        None => is_dns_subdomain(text),
    };
    rule(holds, "must be a DNS name, with or without DOMAIN:SIGNER: before it")
}

/// Whether a path is the root, whatever it takes to say so.
pub(super) fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| part.is_empty() || part == ".")
}

/// A kernel setting: parts of small letters, digits, '-' and '_', apart by '.' or '/'.
pub(super) fn sysctl(name: &str) -> Result<(), &'static str> {
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|b| is_lower(*b)))
            && bytes.iter().all(|b| is_lower(*b) || b"-_".contains(b))
    };
    rule(
        name.len() <= 253 && name.split(['.', '/']).all(is_part),
        "must be at most 253 lower-case letters, digits, '-' and '_' in parts with '.' or '/' between",
    )
}

/// Text as it is without space around it.
pub(super) fn trimmed(text: &str) -> Result<(), &'static str> {
    rule(text.trim() == text, "must not have white space at an end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_what_is_none() {
        type Case = (fn(&str) -> Result<(), &'static str>, &'static [&'static str], &'static [&'static str]);
        let cases: [Case; 10] = [
            (dns_label, &["a", "a-b", "0", "9z"], &["", "-a", "a-", "A", "a.b", "ä"]),
            (dns_subdomain, &["a.b", "a", "1.2"], &["a..b", ".a", "a.-b", "A"]),
            (qualified, &["a", "a.b/C_d", "x/y"], &["", "/a", "a/", "a/b/c", "A.b/c/"]),
            (label_value, &["", "a", "A_b.c"], &["-a", "a b", "a-"]),
            (port_name, &["http", "a1", "1a"], &["80", "a--b", "-a", "abcdefghijklmnop", "A"]),
            (env_name, &["A", "a.b", "1 x", "$"], &["a=b", "ä", "\n"]),
            (config_key, &["a", ".a", "A-b_c.d"], &["..", "..a", "a/b", "ä", "."]),
            (local_path, &["a/b", "a", "..a"], &["/a", "a/../b", ".."]),
            (projected_path, &["a/b", ".a"], &["..a", "/a", "a/.."]),
            (sysctl, &["net.ipv4.ip_forward", "kernel/shm_rmid_forced"], &["", "A", "net..a", ".a", "a_"]),
        ];
        for (rule, good, bad) in cases {
            assert!(good.iter().all(|name| rule(name).is_ok()), "{good:?}");
            assert!(bad.iter().all(|name| rule(name).is_err()), "{bad:?}");
        }
        assert!(dns_label(&"a".repeat(63)).is_ok() && dns_label(&"a".repeat(64)).is_err());
        assert!(dns_subdomain(&"a".repeat(253)).is_ok() && dns_subdomain(&"a".repeat(254)).is_err());
    }
}
