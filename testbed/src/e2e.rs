//! The verbs that run upstream's end-to-end specs: they select, run, keep the results, and compare them with a kubelet's.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use testbed::conformance::blocks::{self, BLOCKS};
use testbed::conformance::compare::{Comparison, compare};
use testbed::conformance::results::{ENOUGH, Results, SpecState, now};
use testbed::conformance::run::{How, Request, Spec, parts, run, select};
use testbed::conformance::suites::{ANY, CONFORMANCE, HOST, NODE, SERIAL, Suite};
use testbed::conformance::{self, NODES};
use testbed::{Error, paths};

use crate::cli::{E2e, E2eBlocks, SuiteName};
use crate::node::Node;

/// `testbed e2e`.
pub(crate) fn e2e(options: E2e) -> Result<ExitCode> {
    if let [kubelet, ours] = options.compare.as_slice() {
        return compare_files(kubelet, ours);
    }
    let suite = match options.suite {
        SuiteName::Node => &NODE,
        SuiteName::Conformance => &CONFORMANCE,
        SuiteName::Serial => &SERIAL,
        SuiteName::Host => &HOST,
        SuiteName::Any => &ANY,
    };
    let request = Request { focus: options.focus, skip: options.skip, blocks: Vec::new() };
    if options.list {
        list(&select(suite, &request)?);
        return Ok(ExitCode::SUCCESS);
    }
    Run { suite, node: options.node, streams: usize::from(options.parallel), keep: options.keep }
        .execute(&request)
}

/// `testbed e2e-blocks`.
pub(crate) fn e2e_blocks(options: E2eBlocks) -> Result<ExitCode> {
    let blocks = if options.blocks.is_empty() { Vec::new() } else { blocks::select(&options.blocks)? };
    let run =
        Run { suite: &NODE, node: options.node, streams: usize::from(options.parallel), keep: options.keep };
    run.execute(&Request { blocks, ..Request::default() })
}

/// `testbed e2e-userns`.
pub(crate) fn e2e_userns(node: Node) -> Result<ExitCode> {
    let request = Request { focus: Some("UserNamespacesSupport".into()), ..Request::default() };
    let run = Run { suite: &ANY, node, streams: 1, keep: None };
    let (results, seconds) = run.results(&select(&ANY, &request)?, &request)?;
    conformance::record(&format!("e2e-userns {}", node.name()), &results.counts())?;
    println!("user-namespace specs: {} passed in {seconds:.0} s", results.counts());
    Ok(code(all_pass(&results)))
}

fn list(specs: &[Spec]) {
    for Spec { name, left_out, .. } in specs {
        println!("{name}{}", left_out.map(|why| format!(" (left out: {why})")).unwrap_or_default());
    }
    let left_out = specs.iter().filter(|spec| spec.left_out.is_some()).count();
    eprintln!("{} specs, {left_out} of them left out", specs.len());
}

fn compare_files(kubelet: &Path, ours: &Path) -> Result<ExitCode> {
    if let Some(missing) = [kubelet, ours].into_iter().find(|path| !path.exists()) {
        let cause = format!("there is no file {}", missing.display());
        return Err(Error::Incomparable { suite: "[SUITE]".into(), cause }.into());
    }
    let (kubelet, ours) = (Results::read(kubelet)?, Results::read(ours)?);
    let comparison = compare(&kubelet, &ours)?;
    comparison.lines().iter().for_each(|line| println!("{line}"));
    Ok(code(comparison.holds()))
}

/// One run of a suite, or of a part of it.
struct Run {
    suite: &'static Suite,
    node: Node,
    streams: usize,
    keep: Option<PathBuf>,
}

impl Run {
    fn execute(&self, request: &Request) -> Result<ExitCode> {
        let specs = select(self.suite, request)?;
        let (results, seconds) = self.results(&specs, request)?;
        for spec in results.failures() {
            let what = if spec.state == SpecState::NotRun { "not reached" } else { "failed" };
            eprintln!("{what}: {}: {}", spec.name, spec.message);
        }
        let kubelet = self.kept_of_kubelet();
        let comparison = kubelet.as_ref().and_then(|kubelet| usable(compare(kubelet, &results)));
        self.record(request, &results, comparison.as_ref())?;
        for line in comparison.iter().flat_map(Comparison::lines) {
            println!("{line}");
        }
        println!("{}: {} passed in {seconds:.0} s", self.suite.title, results.counts());
        Ok(code(match comparison {
            Some(comparison) => comparison.holds(),
            None if self.is_measure(&results) => judge(&results),
            None => all_pass(&results),
        }))
    }

    /// Where results are kept.
    fn dir(&self) -> PathBuf {
        self.keep.clone().unwrap_or_else(paths::results_root)
    }

    /// The results of a kubelet that were kept, unless this node is that kubelet's. Without them the run is worth no less.
    fn kept_of_kubelet(&self) -> Option<Results> {
        let (suite, dir) = (self.suite.name, self.dir());
        if self.is_kubelet() || suite == ANY.name {
            return None;
        }
        let kept = usable(Results::kept(&dir, suite, NODES[0].0)).flatten();
        if kept.is_none() {
            eprintln!("nothing to compare with in {}: `testbed e2e {suite}` runs a kubelet", dir.display());
        }
        kept
    }

    /// Runs the specs on a node of their own. Returns the seconds, too.
    fn results(&self, specs: &[Spec], request: &Request) -> Result<(Results, f64)> {
        let upstream = self.suite.binary.version()?;
        let asked = specs.iter().filter(|spec| spec.left_out.is_none()).count();
        eprintln!("{asked} specs of {upstream}, {} left out", specs.len() - asked);
        let testbed = self.node.start(parts(self.suite))?;
        let began = Instant::now();
        let how = How { streams: self.streams, keep: self.keep.as_deref() };
        let specs = run(&testbed, self.suite, specs, &how)?;
        let seconds = began.elapsed().as_secs_f64();
        let (date, whole) = (now()?, request.is_whole());
        let results =
            Results { date, whole, ..Results::new(self.suite.name, &self.node.name(), upstream, specs) };
        eprintln!("kept: {}", results.keep(&self.dir())?.display());
        testbed.down()?;
        Ok((results, seconds))
    }

    /// Whether the node is the one that others are compared with.
    fn is_kubelet(&self) -> bool {
        self.node.name() == NODES[0].0
    }

    fn is_measure(&self, results: &Results) -> bool {
        self.is_kubelet() && results.whole && self.suite.name != ANY.name
    }

    /// Records what was run as a whole: the suite, and each block of the suite that has blocks.
    fn record(
        &self,
        request: &Request,
        results: &Results,
        comparison: Option<&Comparison<'_>>,
    ) -> Result<()> {
        let node = self.node.name();
        let by_name = request.focus.is_some() || request.skip.is_some();
        if self.suite.name == ANY.name || by_name {
            return Ok(());
        }
        let has_blocks = self.suite.name == NODE.name;
        let failures =
            |results: &Results| results.failures().map(|spec| spec.name.clone()).collect::<Vec<_>>();
        if request.is_whole() {
            // Each failure is named once: with its block, where there is one.
            let failures = if has_blocks { Vec::new() } else { failures(results) };
            conformance::record_specs(&self.suite.record(&node), &self.cell(results, comparison), &failures)?;
        }
        let asked = |block: &&blocks::Block| request.blocks.is_empty() || request.blocks.contains(block);
        for block in BLOCKS.iter().filter(|block| has_blocks && asked(block)) {
            let part = results.of_block(block);
            conformance::record_specs(&block.record(&node), &part.counts(), &failures(&part))?;
        }
        Ok(())
    }

    /// What the table shows of the whole suite.
    fn cell(&self, results: &Results, comparison: Option<&Comparison<'_>>) -> String {
        let counts = results.counts();
        match comparison {
            None if self.is_kubelet() => format!("{counts}; {} %", results.share().percent()),
            None => counts,
            Some(found) if found.counts() => {
                let excepted = found.excepted.len();
                let only = found.regressions.len() + excepted;
                format!("{counts}; {only} pass on the kubelet only, {excepted} of them exceptions")
            }
            Some(_) => format!("{counts}; the kubelet passes too few for a comparison"),
        }
    }
}

/// Whether there is a spec that passes and none that fails.
fn all_pass(results: &Results) -> bool {
    results.ran() > 0 && results.failures().next().is_none()
}

/// Says whether comparisons with the results of this kubelet count.
fn judge(results: &Results) -> bool {
    let share = results.share();
    let (enough, percent) = (share.is_enough(), share.percent());
    if enough {
        println!("the kubelet passes {percent} %: comparisons with it count");
    } else {
        println!("the kubelet passes {percent} %, less than {ENOUGH} %: comparisons with it do not count");
    }
    enough
}

/// What is there, or a warning in its place.
fn usable<T>(found: testbed::Result<T>) -> Option<T> {
    found.inspect_err(|error| eprintln!("warning: {error}")).ok()
}

fn code(holds: bool) -> ExitCode {
    ExitCode::from(u8::from(!holds))
}
