//! The two runs: the same pods by a kubelet and by `wardlet run` or `wardlet agent`, one after the other, for a kubelet
//! kills pods that it does not know.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::Against;
use super::pods::{HOST_DIRECTORY, PROFILE, Pod, objects};
use super::recording::{self, Recording};
use crate::cluster::addresses::NODE_NAME;
use crate::cluster::daemons;
use crate::recorder::Call;
use crate::{Error, Part, Result, Testbed, faults, own, program, recorder};

/// How long all pods may take to start, and again to end.
const PATIENCE: Duration = Duration::from_secs(400);
/// A client that makes no new call for so long has made all.
const QUIET: Duration = Duration::from_secs(4);

/// The name service of the node, for both clients.
const RESOLV_CONF: &str = "nameserver 10.5.5.5\nsearch node.example\noptions timeout:2 ndots:1\n";

/// A client that refuses a pod has ended by then.
const REFUSED_WITHIN: Duration = Duration::from_secs(20);

/// Reasons of a kubelet that refuses a pod.
const REASONS: [&str; 1] = ["SysctlForbidden"];

/// What a kubelet has asked, and what each of ours has.
pub(crate) struct Runs {
    pub(crate) kubelet: Recording,
    pub(crate) ours: Vec<Recording>,
}

/// Runs the pods by a kubelet and then by ours, on a testbed that has a kubelet and a recorder.
///
/// # Errors
/// If the API server refuses an object, or a client cannot be started or ended.
pub(crate) fn run(testbed: &Testbed, against: &[Against], pods: &[Pod], keep: Option<&Path>) -> Result<Runs> {
    let run = Run { testbed, pods, keep, file: recorder::file(testbed.record()) };
    run.prepare()?;
    let kubelet = run.by_kubelet()?;
    faults::kill(testbed, Part::Kubelet)?;
    let one = |against: &Against| match against {
        Against::Run => run.by_wardlet(),
        Against::Agent => run.by_agent(),
    };
    Ok(Runs { kubelet, ours: against.iter().map(one).collect::<Result<_>>()? })
}

impl Runs {
    /// Reads what an earlier comparison has kept in this directory.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn read(dir: &Path, against: &[Against]) -> Result<Self> {
        let of = |name| Recording::read(&dir.join(name), 0);
        let ours = against.iter().map(|one| of(file(*one))).collect::<Result<_>>()?;
        Ok(Self { kubelet: of(KUBELET)?, ours })
    }
}

const KUBELET: &str = "kubelet.jsonl";

fn file(against: Against) -> &'static str {
    match against {
        Against::Run => "wardlet.jsonl",
        Against::Agent => "agent.jsonl",
    }
}

struct Run<'a> {
    testbed: &'a Testbed,
    pods: &'a [Pod],
    keep: Option<&'a Path>,
    /// The recorder's.
    file: PathBuf,
}

impl Run<'_> {
    /// What pods find on the host: a directory with a file, and a seccomp profile where each client has its own.
    fn prepare(&self) -> Result<()> {
        let data = &self.testbed.record().places.data;
        for client in ["kubelet", "wardlet"] {
            let dir = data.join(client).join("seccomp");
            fs::create_dir_all(&dir).map_err(Error::file("make", &dir))?;
            let profile = dir.join(PROFILE);
            let text = r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#;
            fs::write(&profile, text).map_err(Error::file("write", profile))?;
        }
        // The kubelet reads the testbed's file for each pod, wardlet the host's.
        let resolver = data.join("resolv.conf");
        fs::write(&resolver, RESOLV_CONF).map_err(Error::file("write", &resolver))?;
        let mut copy = self.testbed.command("cp");
        program::run(copy.arg("--remove-destination").arg(&resolver).arg("/etc/resolv.conf"))?;
        fs::create_dir_all(HOST_DIRECTORY).map_err(Error::file("make", HOST_DIRECTORY))?;
        let file = format!("{HOST_DIRECTORY}/file");
        fs::write(&file, "of the host\n").map_err(Error::file("write", &file))
    }

    /// Writes the pods that both clients run, or one that both refuse, with all objects that pods name.
    fn manifest(&self, name: &str, is_in: impl Fn(&Pod) -> bool) -> Result<PathBuf> {
        let pods = self.pods.iter().filter(|pod| is_in(pod)).map(|pod| pod.manifest.clone());
        let items: Vec<Value> = objects().into_iter().chain(pods).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let path = self.testbed.record().places.data.join(name);
        fs::write(&path, list.to_string()).map_err(Error::file("write", &path))?;
        Ok(path)
    }

    fn refused(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.is_refused())
    }

    /// The lines that are recorded so far.
    fn lines(&self) -> Result<usize> {
        let text = fs::read_to_string(&self.file).map_err(Error::file("read", &self.file))?;
        Ok(text.lines().count())
    }

    fn by_kubelet(&self) -> Result<Recording> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects()});
        let path = self.testbed.record().places.data.join("objects.json");
        fs::write(&path, list.to_string()).map_err(Error::file("write", &path))?;
        program::run(self.testbed.command("kubectl").args(["create", "-f"]).arg(&path))?;
        self.by_node(KUBELET)
    }

    /// The agent takes the kubelet's place at the API server, with its configuration and credentials.
    fn by_agent(&self) -> Result<Recording> {
        let _agent = Wardlet::agent(self)?;
        self.by_node(file(Against::Agent))
    }

    /// Creates the pods at the API server, and deletes them when they have run.
    fn by_node(&self, name: &str) -> Result<Recording> {
        let begun = self.lines()?;
        let pods: Vec<&Value> = self.pods.iter().map(|pod| &pod.manifest).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
        let path = self.testbed.record().places.data.join("pods.json");
        fs::write(&path, list.to_string()).map_err(Error::file("write", &path))?;
        program::run(self.testbed.command("kubectl").args(["create", "-f"]).arg(&path))?;
        self.settle(begun)?;
        for pod in self.refused() {
            let mut get = self.testbed.command("kubectl");
            get.args(["get", "pod", &pod.name, "-o", "jsonpath={.status.reason}"]);
            self.note(&recording::refused(&pod.name, &program::text(&mut get)?))?;
        }
        let mut delete = self.testbed.command("kubectl");
        let limit = format!("--timeout={}s", PATIENCE.as_secs());
        program::run(delete.args(["delete", "pods", "--all", &limit]))?;
        self.kept(begun, name)
    }

    fn by_wardlet(&self) -> Result<Recording> {
        let begun = self.lines()?;
        for pod in self.refused() {
            let alone = self.manifest("refused.json", |other| other.name == pod.name)?;
            let reason = Wardlet::start(self, &alone)?.refusal()?;
            self.note(&recording::refused(&pod.name, &reason))?;
        }
        let runnable = self.manifest("runnable.json", |pod| !pod.is_refused())?;
        let mut wardlet = Wardlet::start(self, &runnable)?;
        let settled = self.settle(begun);
        wardlet.stop()?;
        settled?;
        self.kept(begun, file(Against::Run))
    }

    /// Adds a line to the recording.
    fn note(&self, call: &Call) -> Result<()> {
        let line = serde_json::to_string(call).unwrap_or_default();
        let file = File::options().append(true).open(&self.file);
        file.and_then(|mut file| writeln!(file, "{line}")).map_err(Error::file("write", &self.file))
    }

    /// What was recorded from this line on, kept under this name if the caller wants it.
    fn kept(&self, begun: usize, name: &str) -> Result<Recording> {
        if let Some(dir) = self.keep {
            let text = fs::read_to_string(&self.file).map_err(Error::file("read", &self.file))?;
            let lines: String = text.lines().skip(begun).map(|line| format!("{line}\n")).collect();
            fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
            fs::write(dir.join(name), lines).map_err(Error::file("write", dir.join(name)))?;
        }
        Recording::read(&self.file, begun)
    }

    /// Waits until every container was started and the client makes no call that it has not made before. A pod that a
    /// client does not run is a difference, which the comparison reports.
    fn settle(&self, begun: usize) -> Result<()> {
        let wanted = self.pods.iter().filter(|pod| !pod.is_refused());
        let wanted: Vec<String> =
            wanted.flat_map(|pod| pod.containers().map(|name| format!("{}/{name}", pod.name))).collect();
        let (since, mut changed) = (Instant::now(), Instant::now());
        let mut last = Recording::default();
        while since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(500));
            let now = Recording::read(&self.file, begun)?;
            if now != last {
                (last, changed) = (now, Instant::now());
            }
            let is_complete = wanted.iter().all(|name| last.started.contains(name));
            let patience = if is_complete { QUIET } else { QUIET * 8 };
            if changed.elapsed() > patience {
                break;
            }
        }
        Ok(())
    }
}

/// `wardlet run` of all pods or `wardlet agent`, killed with this value.
struct Wardlet {
    child: Child,
    log: PathBuf,
}

impl Wardlet {
    fn start(run: &Run<'_>, manifest: &Path) -> Result<Self> {
        let places = &run.testbed.record().places;
        let endpoint = format!("unix://{}", places.recorder_socket().display());
        let path = manifest.display().to_string();
        Self::spawn(run, &["run".into(), "--quiet".into(), "--runtime-endpoint".into(), endpoint, path])
    }

    fn agent(run: &Run<'_>) -> Result<Self> {
        Self::spawn(run, &daemons::wardlet_agent(run.testbed.record())?)
    }

    fn spawn(run: &Run<'_>, arguments: &[String]) -> Result<Self> {
        let log = run.testbed.record().places.log("wardlet");
        let out = File::create(&log).map_err(Error::file("make", &log))?;
        let copy = out.try_clone().map_err(Error::file("open", &log))?;
        let program = own::program("wardlet")?;
        // With the kubelet's host name the node has the same name.
        let script = format!("hostname {NODE_NAME} && exec \"$@\"");
        let mut command: Command = run.testbed.command("unshare");
        command.args(["--uts", "sh", "-c", &script, "sh"]).arg(&program);
        command.args(arguments);
        let spawned = command.stdin(Stdio::null()).stdout(out).stderr(copy).spawn();
        let child =
            spawned.map_err(|source| Error::Spawn { program: program.display().to_string(), source })?;
        Ok(Self { child, log })
    }

    /// Waits for the end of a client that refuses its pod. Returns the kubelet's reason of such a refusal, if the client
    /// names it.
    fn refusal(mut self) -> Result<String> {
        let ended = self.ends_within(REFUSED_WITHIN)?;
        let said = fs::read_to_string(&self.log).map_err(Error::file("read", &self.log))?;
        let reason = REASONS.into_iter().find(|reason| said.contains(reason));
        Ok(reason.filter(|_| ended).unwrap_or_default().to_owned())
    }

    fn ends_within(&mut self, patience: Duration) -> Result<bool> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if self.child.try_wait().map_err(Error::file("wait for", "wardlet"))?.is_some() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(false)
    }

    /// Stops all pods and waits for the end.
    fn stop(&mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself, with all pods refused.
            let _ = kill_process(pid, Signal::INT);
        }
        if self.ends_within(PATIENCE)? {
            return Ok(());
        }
        let cause = program::tail(&fs::read_to_string(&self.log).unwrap_or_default());
        Err(Error::NotReady { part: "the end of wardlet run".into(), seconds: PATIENCE.as_secs(), cause })
    }
}

impl Drop for Wardlet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
