//! Running a suite: its specs are listed by a dry run, divided into streams, and run by one process a stream on one node.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::blocks::Block;
use super::ginkgo::{self, Report, SpecState};
use super::results::SpecResult;
use super::suites::{Binary, Suite};
use crate::cluster::addresses::API_SERVER;
use crate::cluster::parts::{Part, Parts};
use crate::{Error, Result, Testbed, program};

/// What of a suite is asked for: all of it by default.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Only specs whose names match this regular expression.
    pub focus: Option<String>,
    /// None whose names match this one.
    pub skip: Option<String>,
    /// Only specs of these blocks; of all if there is none.
    pub blocks: Vec<&'static Block>,
}

impl Request {
    /// Whether all of the suite is asked for.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.focus.is_none() && self.skip.is_none() && self.blocks.is_empty()
    }

    fn has_file(&self, path: &str) -> bool {
        self.blocks.is_empty() || self.blocks.iter().any(|block| block.has_file(path))
    }
}

/// A spec to be run, or to be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its whole name.
    pub name: String,
    /// Its source file.
    pub file: String,
    /// Whether it must run alone.
    pub serial: bool,
    /// Why it is not run, if it is not.
    pub left_out: Option<&'static str>,
}

/// The specs of a suite that were asked for, by name.
///
/// # Errors
/// If the suite's program is not installed or cannot list them, or there is no such spec.
pub fn select(suite: &Suite, request: &Request) -> Result<Vec<Spec>> {
    let dir = tempfile::tempdir().map_err(Error::file("make", std::env::temp_dir()))?;
    let report = dir.path().join("report.json");
    let mut command = Command::new(suite.binary.path()?);
    command.current_dir(dir.path()).env_remove("KUBECONFIG").args(["--ginkgo.dry-run"]);
    command.args(options(suite.binary, dir.path(), &report));
    let filters = [
        ("label-filter", Some(suite.labels)),
        ("focus", request.focus.as_deref()),
        ("skip", request.skip.as_deref()),
    ];
    for (option, value) in filters {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            command.arg(format!("--ginkgo.{option}={value}"));
        }
    }
    program::run(&mut command)?;
    let specs = chosen(suite, request, &ginkgo::read(&report)?);
    if specs.iter().all(|spec| spec.left_out.is_some()) {
        return Err(Error::NoSpec { suite: suite.name, left_out: specs.len() });
    }
    Ok(specs)
}

fn chosen(suite: &Suite, request: &Request, reports: &[Report]) -> Vec<Spec> {
    let is_ours = |report: &&Report| {
        report.is_selected() && suite.has_file(report.file()) && request.has_file(report.file())
    };
    let spec = |report: &Report| {
        let name = report.name();
        let left_out = suite.why_left_out(&name);
        Spec { name, file: report.file().to_owned(), serial: report.has_label("Serial"), left_out }
    };
    let mut specs: Vec<Spec> = reports.iter().filter(is_ours).map(spec).collect();
    specs.sort_by(|one, other| one.name.cmp(&other.name));
    specs
}

/// The options of every run of a program, a dry one or not.
fn options(binary: Binary, dir: &Path, report: &Path) -> Vec<String> {
    let mut options = vec!["--ginkgo.no-color".into(), format!("--ginkgo.json-report={}", report.display())];
    if binary == Binary::E2eNode {
        // Else it makes this directory in the current one.
        options.push(format!("--config-dir={}", dir.join("kubelet.conf.d").display()));
    } else {
        options.push("--provider=skeleton".into());
    }
    options
}

/// The parts of a node for a suite.
#[must_use]
pub fn parts(suite: &Suite) -> Parts {
    let mut parts = vec![Part::ControllerManager, Part::Scheduler, Part::Kubelet];
    parts.extend(suite.registry.then_some(Part::Registry));
    Parts::of(&parts)
}

/// How specs are divided: `streams` that run at the same time, and after them those that must run alone. Neighbours by name
/// take about as long as each other, so that they go to different streams.
fn divide(specs: &[Spec], streams: usize) -> (Vec<Vec<&Spec>>, Vec<&Spec>) {
    let (alone, together): (Vec<&Spec>, Vec<&Spec>) =
        specs.iter().filter(|spec| spec.left_out.is_none()).partition(|spec| spec.serial);
    let streams = streams.clamp(1, together.len().max(1));
    let of = |number: usize| together.iter().skip(number).step_by(streams).copied().collect::<Vec<_>>();
    ((0..streams).map(of).filter(|stream| !stream.is_empty()).collect(), alone)
}

/// One process with some specs.
struct Stream<'a> {
    /// Its log and its report are called so.
    name: String,
    specs: Vec<&'a Spec>,
}

/// Runs the specs on a node that is up. Copies of the logs are kept in `keep`. A stream that ends before its report is written
/// has reached none of its specs.
///
/// # Errors
/// If no spec was reached at all, or a log cannot be copied.
pub fn run(testbed: &Testbed, suite: &Suite, specs: &[Spec], how: &How<'_>) -> Result<Vec<SpecResult>> {
    let base = base(testbed, suite)?;
    let (together, alone) = divide(specs, how.streams);
    let streams: Vec<Stream<'_>> = (1..)
        .zip(together)
        .map(|(number, specs)| Stream { name: format!("e2e-{}-{number}", suite.name), specs })
        .collect();
    let last = Stream { name: format!("e2e-{}-alone", suite.name), specs: alone };
    let run = |stream: &Stream<'_>| stream.run(testbed, &base);
    let mut results: Vec<SpecResult> = std::thread::scope(|scope| {
        let running: Vec<_> = streams.iter().map(|stream| scope.spawn(|| run(stream))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<SpecResult>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(join).collect()
    });
    if !last.specs.is_empty() {
        results.extend(run(&last));
    }
    if let Some(dir) = how.keep {
        let mut all = streams.iter().chain([&last]).filter(|stream| !stream.specs.is_empty());
        all.try_for_each(|stream| copy(testbed, &stream.name, dir))?;
    }
    if results.iter().all(|spec| spec.state == SpecState::NotRun) {
        let said = results.into_iter().map(|spec| spec.message).find(|message| !message.is_empty());
        return Err(Error::Program {
            program: suite.binary.version()?,
            status: "no spec was reached".into(),
            said: said.unwrap_or_default(),
        });
    }
    let left_out = |spec: &Spec| spec.left_out.map(|why| spec.result(SpecState::LeftOut, why));
    results.extend(specs.iter().filter_map(left_out));
    Ok(results)
}

/// How specs are run.
#[derive(Debug, Clone, Copy)]
pub struct How<'a> {
    /// So many processes at the same time.
    pub streams: usize,
    /// Where copies of their logs go.
    pub keep: Option<&'a Path>,
}

impl Spec {
    fn result(&self, state: SpecState, message: &str) -> SpecResult {
        let (name, file) = (self.name.clone(), self.file.clone());
        SpecResult { name, file, state, message: message.to_owned(), seconds: 0.0 }
    }
}

impl Stream<'_> {
    fn run(&self, testbed: &Testbed, base: &Base) -> Vec<SpecResult> {
        let began = Instant::now();
        let results = match self.reports(testbed, base) {
            Ok(reports) => results(&self.specs, &reports),
            Err(error) => {
                let said = error.to_string();
                self.specs.iter().map(|spec| spec.result(SpecState::NotRun, &said)).collect()
            }
        };
        let passed = results.iter().filter(|spec| spec.state == SpecState::Passed).count();
        let (of, seconds) = (results.len(), began.elapsed().as_secs_f64());
        eprintln!("{}: {passed} of {of} passed in {seconds:.0} s", self.name);
        results
    }

    fn reports(&self, testbed: &Testbed, base: &Base) -> Result<Vec<Report>> {
        let log = testbed.record().places.log(&self.name);
        let report = log.with_extension("json");
        let mut command = testbed.command(&base.binary);
        command.args(&base.arguments).args(options(base.kind, &base.dir, &report));
        // A guard against a run that hangs: specs have time limits of their own.
        command.arg(format!("--ginkgo.timeout={}m", 30 + 6 * self.specs.len()));
        command.args(self.specs.iter().map(|spec| format!("--ginkgo.focus={}", ginkgo::focus(&spec.name))));
        let out = File::create(&log).map_err(Error::file("make", &log))?;
        let copy = out.try_clone().map_err(Error::file("open", &log))?;
        let spawned = command.stdin(Stdio::null()).stdout(out).stderr(copy).status();
        let status =
            spawned.map_err(|source| Error::Spawn { program: base.binary.display().to_string(), source })?;
        if report.exists() {
            return ginkgo::read(&report);
        }
        Err(Error::Program {
            program: base.binary.display().to_string(),
            status: status.to_string(),
            said: program::tail(&fs::read_to_string(&log).unwrap_or_default()),
        })
    }
}

/// What became of each spec, by the reports of the run that was to have them.
fn results(specs: &[&Spec], reports: &[Report]) -> Vec<SpecResult> {
    let setup = reports.iter().find_map(Report::setup_failure).unwrap_or_default();
    let find = |spec: &&&Spec| reports.iter().find(|report| report.is_spec() && report.name() == spec.name);
    let result = |spec: &&Spec| match find(&spec) {
        Some(report) if report.spec_state() != SpecState::NotRun => {
            SpecResult { seconds: report.seconds(), ..spec.result(report.spec_state(), &report.message()) }
        }
        _ => spec.result(SpecState::NotRun, &setup),
    };
    specs.iter().map(result).collect()
}

/// What every process of a run is started with.
struct Base {
    kind: Binary,
    binary: PathBuf,
    arguments: Vec<String>,
    /// For files that the program reads.
    dir: PathBuf,
}

fn base(testbed: &Testbed, suite: &Suite) -> Result<Base> {
    let (kind, binary) = (suite.binary, suite.binary.path()?);
    let dir = testbed.record().places.data.clone();
    let arguments = match kind {
        Binary::E2e => vec![format!("--kubeconfig={}", testbed.kubeconfig().display())],
        Binary::E2eNode => on_the_node(testbed, &dir)?,
    };
    Ok(Base { kind, binary, arguments, dir })
}

/// Requires nothing of the system but Linux: a cgroup v1 that only warns, no configuration of the kernel.
const SYSTEM_SPEC: &str = "os: Linux\n";

/// `e2e_node.test` on a node that runs already: it starts neither an API server nor a kubelet, and pulls no image beforehand.
/// It knows no kubeconfig, but a token.
fn on_the_node(testbed: &Testbed, dir: &Path) -> Result<Vec<String>> {
    let system = dir.join("system-spec.yaml");
    fs::write(&system, SYSTEM_SPEC).map_err(Error::file("write", &system))?;
    let kubectl = |words: &[&str]| program::text(testbed.command("kubectl").args(words));
    let binding = ["create", "clusterrolebinding", "e2e-node", "--clusterrole=cluster-admin"];
    kubectl(&[&binding as &[&str], &["--serviceaccount=kube-system:default"]].concat())?;
    let token = kubectl(&["--namespace=kube-system", "create", "token", "default", "--duration=24h"])?;
    let mut arguments: Vec<String> =
        ["--start-services=false", "--prepull-images=false"].map(str::to_owned).into();
    arguments.push(format!("--host=https://{API_SERVER}"));
    arguments.push(format!("--bearer-token={token}"));
    arguments.push(format!("--system-spec-file={}", system.display()));
    let socket = testbed.containerd_socket();
    arguments.push(format!("--container-runtime-endpoint=unix://{}", socket.display()));
    Ok(arguments)
}

fn copy(testbed: &Testbed, name: &str, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
    let from = testbed.record().places.log(name);
    fs::copy(&from, dir.join(format!("{name}.log"))).map(drop).map_err(Error::file("copy", from))
}

#[cfg(test)]
mod tests {
    use super::super::blocks;
    use super::super::suites::{ANY, CONFORMANCE, NODE};
    use super::*;

    fn report(file: &str, text: &str, labels: &[&str]) -> Report {
        let value = serde_json::json!({
            "ContainerHierarchyTexts": ["[sig-node] Pods"], "ContainerHierarchyLabels": [["sig-node"]],
            "LeafNodeType": "It", "LeafNodeLocation": {"FileName": format!("k@v1/test/e2e/{file}")},
            "LeafNodeLabels": labels, "LeafNodeText": text, "State": "passed", "RunTime": 0,
        });
        serde_json::from_value(value).expect("a report")
    }

    fn names(specs: &[Spec]) -> Vec<&str> {
        specs.iter().filter_map(|spec| spec.name.strip_prefix("[sig-node] Pods ")).collect()
    }

    fn spec(name: &str, serial: bool, left_out: Option<&'static str>) -> Spec {
        Spec { name: name.to_owned(), file: String::new(), serial, left_out }
    }

    #[test]
    fn a_suite_has_the_specs_of_its_files_by_name_and_says_what_is_left_out() {
        let reports = [
            report("common/storage/empty_dir.go", "z", &[]),
            report("common/node/pods.go", "b", &["Serial"]),
            report("common/node/pods.go", "a should cap back-off at MaxContainerBackOff", &[]),
            report("apps/job.go", "c", &[]),
        ];
        let all = chosen(&NODE, &Request::default(), &reports);
        assert_eq!(names(&all), ["a should cap back-off at MaxContainerBackOff", "b", "z"]);
        assert_eq!(all[0].left_out, Some("it takes 27 minutes"));
        assert!(all[1].serial && all[1].left_out.is_none() && !all[2].serial);
        assert_eq!(chosen(&CONFORMANCE, &Request::default(), &reports).len(), 4);
        assert!(chosen(&ANY, &Request::default(), &reports).iter().all(|spec| spec.left_out.is_none()));
        let volumes =
            Request { blocks: blocks::select(&["volumes".to_owned()]).expect("known"), ..Request::default() };
        assert_eq!(names(&chosen(&NODE, &volumes, &reports)), ["z"]);
        assert!(Request::default().is_whole() && !volumes.is_whole());
    }

    #[test]
    fn neighbours_go_to_different_streams_and_what_must_run_alone_goes_to_none() {
        let specs: Vec<Spec> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|name| spec(name, *name == "b", (*name == "e").then_some("slow")))
            .collect();
        let (streams, alone) = divide(&specs, 2);
        let names = |specs: &[&Spec]| specs.iter().map(|spec| spec.name.clone()).collect::<String>();
        assert_eq!(streams.iter().map(|stream| names(stream)).collect::<Vec<_>>(), ["ad", "c"]);
        assert_eq!(names(&alone), "b");
        assert_eq!(divide(&specs, 9).0.len(), 3);
        assert_eq!(divide(&specs, 0).0.len(), 1);
        assert!(divide(&[spec("a", true, None)], 3).0.is_empty());
    }

    #[test]
    fn a_spec_that_the_report_does_not_have_was_not_reached_and_the_setup_says_why() {
        let setup: Report = serde_json::from_value(serde_json::json!({
            "LeafNodeType": "SynchronizedBeforeSuite", "LeafNodeText": "", "State": "failed",
            "Failure": {"Message": "no node is ready"},
        }))
        .expect("a report");
        let (a, b) = (spec("[sig-node] Pods a", false, None), spec("[sig-node] Pods b", false, None));
        let found = results(&[&a, &b], &[setup, report("common/node/pods.go", "a", &[])]);
        assert_eq!(
            found.iter().map(|spec| spec.state).collect::<Vec<_>>(),
            [SpecState::Passed, SpecState::NotRun]
        );
        assert_eq!(found[1].message, "SynchronizedBeforeSuite: no node is ready");
    }
}
