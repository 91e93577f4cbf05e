//! CNI plugins, run as the CNI specification says (1.1 and older).

mod configuration;
mod invocation;
mod outcome;
mod record;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::configuration::List;
use self::invocation::{Invocation, find_plugin};
use self::record::{Cache, Record};
use crate::error::Result;
use crate::pod::{Addresses, HostPort, Pod};

/// A configuration with the input of each of its plugins, and the error message that is made of a plugin's output.
pub(crate) fn read_anything(bytes: &[u8]) -> (Vec<Value>, String) {
    let inputs = List::read(bytes).map(|list| {
        let capabilities = BTreeMap::from([("portMappings".to_owned(), json!([]))]);
        list.plugins.iter().map(|plugin| plugin.input(&list, &capabilities, None)).collect()
    });
    (inputs.unwrap_or_default(), outcome::complaint(bytes, ""))
}

/// The CNI plugins that have run for pods, by their records.
#[derive(Debug)]
pub(crate) struct Cni {
    cache: Cache,
}

impl Cni {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        Ok(Self { cache: Cache::open(&dir.join("cni"))? })
    }

    /// Whether a configuration and its plugins exist.
    pub(crate) fn ready(conf_dir: &Path, bin_dirs: &[PathBuf]) -> Result<()> {
        let list = List::load(conf_dir)?;
        list.kinds().try_for_each(|kind| find_plugin(kind, bin_dirs).map(drop))
    }

    pub(crate) fn set_up(&self, pod: &Pod, conf_dir: &Path, bin_dirs: &[PathBuf]) -> Result<Addresses> {
        if let Some(before) = self.cache.read(&pod.id)? {
            match &before.result {
                Some(result) if before.netns == pod.netns => return outcome::addresses(result, &before),
                // Killed in the middle, or another namespace: ADD starts anew.
                _ => self.take_back(&before)?,
            }
        }
        let mut record = record_of(pod, List::load(conf_dir)?, bin_dirs);
        self.cache.write(&record)?;
        let added = self.add(&record).and_then(|result| {
            let found = outcome::addresses(&result, &record)?;
            record.result = Some(result);
            self.cache.write(&record)?;
            Ok(found)
        });
        if added.is_err() {
            // The first failure is returned; the record lets a later DEL find what this one leaves.
            let _ = self.take_back(&record);
        }
        added
    }

    pub(crate) fn tear_down(&self, id: &str, netns: Option<&Path>) -> Result<()> {
        let Some(mut record) = self.cache.read(id)? else { return Ok(()) };
        if let Some(netns) = netns {
            record.netns = netns.to_owned();
        }
        self.take_back(&record)
    }

    pub(crate) fn sandboxes(&self) -> Result<Vec<String>> {
        self.cache.list()
    }

    /// Each plugin gets the result of the one before it.
    fn add(&self, record: &Record) -> Result<Value> {
        let mut result = None;
        for plugin in &record.list.plugins {
            let given = self.invoke(record, plugin, "ADD", result.as_ref())?;
            result = Some(outcome::parse(&given, plugin)?);
        }
        Ok(result.unwrap_or_else(|| json!({ "cniVersion": record.list.version })))
    }

    /// DEL in reverse order. The record is removed when all have succeeded.
    fn take_back(&self, record: &Record) -> Result<()> {
        let result = record.result.as_ref().filter(|_| record.list.tells_before_delete());
        for plugin in record.list.plugins.iter().rev() {
            self.invoke(record, plugin, "DEL", result)?;
        }
        self.cache.remove(&record.sandbox)
    }

    fn invoke(
        &self,
        record: &Record,
        plugin: &configuration::Plugin,
        command: &'static str,
        before: Option<&Value>,
    ) -> Result<Vec<u8>> {
        let invocation = Invocation {
            plugin: &plugin.kind,
            command,
            record,
            input: plugin.input(&record.list, &record.capabilities, before),
        };
        invocation.run(&self.cache.log(&record.sandbox)?)
    }
}

fn record_of(pod: &Pod, list: List, bin_dirs: &[PathBuf]) -> Record {
    let mut capabilities = BTreeMap::new();
    if !pod.host_ports.is_empty() {
        let ports: Vec<_> = pod.host_ports.iter().map(port).collect();
        capabilities.insert("portMappings".to_owned(), Value::Array(ports));
    }
    capabilities.insert("io.kubernetes.cri.pod-annotations".to_owned(), json!(pod.annotations));
    Record {
        version: record::VERSION,
        sandbox: pod.id.clone(),
        netns: pod.netns.clone(),
        arguments: arguments(pod),
        capabilities,
        bin_dirs: bin_dirs.to_vec(),
        list,
        result: None,
    }
}

fn port(port: &HostPort) -> Value {
    json!({
        "hostPort": port.host_port,
        "containerPort": port.container_port,
        "protocol": port.protocol.name(),
        "hostIP": port.only_at().map(|ip| ip.to_string()).unwrap_or_default(),
    })
}

/// Pairs separated by `;`, so that no value may contain one.
fn arguments(pod: &Pod) -> String {
    let pairs = [
        ("IgnoreUnknown", "1"),
        ("K8S_POD_NAMESPACE", &pod.namespace),
        ("K8S_POD_NAME", &pod.name),
        ("K8S_POD_INFRA_CONTAINER_ID", &pod.id),
        ("K8S_POD_UID", &pod.uid),
    ];
    let pair = |(key, value): (&str, &str)| format!("{key}={}", value.replace(';', ""));
    pairs.map(pair).join(";")
}
