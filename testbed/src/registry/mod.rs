//! The real registry, three times over one store, with a token server and a proxy that makes faults.

pub mod faults;
mod http;
mod proxy;
mod token;

use std::fs;
use std::path::PathBuf;

pub use proxy::serve as serve_faults;
pub use token::serve as serve_tokens;

use crate::cluster::addresses::{FAULT_PROXY, REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN, TOKEN_SERVER};
use crate::cluster::daemons::{Launch, connect, fill};
use crate::cluster::parts::Part;
use crate::cluster::record::Record;
use crate::{Error, Result, cache};

/// The user that may pull where authentication is required.
pub const USER: &str = "testbed";
/// And the password that goes with it.
pub const PASSWORD: &str = "wards";
/// Both, in the only form that the registry takes: bcrypt.
const HTPASSWD: &str = "testbed:$2b$05$testbedtestbedtestbed.vFgiQRoVrOmr2ZrlqOagnlLA6bHotF2\n";

/// The daemons of the part.
pub(crate) fn launches(record: &Record) -> Result<Vec<Launch>> {
    let program = cache::program("registry", "registry")?;
    let pki = record.places.pki();
    token::make_key(&pki)?;
    let htpasswd = record.places.data.join("htpasswd");
    fs::write(&htpasswd, HTPASSWD).map_err(Error::file("write", &htpasswd))?;
    let basic = format!("auth: {{htpasswd: {{realm: testbed, path: {}}}}}", htpasswd.display());
    let bundle = pki.join("token.crt");
    let bearer = format!(
        "auth: {{token: {{realm: \"http://{TOKEN_SERVER}/token\", service: testbed, issuer: testbed, \
         rootcertbundle: {}}}}}",
        bundle.display()
    );
    let own = std::env::current_exe().map_err(Error::file("find", "/proc/self/exe"))?;
    let mut all = Vec::new();
    let kinds = [
        ("registry", REGISTRY, String::new()),
        ("registry-basic", REGISTRY_BASIC, basic),
        ("registry-token", REGISTRY_TOKEN, bearer),
    ];
    for (name, address, auth) in kinds {
        let config = configuration(record, name, &[("@ADDRESS@", address), ("@AUTH@", &auth)])?;
        all.push(Launch::new(name, program.clone(), ["serve".into(), config]));
    }
    let name = record.name.clone();
    all.push(Launch::new("token-server", own.clone(), ["internal-tokens".into(), name.clone()]));
    all.push(Launch::new("fault-proxy", own, ["internal-faults".into(), name]));
    Ok(all)
}

fn configuration(record: &Record, name: &str, values: &[(&str, &str)]) -> Result<String> {
    let mut text = fill(record, include_str!("../../etc/registry.yml"));
    for (key, value) in values {
        text = text.replace(key, value);
    }
    let path = record.places.data.join(format!("{name}.yml"));
    fs::write(&path, text).map_err(Error::file("write", &path))?;
    Ok(path.display().to_string())
}

/// Whether all of them answer.
pub(crate) fn ready() -> Result<(), String> {
    [REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN, TOKEN_SERVER, FAULT_PROXY].into_iter().try_for_each(connect)
}

/// Where images come from, for our own runtime: the hosts that tests name, all from the testbed's registry.
pub(crate) fn for_wardlet(record: &Record) -> Result<()> {
    let path = record.places.data.join("registries.yaml");
    fs::write(&path, of_wardlet(record)).map_err(Error::file("write", path))
}

/// The same as a text.
pub(crate) fn of_wardlet(record: &Record) -> String {
    let mut text = String::from("registries:\n");
    // The last is one that upstream's specs run in a pod: containerd speaks plain HTTP with every local one.
    for address in [REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN, FAULT_PROXY, "localhost:5000"] {
        text.push_str(&format!("  {address}:\n    plainHttp: true\n"));
    }
    if record.parts.has(Part::Registry) {
        for host in ["registry.k8s.io", "gcr.io", "k8s.gcr.io", "localhost"] {
            text.push_str(&format!("  {host}:\n    mirrors: [\"{REGISTRY}\"]\n"));
        }
    }
    text
}

/// containerd's view: every pull goes to the testbed's registry, and our own addresses speak plain HTTP.
pub(crate) fn mirror(record: &Record) -> Result<()> {
    let root = record.places.data.join("certs.d");
    let mut hosts = vec![];
    if record.parts.has(Part::Registry) {
        hosts.push(("_default", REGISTRY));
    }
    hosts.extend([REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN, FAULT_PROXY].map(|address| (address, address)));
    for (directory, address) in hosts {
        let directory: PathBuf = root.join(directory);
        fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
        let url = format!("http://{address}");
        let text = format!(
            "server = \"{url}\"\n[host.\"{url}\"]\n  capabilities = [\"pull\", \"resolve\", \"push\"]\n"
        );
        let path = directory.join("hosts.toml");
        fs::write(&path, text).map_err(Error::file("write", path))?;
    }
    Ok(())
}
