//! The built-in runtime against containerd with runc, both over CRI: a pod in its own user namespace with its
//! own network, from the word to its first instruction and back.

use std::time::{Duration, Instant};

use testbed::Containerd;

use crate::cri::{Pod, Runtime, Users, Wanted};
use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::memory;
use crate::report::{Report, say};
use crate::subject::Answer;

/// The pods that are started at once.
const AT_ONCE: u32 = 50;
/// The pods that are there, idle, while memory is looked at.
const IDLE: u32 = 100;

/// What a round needs.
pub(crate) struct Runtimes {
    pub(crate) samples: usize,
}

/// One runtime, and what it took so far.
struct Driven {
    runtime: Runtime,
    next: u32,
    start: Side,
    exec: Side,
    end: Side,
    together: Side,
}

impl Runtimes {
    pub(crate) fn run(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        tokio.block_on(self.measure(dice, report))
    }

    async fn measure(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        say("runtime: starting both");
        let mut ours = Driven::new(Containerd::Wardlet).await?;
        let mut peer = Driven::new(Containerd::Pinned).await?;
        for round in 0..=self.samples {
            let (first, second) = if dice.heads() { (&mut ours, &mut peer) } else { (&mut peer, &mut ours) };
            first.round().await?;
            second.round().await?;
            if round == 0 {
                // What is done for the first time only is not what is measured.
                ours.forget();
                peer.forget();
            }
        }
        for round in 0..3 {
            say(&format!("runtime: {AT_ONCE} at once, {} of 3", round + 1));
            ours.many().await?;
            peer.many().await?;
        }
        let (mine, theirs) = (ours.idle().await?, peer.idle().await?);
        report.notes.push(format!(
            "memory of all processes that serve {IDLE} idle pods (Pss): ours {:.1} MB, containerd and its shims \
             {:.1} MB",
            memory::megabytes(mine),
            memory::megabytes(theirs)
        ));
        let third = Some(Goal::Part(1.0 / 3.0));
        for (name, ours, peer, goal) in [
            ("pod to its first instruction, containerd", ours.start, peer.start, third),
            ("exec, containerd", ours.exec, peer.exec, None),
            ("pod from stop to gone, containerd", ours.end, peer.end, None),
            ("50 pods at once, each, containerd", ours.together, peer.together, None),
        ] {
            report.measures.push(Measure::new(name, Sides::both(ours, peer), goal, dice));
        }
        Ok(())
    }
}

impl Driven {
    async fn new(which: Containerd) -> anyhow::Result<Self> {
        let side = Side::default;
        let runtime = Runtime::start(which).await?;
        Ok(Self { runtime, next: 1, start: side(), exec: side(), end: side(), together: side() })
    }

    fn forget(&mut self) {
        [self.start, self.exec, self.end] = std::array::from_fn(|_| Side::default());
    }

    async fn pod(&mut self) -> anyhow::Result<(Pod, Duration)> {
        self.next += 1;
        let (pod, took) = self.runtime.pod(isolated(self.next)).await?;
        Ok((pod, took.all))
    }

    async fn round(&mut self) -> anyhow::Result<()> {
        let (pod, took) = self.pod().await?;
        self.start.add(&answer(took, 1));
        self.exec.add(&answer(self.runtime.exec(&pod).await?, 1));
        self.end.add(&answer(self.runtime.end(pod).await?, 1));
        Ok(())
    }

    async fn many(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        let first = self.next + 1;
        self.next += AT_ONCE;
        let runtime = &self.runtime;
        let pods = futures_util::future::try_join_all(
            (first..=self.next).map(|number| runtime.pod(isolated(number))),
        );
        let pods = pods.await?;
        self.together.add(&answer(began.elapsed(), pods.len()));
        for (pod, _) in pods {
            self.runtime.end(pod).await?;
        }
        Ok(())
    }

    async fn idle(&mut self) -> anyhow::Result<u64> {
        let mut pods = Vec::new();
        for _ in 0..IDLE {
            pods.push(self.pod().await?.0);
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let kilobytes = self.runtime.kilobytes()?;
        for pod in pods {
            self.runtime.end(pod).await?;
        }
        Ok(kilobytes)
    }
}

/// A pod in a user namespace by CRI, on the usual handler.
fn isolated(number: u32) -> Wanted {
    Wanted { number, handler: "", users: Users::Cri }
}

fn answer(took: Duration, operations: usize) -> Answer {
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let each = ns / u64::try_from(operations.max(1)).unwrap_or(1);
    Answer { wall_ns: ns, ns: vec![each; operations], ..Answer::default() }
}
