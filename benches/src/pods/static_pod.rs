//! A static pod on a real kubelet with containerd and runc: a file appears in its directory, and goes.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use testbed::{Part, Parts, Testbed};

use super::Hand;
use crate::memory;

pub(super) struct StaticPods {
    testbed: Testbed,
    supervisor: u32,
    files: Vec<PathBuf>,
}

impl StaticPods {
    pub(super) fn new() -> anyhow::Result<Self> {
        let testbed = Testbed::start(Parts::of(&[Part::Kubelet]))?;
        let supervisor = testbed.supervisor().context("a testbed without a supervisor")?;
        Ok(Self { supervisor: u32::try_from(supervisor.pid)?, testbed, files: Vec::new() })
    }

    /// Written elsewhere and moved: the kubelet never sees half a file.
    fn put(&mut self, number: usize, text: &str) -> anyhow::Result<()> {
        let data = &self.testbed.record().places.data;
        let (new, place) = (data.join("pod.new"), data.join(format!("manifests/{number}.yaml")));
        fs::write(&new, text)?;
        fs::rename(&new, &place)?;
        self.files.push(place);
        Ok(())
    }
}

impl Hand for StaticPods {
    fn name(&self) -> &'static str {
        "static pod"
    }

    fn start(&mut self, manifest: &str) -> anyhow::Result<()> {
        let manifest = manifest.replace("localhost/wardlet-bench:1", testbed::images::BUSYBOX);
        manifest.split("---\n").enumerate().try_for_each(|(number, text)| self.put(number, text))
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        self.files.drain(..).try_for_each(fs::remove_file).context("a static pod's file")
    }

    fn rest(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn serves(&self, pid: u32) -> bool {
        const SERVERS: &[&str] = &["kubelet", "containerd", "containerd-shim-runc-v2", "pause"];
        let program = memory::executable(pid);
        program.is_some_and(|path| SERVERS.iter().any(|name| path.ends_with(name)))
            && memory::is_inside(pid, self.supervisor)
    }
}
