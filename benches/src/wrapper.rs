//! Creates through containerd's shim and `wardlet-oci` against the same creates with the runtime alone.
//!
//! One containerd has two handlers: on the usual one the shim calls runc, on the other it calls `wardlet-oci`, which calls the
//! same runc. Pods of both are started in turns. `RunPodSandbox` creates a pod's first container, `StartContainer` one that
//! joins it: containerd has the shim create a container when it is started.

use std::time::Duration;

use anyhow::ensure;
use testbed::{Containerd, Handler, Shim};

use crate::cri::{Runtime, Took, Users, Wanted};
use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::report::{Report, say};
use crate::subject::Answer;

/// The handler whose shim calls the wrapper.
const WRAPPED: &str = "ward";
/// The usual handler, whose shim calls the runtime.
const ALONE: &str = "";
/// A create through the wrapper takes at most this part of one without it, in the median and at the 99th percentile.
const LIMIT: f64 = 1.10;
/// Host IDs for the wrapper, not those of pods that get theirs by CRI.
const POOL: &str = "1703936000-1966079999";

/// What a round needs.
pub(crate) struct Wrappers {
    pub(crate) samples: usize,
}

/// Pods through the wrapper, and what they are compared with.
#[derive(Clone, Copy)]
struct Case {
    sandbox: &'static str,
    joining: &'static str,
    wrapped: Users,
    alone: Users,
    goal: Option<Goal>,
}

/// A user namespace costs the runtime time, too: the same create without the wrapper is one whose namespace is asked for by
/// CRI, in which runc makes the namespace.
const CASES: [Case; 3] = [
    Case {
        sandbox: "sandbox that asks for nothing, runc alone",
        joining: "its container, runc alone",
        wrapped: Users::Host,
        alone: Users::Host,
        goal: Some(Goal::Quantiles(LIMIT)),
    },
    Case {
        sandbox: "sandbox in a user namespace, runc alone in one",
        joining: "a container that joins it, runc alone in one",
        wrapped: Users::Annotation,
        alone: Users::Cri,
        goal: Some(Goal::Quantiles(LIMIT)),
    },
    Case {
        sandbox: "sandbox in a user namespace, runc with host users",
        joining: "a container that joins it, runc with host users",
        wrapped: Users::Annotation,
        alone: Users::Host,
        goal: None,
    },
];

/// The times of one kind of pod, through the wrapper and without it.
#[derive(Default)]
struct Times {
    sandbox: [Side; 2],
    start: [Side; 2],
}

impl Wrappers {
    pub(crate) fn run(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        tokio.block_on(self.measure(dice, report))
    }

    async fn measure(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        say("wrapper: starting containerd");
        let binary = testbed::own::program("wardlet-oci")?;
        let handler = Handler { name: WRAPPED.to_owned(), shim: Shim::Runc, binary };
        let runtime = Runtime::with_handlers(Containerd::Pinned, vec![handler]).await?;
        configure(&runtime)?;
        let mut next = 0;
        for case in CASES {
            let mut times = Times::default();
            for number in 0..=self.samples {
                if number % 20 == 0 {
                    say(&format!("wrapper: {}, {number} of {}", case.sandbox, self.samples));
                }
                let pair = pair(&runtime, case, &mut next, dice).await?;
                // What is done for the first time only is not what is measured.
                if number > 0 {
                    times.add(pair);
                }
            }
            for (name, [ours, alone]) in [(case.sandbox, times.sandbox), (case.joining, times.start)] {
                report.measures.push(Measure::new(name, Sides::both(ours, alone), case.goal, dice));
            }
        }
        Ok(())
    }
}

impl Times {
    fn add(&mut self, pair: [Took; 2]) {
        for ((sandbox, start), took) in self.sandbox.iter_mut().zip(&mut self.start).zip(pair) {
            sandbox.add(&answer(took.sandbox));
            start.add(&answer(took.start));
        }
    }
}

/// The same runc that the usual handler has, and pods that may ask for a user namespace.
fn configure(runtime: &Runtime) -> anyhow::Result<()> {
    let runc = testbed::cache::program("runc", "runc")?;
    let text = format!(
        "userNamespaces: {{pool: {{uids: [\"{POOL}\"]}}}}\n\
         wrapper: {{enable_user_namespace_annotation: true, runtime: {}}}\n",
        runc.display()
    );
    let write = "mkdir -p /etc/wardlet && printf %s \"$1\" >/etc/wardlet/config.yaml";
    runtime.inside("sh", &["-c", write, "sh", &text])
}

/// A pod through the wrapper and one without, in random order; each is gone before the other starts.
async fn pair(runtime: &Runtime, case: Case, next: &mut u32, dice: &mut Dice) -> anyhow::Result<[Took; 2]> {
    let mut one = async |handler| {
        *next += 1;
        let users = if handler == WRAPPED { case.wrapped } else { case.alone };
        let (pod, took) = runtime.pod(Wanted { number: *next, handler, users }).await?;
        let has_own = runtime.first_host_user(&pod).await? != 0;
        ensure!(
            has_own == (users != Users::Host),
            "handler {handler:?}: a user namespace of its own: {has_own}"
        );
        runtime.end(pod).await?;
        anyhow::Ok(took)
    };
    if dice.heads() {
        Ok([one(WRAPPED).await?, one(ALONE).await?])
    } else {
        let alone = one(ALONE).await?;
        Ok([one(WRAPPED).await?, alone])
    }
}

fn answer(took: Duration) -> Answer {
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() }
}
