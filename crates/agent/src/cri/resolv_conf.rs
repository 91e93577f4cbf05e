//! resolv.conf(5) of the node.

use std::fs;
use std::path::Path;

use cri::DnsConfig;

use crate::error::{Error, Result};

/// Where systemd-resolved keeps the servers that it asks itself.
const UPLINK: &str = "/run/systemd/resolve/resolv.conf";
/// The servers of systemd-resolved, which no other network namespace reaches.
const STUBS: [&str; 2] = ["127.0.0.53", "127.0.0.54"];

/// Reads a resolv.conf. Where it only names systemd-resolved on this machine, the servers are those that systemd-resolved asks:
/// a pod does not reach the loopback device of its node.
///
/// # Errors
/// If the file cannot be read, or a `nameserver` line has no address.
pub(super) fn read(file: &Path) -> Result<DnsConfig> {
    read_or_uplink(file, Path::new(UPLINK))
}

fn read_or_uplink(file: &Path, uplink: &Path) -> Result<DnsConfig> {
    let found = parsed(&fs::read_to_string(file).map_err(Error::file("read", file))?, file)?;
    let is_stub = |server: &String| STUBS.contains(&server.as_str());
    if found.servers.is_empty() || !found.servers.iter().all(is_stub) || !uplink.exists() {
        return Ok(found);
    }
    parsed(&fs::read_to_string(uplink).map_err(Error::file("read", uplink))?, uplink)
}

fn parsed(text: &str, file: &Path) -> Result<DnsConfig> {
    let mut config = DnsConfig::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => config.servers.push(server(words.next(), file)?),
            // The last line is used. A domain with and without its last dot is one.
            Some("search") => {
                let domains = words.filter(|domain| *domain != ".");
                config.searches =
                    domains.map(|domain| domain.strip_suffix('.').unwrap_or(domain).to_owned()).collect();
            }
            Some("options") => words.for_each(|option| set_option(&mut config.options, option)),
            _ => {}
        }
    }
    Ok(config)
}

fn server(word: Option<&str>, file: &Path) -> Result<String> {
    let word =
        word.ok_or_else(|| Error::config(file.display().to_string(), "a nameserver line has no address"))?;
    Ok(word.to_owned())
}

/// Sets an option such as `ndots:5`; one of the same name is replaced where it is.
pub(super) fn set_option(options: &mut Vec<String>, option: &str) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|known| name(known) == name(option)) {
        Some(known) => option.clone_into(known),
        None => options.push(option.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> DnsConfig {
        parsed(text, Path::new("/etc/resolv.conf")).unwrap()
    }

    #[test]
    fn servers_add_up_and_the_last_search_line_and_option_count() {
        let text = "# comment\n; comment\n nameserver 10.0.0.1\nnameserver\tfd00::1 extra\nsearch a b\nsearch c. . d\n\
                    options ndots:2 rotate\noptions ndots:3\nsortlist 10.0.0.0\n\n";
        let config = parse(text);
        assert_eq!(config.servers, ["10.0.0.1", "fd00::1"]);
        assert_eq!(config.searches, ["c", "d"]);
        assert_eq!(config.options, ["ndots:3", "rotate"]);
        assert_eq!(parse(""), DnsConfig::default());
        assert!(parsed("nameserver\n", Path::new("/x")).unwrap_err().to_string().contains("/x"));
    }

    #[test]
    fn the_servers_behind_systemd_resolved_are_used_where_it_is_the_only_one() {
        let dir = tempfile::tempdir().unwrap();
        let (file, uplink) = (dir.path().join("resolv.conf"), dir.path().join("uplink"));
        let servers = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read_or_uplink(&file, &uplink).unwrap().servers
        };
        assert_eq!(servers("nameserver 127.0.0.53\n"), ["127.0.0.53"], "there is no other file");
        std::fs::write(&uplink, "nameserver 10.0.0.1\n").unwrap();
        assert_eq!(servers("nameserver 127.0.0.53\n"), ["10.0.0.1"]);
        assert_eq!(servers("nameserver 127.0.0.53\nnameserver 10.9.9.9\n"), ["127.0.0.53", "10.9.9.9"]);
        assert_eq!(servers("nameserver 127.0.0.1\n"), ["127.0.0.1"], "a server of the administrator's");
        assert!(read_or_uplink(&dir.path().join("none"), &uplink).is_err());
    }
}
