//! Runs pods from their start to their end, and applies changes of their manifests.

use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::ports::{PodSource, SystemClock};
use agent::{
    Admitted, Agent, CallLog, Desired, Error, EventLog, FileProblem, FileSet, FileSource, LogRotation,
    Objects, Options, PodUpdate, StatusFiles, Synced,
};
use kernel::{Live, Recorder};
use ledger::Ledger;
use manifest::{Object, Reading};
use node::{Node, host_ip, host_name};
use runtime::connect::Connected;
use telemetry::metrics::Registry;

use super::admit;
use super::signals::Signals;
use super::supervisor::PodSupervisor;
use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::input;
use crate::words;

/// Exit code after a signal: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// The dependencies of a run.
pub(crate) struct Run<'a> {
    pub(crate) node: &'a Node,
    pub(crate) args: &'a RunArgs,
    pub(crate) runtime: &'a Connected,
    pub(crate) objects: Objects,
    pub(crate) ledger: Arc<Ledger>,
}

impl Run<'_> {
    /// Opens an agent on this runtime.
    ///
    /// # Errors
    /// If the run directory, the file of `--calls` or the state directory cannot be used.
    pub(crate) fn agent(&self) -> Result<Agent, Failure> {
        Ok(Agent::open(self.options()?)?)
    }

    /// What an agent on this runtime needs.
    ///
    /// # Errors
    /// If the run directory or the file of `--calls` cannot be used.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let run_dir = self.args.run_dir.clone().unwrap_or_else(|| self.node.instance().run_dir());
        let pins = run_dir.join("userns");
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&pins);
        made.map_err(|e| Failure::unknown(format!("cannot make {}: {e}", pins.display())))?;
        let calls = self.args.calls.as_deref().map(CallLog::create).transpose();
        let calls = calls.map_err(|error| Failure::unknown(error.to_string()))?;
        let live = Live::pinning_in(&pins);
        Ok(Options {
            state: self.node.state_dir().to_owned(),
            client: self.runtime.client.clone(),
            endpoint: self.runtime.endpoint.to_string(),
            ledger: Arc::clone(&self.ledger),
            kernel: match &calls {
                Some(calls) => Arc::new(Recorder::telling(live, calls.of_kernel())),
                None => Arc::new(live),
            },
            objects: Arc::new(self.objects.clone()),
            statuses: Arc::new(StatusFiles::new(self.node.state_dir().to_owned())),
            events: Arc::new(EventLog),
            clock: Arc::new(SystemClock),
            settings: agent::Settings::default(),
            dead_containers: None,
            logs: LogRotation {
                max_size: self.args.container_log_max_size,
                max_files: self.args.container_log_max_files,
                names: agent::RotatedLogs::Numbered,
            },
            log_checks: agent::LogChecks::default(),
            runtime_timeout: None,
            images: agent::ImageOptions::default(),
            root_dir: None,
            pod_logs_dir: None,
            node: host_name(),
            host_ip: host_ip(),
            defaults: agent::PodDefaults::default(),
            metrics: Registry::default(),
            probe_metrics: Registry::default(),
            cgroups: None,
            devices: None,
            journal: calls.map(CallLog::of_runtime),
        })
    }

    /// Runs until all pods have ended. Returns the exit code of the first pod that failed.
    ///
    /// # Errors
    /// If a pod cannot be started or removed, or if a third signal leaves pods running.
    pub(crate) async fn all(&self, pods: Vec<Admitted>, reading: &Reading) -> Result<ExitCode, Failure> {
        let mut signals = Signals::catch()?;
        let mut desired = Desired::default();
        if let Some(twice) = desired.replace(&reading.objects).doubled.first() {
            return Err(refused_twice(twice));
        }
        let agent = self.agent()?;
        agent.collect_orphans().await;
        let mut handles = Vec::new();
        for pod in pods {
            match agent.sync(PodUpdate::Apply(Box::new(pod))).await {
                Ok(Synced::Started(handle)) => handles.push(handle),
                Ok(_) => {}
                Err(error) => {
                    // Pods that ran before this run are left running.
                    handles.retain(|handle| !handle.is_adopted());
                    end_all(PodSupervisor::new(handles, self.args)).await;
                    return Err(error.into());
                }
            }
        }
        let mut supervisor = PodSupervisor::new(handles, self.args);
        let mut source = FileSource::new(&self.args.files, reading);
        let mut asked = 0;
        let mut unstarted = None;
        loop {
            tokio::select! {
                is_over = supervisor.next() => {
                    if is_over {
                        break;
                    }
                    for pod in supervisor.take_due() {
                        let name = pod.pod.metadata.name.clone().unwrap_or_default();
                        if let Err(error) = apply(&agent, Box::new(pod), &mut supervisor).await {
                            words::failure(&error.into());
                            unstarted = Some(name);
                        }
                    }
                }
                () = signals.next() => {
                    asked += 1;
                    say_ending(asked, &supervisor);
                    if asked > 2 {
                        return Err(left(&supervisor));
                    }
                    supervisor.stop((asked > 1).then_some(Duration::ZERO)).await;
                }
                Some(set) = source.next(), if asked == 0 => {
                    self.reconcile(&agent, set, &mut desired, &mut supervisor).await;
                }
            }
        }
        let code = supervisor.code()?;
        if let Some(name) = unstarted.filter(|_| asked == 0) {
            return Err(Failure::unknown(format!("pod {name} was ended and could not be started anew")));
        }
        Ok(ExitCode::from(if asked > 0 { INTERRUPTED } else { code }))
    }

    /// Applies the current manifests. A pod whose new definition is refused is not changed.
    async fn reconcile(
        &self,
        agent: &Agent,
        set: FileSet,
        desired: &mut Desired,
        supervisor: &mut PodSupervisor,
    ) {
        set.problems.iter().for_each(say_problem);
        let reading = Reading { objects: set.objects, ..Reading::default() };
        if self.objects.replace(&reading.objects) {
            agent.refresh();
        }
        let workloads = reading.objects.iter().filter(|object| admission::is_workload(object));
        workloads.for_each(|workload| words::failure(&admit::no_pod(workload)));
        let changes = desired.replace(&reading.objects);
        changes.doubled.into_iter().for_each(|twice| words::failure(&refused_twice(twice)));
        for key in changes.removed {
            supervisor.dropped(&key);
            let (namespace, name) = key;
            // A deletion does not fail.
            let _ = agent.sync(PodUpdate::Delete { namespace, name, grace: None }).await;
        }
        for object in changes.applied {
            match self.admit(&reading, object).await {
                Ok(pod) => {
                    if let Err(error) = apply(agent, pod, supervisor).await {
                        words::failure(&error.into());
                    }
                }
                Err(failure) => words::failure(&failure),
            }
        }
    }

    /// Admits one pod, with the objects that are not pods.
    ///
    /// # Errors
    /// If the pod is refused.
    async fn admit(&self, reading: &Reading, pod: &Object) -> Result<Box<Admitted>, Failure> {
        let beside = reading.objects.iter().filter(|object| !admission::has_pods(object));
        let objects = beside.chain([pod]).cloned().collect();
        let reading = Reading { objects, ..Reading::default() };
        let considered = admit::consider(self.node, self.args, &reading)?;
        let admitted = admit::pods(considered, &self.runtime.client, self.node, self.args).await?;
        let gone = || Failure::unknown(format!("{}: no admission decision on pod {}", pod.file, pod.name()));
        admitted.into_iter().next().map(Box::new).ok_or_else(gone)
    }
}

/// Starts a pod, or updates a running one. If an immutable field changes, the old pod is stopped, then the
/// new one is started, as with a kubelet's static pods.
async fn apply(agent: &Agent, pod: Box<Admitted>, supervisor: &mut PodSupervisor) -> Result<(), Error> {
    let metadata = &pod.pod.metadata;
    let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let name = metadata.name.clone().unwrap_or_default();
    let title = format!("{namespace}/{name}");
    let key = (namespace.clone(), name.clone());
    if supervisor.is_ending(&key) {
        supervisor.replaced(&key, pod);
        return Ok(());
    }
    match agent.sync(PodUpdate::Apply(pod.clone())).await {
        Ok(Synced::Started(handle)) => supervisor.add(handle),
        Ok(Synced::Updated(fields)) => words::say(&format!("{title}: updated {}", fields.join(", "))),
        Ok(_) => {}
        Err(Error::Immutable { fields, .. }) => {
            let fields = fields.join(", ");
            if supervisor.replaced(&key, pod) {
                words::say(&format!(
                    "{title}: {fields} cannot change while the pod runs; it is started anew"
                ));
                // A deletion does not fail.
                let _ = agent.sync(PodUpdate::Delete { namespace, name, grace: None }).await;
            } else {
                words::warning(&format!(
                    "{title}: {fields} cannot change: the pod has ended and its records are kept (--rm=false)"
                ));
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn refused_twice(pod: &Object) -> Failure {
    let (namespace, name) = (pod.namespace(), pod.name());
    Failure::refused(format!("{}: pod {namespace}/{name} is in the manifests already", pod.file))
        .with_hint("give it another name or namespace")
}

fn say_problem(problem: &FileProblem) {
    match problem {
        FileProblem::Invalid(findings) => input::say(findings),
        other => words::warning(&other.to_string()),
    }
}

fn say_ending(asked: u32, supervisor: &PodSupervisor) {
    words::say(&match asked {
        1 => format!("stopping all pods (Ctrl-C again to kill them): {}", supervisor.graces()),
        2 => "killing all pods (Ctrl-C again to leave them as they are)".to_owned(),
        _ => "leaving the pods as they are".to_owned(),
    });
}

fn left(supervisor: &PodSupervisor) -> Failure {
    let still = supervisor.titles().join(", ");
    Failure::unknown(format!("pods are left as they are: {still}")).with_hint("`wardlet stop` ends them")
}

async fn end_all(mut supervisor: PodSupervisor) {
    supervisor.stop(None).await;
    while !supervisor.next().await {}
    if let Err(failure) = supervisor.code() {
        words::failure(&failure);
    }
}
