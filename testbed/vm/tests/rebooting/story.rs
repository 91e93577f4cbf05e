//! The node goes off with its pods, some of them are deleted and one is created, and it comes back.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::pods::{self, CREATED, DELETED, DISK, ONCE, SETTINGS};
use super::state::{Blocks, name, uid};
use super::{Machine, NODE, wait};

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Pods that run on until they are deleted.
    pub(crate) pods: usize,
    /// Pods that are not run again, beside them.
    pub(crate) ending: usize,
    /// How the node goes off, once for each boot. Pods are deleted and created the first time.
    pub(crate) ends: &'static [End],
    /// Seconds that the power lasts each time while all pods are being deleted in the end.
    pub(crate) last_losses: &'static [u64],
}

/// How the node goes off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The agent and all processes are asked to stop.
    Orderly,
    /// The power fails while everything runs.
    Loss,
    /// It fails, and again so many seconds after each of the next starts of the agent.
    Losses(&'static [u64]),
}

/// How often the containers of a pod may have been restarted.
type Restarts = RangeInclusive<u64>;

/// The pods at the API server.
#[derive(Default)]
struct Pods {
    running: Vec<Value>,
    over: Vec<Value>,
}

struct Story {
    machine: Machine,
    began: Instant,
    /// The pods that are to run, by name.
    restarts: BTreeMap<String, Restarts>,
    /// The phases of the pods that are over, by name.
    phases: BTreeMap<String, &'static str>,
    uids: BTreeMap<String, String>,
    blocks: Blocks,
    /// How often all pods were ready, each time after another boot.
    starts: usize,
}

/// From the first boot until no pod is left.
pub(crate) fn run(extent: Extent) {
    let mut story = Story::begin(extent);
    for (number, end) in extent.ends.iter().enumerate() {
        match end {
            End::Orderly => story.machine.shut_down(),
            End::Loss | End::Losses(_) => story.machine.lose_power(),
        }
        if number == 0 {
            story.change_pods(*end);
        }
        story.come_back(*end);
    }
    story.end(extent.last_losses);
}

impl Story {
    fn begin(extent: Extent) -> Self {
        let mut machine = Machine::make();
        let lasting = pods::lasting(extent.pods);
        let ending = &pods::ending()[..extent.ending];
        pods::objects().iter().chain(&lasting).chain(ending).for_each(|object| machine.apply(object));
        machine.boot();
        machine.wardlet("image import /opt/image.tar");
        machine.start_agent();
        machine.join();
        let names = lasting.iter().map(name).chain([ONCE]);
        let mut story = Self {
            machine,
            began: Instant::now(),
            restarts: names.map(|name| (name.to_owned(), 0..=0)).collect(),
            phases: ending.iter().skip(1).map(|pod| (name(pod).to_owned(), "Succeeded")).collect(),
            uids: BTreeMap::new(),
            blocks: Blocks::new(),
            starts: 0,
        };
        let pods = story.settled();
        story.check(&pods);
        story
    }

    /// What happens to pods at the API server while the node is off, and to one that is not run again.
    fn change_pods(&mut self, end: End) {
        let options = ["--grace-period=30", "--grace-period=1", "--grace-period=0 --force"];
        for (name, option) in DELETED.iter().zip(options) {
            if self.restarts.remove(*name).is_some() {
                self.machine.kubectl(&format!("delete pod {name} --wait=false {option}"));
            }
        }
        self.machine.apply(&pods::created());
        let left = self.machine.pods();
        let is_left = |one: &str| left.iter().any(|pod| name(pod) == one);
        assert!(is_left(DELETED[1]) && !is_left(DELETED[2]), "only the node itself ends what is not forced");
        self.restarts.remove(ONCE);
        // It exits with 0 when it is asked to.
        let phase = if end == End::Orderly { "Succeeded" } else { "Failed" };
        self.phases.insert(ONCE.to_owned(), phase);
    }

    fn come_back(&mut self, end: End) {
        self.start();
        let losses = if let End::Losses(losses) = end { losses } else { &[] };
        for seconds in losses {
            std::thread::sleep(Duration::from_secs(*seconds));
            self.machine.lose_power();
            // What had not started then is not restarted once more.
            self.restarts
                .values_mut()
                .for_each(|restarts| *restarts = *restarts.start()..=restarts.end() + 1);
            self.machine.boot();
            self.machine.start_agent();
        }
        let losses = u64::try_from(losses.len()).unwrap();
        self.restarts.entry(CREATED.to_owned()).or_insert(0..=losses);
        let pods = self.settled();
        self.check(&pods);
        self.machine.has_rebooted(NODE);
        println!("{end:?}: consistent after {:.1} s", self.began.elapsed().as_secs_f64());
    }

    fn start(&mut self) {
        let next = |restarts: &Restarts| restarts.start() + 1..=restarts.end() + 1;
        self.restarts.values_mut().for_each(|restarts| *restarts = next(restarts));
        self.machine.boot();
        self.machine.start_agent();
    }

    /// Whether a pod that is to run is ready after as many restarts as it is to have.
    fn is_settled(&self, pod: &Value) -> bool {
        let wanted = self.restarts.get(name(pod));
        wanted.is_some_and(|wanted| is_ready(pod) && restarts(pod).iter().all(|count| wanted.contains(count)))
    }

    /// The pods, once those that are to run are ready after their restarts, those that are over have their phases, and
    /// there are no others.
    fn settled(&self) -> Pods {
        let began = Instant::now();
        let mut found = Pods::default();
        wait(|| {
            let is_over = |pod: &Value| self.phases.contains_key(name(pod));
            let (over, running) = self.machine.pods().into_iter().partition(is_over);
            found = Pods { running, over };
            let of = |pods: &[Value]| pods.iter().map(name).map(str::to_owned).collect::<Vec<_>>();
            let is_there = of(&found.running) == self.restarts.keys().cloned().collect::<Vec<_>>()
                && of(&found.over) == self.phases.keys().cloned().collect::<Vec<_>>();
            let has_phase = |pod: &Value| pod["status"]["phase"] == self.phases[name(pod)];
            let is_done = is_there
                && found.running.iter().all(|pod| self.is_settled(pod))
                && found.over.iter().all(has_phase);
            let shown = |pod: &Value| format!("{} {} {:?}", name(pod), pod["status"]["phase"], restarts(pod));
            let all = || found.running.iter().chain(&found.over).map(shown).collect::<Vec<_>>();
            (!is_done).then(|| format!("{:?}, not {:?} and {:?}", all(), self.restarts, self.phases))
        });
        println!("{} pods are ready after {:.1} s", found.running.len(), began.elapsed().as_secs_f64());
        found
    }

    /// What holds whenever all pods are ready.
    fn check(&mut self, pods: &Pods) {
        let blocks = self.machine.is_consistent(&pods.running, &pods.over);
        for pod in &pods.running {
            let known = self.uids.entry(name(pod).to_owned()).or_insert_with(|| uid(pod).to_owned());
            assert_eq!(known, uid(pod), "{} is another pod", name(pod));
            let before = self.blocks.get(uid(pod));
            assert!(before.is_none() || before == blocks.get(uid(pod)), "{} has another block", name(pod));
        }
        self.blocks = blocks;
        self.starts += 1;
        let of = |wanted: &str| pods.running.iter().find(|pod| name(pod) == wanted).unwrap();
        let (settings, disk) = (of(SETTINGS), of(DISK));
        let newest = restarts(settings)[0];
        assert_eq!(self.machine.printed(SETTINGS, uid(settings), newest), "one\ntwo\n");
        let noted = self.machine.noted(uid(disk));
        let starts = self.starts..=usize::try_from(restarts(disk)[0]).unwrap() + 1;
        assert!(noted.on_disk.iter().all(|count| starts.contains(count)), "{noted:?} of {starts:?} starts");
        assert_eq!(noted.in_memory, 1);
    }

    fn end(mut self, losses: &[u64]) {
        self.machine.kubectl("delete pods --all --wait=false");
        for seconds in losses {
            std::thread::sleep(Duration::from_secs(*seconds));
            self.machine.lose_power();
            self.machine.boot();
            self.machine.start_agent();
        }
        wait(|| {
            let left = self.machine.pods();
            (!left.is_empty())
                .then(|| format!("pods are left: {:?}", left.iter().map(name).collect::<Vec<_>>()))
        });
        wait(|| {
            let (leases, kept) = (self.machine.leases(), self.machine.kept());
            (!leases.is_empty() || !kept.is_empty()).then(|| format!("{leases:?}, {kept:?} are left"))
        });
        println!("nothing is left after {:.1} s", self.began.elapsed().as_secs_f64());
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let is_true = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    pod["metadata"]["deletionTimestamp"].is_null() && conditions.is_some_and(|all| all.iter().any(is_true))
}

/// The restart counts of all containers.
fn restarts(pod: &Value) -> Vec<u64> {
    let lists = ["initContainerStatuses", "containerStatuses"].map(|key| pod["status"][key].as_array());
    let statuses = lists.into_iter().flatten().flatten();
    statuses.filter_map(|status| status["restartCount"].as_u64()).collect()
}
