//! The files that every container of a pod sees: hosts, hostname, resolv.conf.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use cri::DnsConfig;
use kernel::Owner;

use crate::error::{Error, Result};
use crate::layout::SandboxPlaces;

const HOST_RESOLV_CONF: &str = "/etc/resolv.conf";
const HOST_HOSTS: &str = "/etc/hosts";

/// The files of one pod. They belong to its root on the host, so that they can be bound as they are: not every
/// filesystem that a run directory is on can be seen through maps.
pub(super) struct Files<'a> {
    pub(super) places: &'a SandboxPlaces,
    pub(super) hostname: &'a str,
    pub(super) owner: Owner,
    /// Their label, where SELinux is on.
    pub(super) label: Option<String>,
}

impl Files<'_> {
    /// Writes the name and the resolver's settings; the addresses are not known yet.
    pub(super) fn write(&self, dns: Option<&DnsConfig>) -> Result<()> {
        self.put(&self.places.hostname(), &format!("{}\n", self.hostname))?;
        let own = dns.map(resolv_conf).filter(|text| !text.is_empty());
        // A host without one has no resolver; neither have its pods.
        let text = own.unwrap_or_else(|| fs::read_to_string(HOST_RESOLV_CONF).unwrap_or_default());
        self.put(&self.places.resolv_conf(), &text)
    }

    /// Writes the table of names of a pod with these addresses, if it has a network of its own.
    pub(super) fn write_hosts(&self, ips: &[String]) -> Result<()> {
        self.put(&self.places.hosts(), &hosts_of(self.hostname, ips))
    }

    /// In the host's network the table of names is the host's.
    pub(super) fn copy_hosts(&self) -> Result<()> {
        let hosts = fs::read_to_string(HOST_HOSTS).unwrap_or_else(|_| hosts_of(self.hostname, &[]));
        self.put(&self.places.hosts(), &hosts)
    }

    fn put(&self, path: &Path, text: &str) -> Result<()> {
        let failed = |what| move |cause| Error::File { what, path: PathBuf::from(path), cause };
        fs::write(path, text).map_err(failed("write"))?;
        chown(path, Some(self.owner.uid), Some(self.owner.gid)).map_err(failed("give to the pod's root"))?;
        // Whatever our own mask is: every user of a pod reads them.
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(failed("set the mode of"))?;
        if let Some(label) = &self.label {
            // Where no labels are kept, none keeps the pod out.
            kernel::relabel(path, label)?;
        }
        Ok(())
    }
}

fn hosts_of(hostname: &str, ips: &[String]) -> String {
    let own: String = ips.iter().map(|ip| format!("{ip}\t{hostname}\n")).collect();
    format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{own}")
}

fn resolv_conf(dns: &DnsConfig) -> String {
    let line = |key: &str, values: &[String]| {
        if values.is_empty() { String::new() } else { format!("{key} {}\n", values.join(" ")) }
    };
    let servers: String = dns.servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    format!("{}{servers}{}", line("search", &dns.searches), line("options", &dns.options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolver_is_told_what_the_pod_asks_for() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let dns = DnsConfig {
            servers: words("10.0.0.10 10.0.0.11"),
            searches: words("a.svc b.svc"),
            options: words("ndots:5"),
        };
        let text = "search a.svc b.svc\nnameserver 10.0.0.10\nnameserver 10.0.0.11\noptions ndots:5\n";
        assert_eq!(resolv_conf(&dns), text);
        assert_eq!(resolv_conf(&DnsConfig::default()), "");
    }

    #[test]
    fn a_pod_finds_itself_by_name() {
        let text = hosts_of("web", &["10.1.0.2".into(), "fd00::2".into()]);
        assert!(text.ends_with("10.1.0.2\tweb\nfd00::2\tweb\n"), "{text}");
    }
}
