//! An example while it runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Stage, text};

const PATIENCE: Duration = Duration::from_secs(180);

/// `wardlet run` in the foreground. Dropped, it ends its pods.
pub(crate) struct Play<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) file: PathBuf,
    child: Child,
}

impl<'a> Play<'a> {
    pub(crate) fn start(stage: &'a Stage, file: &Path, more: &[&str]) -> Self {
        let calls = stage.path("calls").display().to_string();
        let mut command = stage.run(file, &[&["--calls", calls.as_str()], more].concat());
        command.stdout(File::create(stage.path("out")).unwrap());
        command.stderr(File::create(stage.path("err")).unwrap());
        Self { stage, file: file.to_owned(), child: command.spawn().unwrap() }
    }

    /// What the pods have printed so far.
    pub(crate) fn out(&self) -> String {
        std::fs::read_to_string(self.stage.path("out")).unwrap()
    }

    /// That, and wardlet's own words.
    pub(crate) fn said(&self) -> String {
        format!("{}\n{}", self.out(), std::fs::read_to_string(self.stage.path("err")).unwrap())
    }

    /// Waits for what comes by itself.
    pub(crate) fn await_that(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() || holds(self), "ended ({ended:?}) before: {what}\n{}", self.said());
            assert!(began.elapsed() < PATIENCE, "never: {what}\n{}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a pod has printed this.
    pub(crate) fn await_out(&mut self, words: &str) {
        self.await_that(words, |play| play.out().contains(words));
    }

    pub(crate) fn pod(&self, name: &str) -> Option<serde_json::Value> {
        self.stage.json(&["ps"]).as_array().unwrap().iter().find(|pod| pod["name"] == name).cloned()
    }

    pub(crate) fn await_running(&mut self, name: &str) -> serde_json::Value {
        let is_up = |play: &Self| play.pod(name).is_some_and(|pod| pod["phase"] == "Running");
        self.await_that(&format!("{name} runs"), is_up);
        self.pod(name).unwrap()
    }

    /// What `wardlet ps` says of one of its containers.
    pub(crate) fn container(&self, pod: &str, name: &str) -> Option<serde_json::Value> {
        let pod = self.pod(pod)?;
        pod["status"]["containers"].as_array()?.iter().find(|c| c["name"] == name).cloned()
    }

    pub(crate) fn exec(&self, words: &[&str]) -> Output {
        self.stage.wardlet(&[&["exec"], words].concat()).output().unwrap()
    }

    pub(crate) fn process(&self, pod: &str, comm: &str) -> u32 {
        self.find(pod, comm).unwrap_or_else(|| panic!("{pod} has no {comm}:\n{}", self.said()))
    }

    /// A process of this pod with this name, as the host numbers it.
    pub(crate) fn find(&self, pod: &str, comm: &str) -> Option<u32> {
        let comm_of = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.stage.processes(pod).into_iter().find(|pid| comm_of(pid).trim() == comm)
    }

    /// Its exit code, once its pods have ended by themselves.
    pub(crate) fn ended(mut self) -> (i32, String) {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "it does not end:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        (self.child.wait().unwrap().code().unwrap_or(-1), self.said())
    }

    /// Ctrl-C: all pods are ended and nothing is left of them.
    pub(crate) fn end(self) {
        self.interrupt();
        let stage = self.stage;
        let (code, said) = self.ended();
        assert_eq!(code, 130, "{said}");
        assert_eq!(stage.leftovers(), Vec::<String>::new(), "{said}");
    }

    fn interrupt(&self) {
        // The commands in between are replaced by the program: the same process.
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::INT);
    }
}

impl Drop for Play<'_> {
    fn drop(&mut self) {
        let began = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            // The second one hurries.
            self.interrupt();
            std::thread::sleep(Duration::from_millis(300));
            if began.elapsed() > PATIENCE {
                let _ = self.child.kill();
            }
        }
    }
}

/// Its pods to their end; its exit code, what was said, and nothing left.
pub(crate) fn to_its_end(stage: &Stage, file: &Path, more: &[&str]) -> (i32, String) {
    let (code, said) = Play::start(stage, file, more).ended();
    assert_eq!(stage.leftovers(), Vec::<String>::new(), "{said}");
    (code, said)
}

/// A command that is to fail, and its words.
pub(crate) fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text(output));
    text(output)
}
