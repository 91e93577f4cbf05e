//! Bundles as CRI-O writes them: its own keys first, then every annotation and label of the pod over them; namespaces
//! that CRI-O has made, by path.

use std::path::PathBuf;

use kernel::NamespaceKind;
use serde_json::{Value, json};

use crate::isolation::{Host, Pod};

/// The namespaces that CRI-O makes for a pod beside its network.
const KINDS: [NamespaceKind; 2] = [NamespaceKind::Ipc, NamespaceKind::Uts];

/// A pod of CRI-O's.
pub(crate) struct CrioPod<'a> {
    host: &'a Host,
    pod: Pod,
    namespaces: Vec<PathBuf>,
    /// What the pod's author wrote, which CRI-O writes over its own keys.
    pub(crate) annotations: Vec<(&'static str, String)>,
}

impl<'a> CrioPod<'a> {
    /// A pod that asks for a user namespace.
    pub(crate) fn asking(host: &'a Host) -> Self {
        let pod = Self::silent(host);
        Self { annotations: vec![("wardlet.dev/user-namespace", "true".to_owned())], ..pod }
    }

    /// A pod that asks for nothing.
    pub(crate) fn silent(host: &'a Host) -> Self {
        let pod = host.pod(0);
        let made = kernel::namespace::make(None, &KINDS, None).unwrap();
        let pin = |(namespace, kind): (&kernel::Namespace, &NamespaceKind)| {
            let path = pod.network.with_extension(kind.file());
            namespace.pin(&path).unwrap();
            path
        };
        let namespaces = made.iter().zip(&KINDS).map(pin).collect();
        Self { host, pod, namespaces, annotations: Vec::new() }
    }

    /// With one more annotation.
    pub(crate) fn with(mut self, key: &'static str, value: &str) -> Self {
        self.annotations.push((key, value.to_owned()));
        self
    }

    /// The bundle of its first container.
    pub(crate) fn sandbox(&self) -> (String, PathBuf) {
        self.bundle(None, |_| {})
    }

    /// The bundle of another of its containers.
    pub(crate) fn container(&self, sandbox: &str) -> (String, PathBuf) {
        self.bundle(Some(sandbox), |_| {})
    }

    pub(crate) fn bundle(&self, sandbox: Option<&str>, change: impl FnOnce(&mut Value)) -> (String, PathBuf) {
        self.host.bundle(&self.pod, |spec| {
            let id = crate::asking::id(spec);
            let kind = if sandbox.is_some() { "container" } else { "sandbox" };
            spec["annotations"] = json!({
                "io.kubernetes.cri-o.ContainerType": kind,
                "io.kubernetes.cri-o.SandboxID": sandbox.unwrap_or(&id),
                "io.kubernetes.cri-o.Namespace": "default",
                "io.kubernetes.cri-o.KubeName": "web",
            });
            for (key, value) in &self.annotations {
                spec["annotations"][*key] = json!(value);
            }
            for space in spec["linux"]["namespaces"].as_array_mut().unwrap() {
                if let Some(at) = KINDS.iter().position(|kind| space["type"] == kind.file()) {
                    space["path"] = json!(self.namespaces[at]);
                }
            }
            change(spec);
        })
    }
}
