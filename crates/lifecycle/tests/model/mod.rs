//! The same histories, told naively: one loop over seconds in which node and pod are one thing, every rule
//! written down as it is spoken, nothing remembered but what is so. It shares no code with the crate.
#![allow(dead_code)]

mod rules;
mod words;

use lifecycle::{Container, ProbeKind, RestartPolicy, RestartRule};

use crate::script::{Event, HORIZON, Script, kind_index};

/// What a container is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Nothing,
    Runs { since: u64 },
    Dead { code: i32, at: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    NotYet,
    Until(u64),
    Done,
    Failed,
}

#[derive(Debug, Clone, Copy)]
pub struct Doom {
    pub why: &'static str,
    pub by: u64,
    pub hook: Hook,
    pub killed_by: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    pub next: Option<u64>,
    pub until: Option<u64>,
    pub runs: usize,
    pub streak: (Option<bool>, u32),
    pub says: Option<bool>,
}

#[derive(Debug, Clone)]
pub struct One {
    pub index: usize,
    pub spec: Container,
    pub is_init: bool,
    pub is_sidecar: bool,
    pub doing: Doing,
    /// How many instances there have been.
    pub instances: u32,
    pub sandbox: Option<u32>,
    pub ends: Option<(u64, i32)>,
    pub starting: Option<u64>,
    pub may_start: bool,
    /// As the script counts them.
    pub failed_starts: u32,
    /// When a start failed last, whether for its image, and how often in a row any did.
    pub failed: Option<(u64, bool, u32)>,
    /// The wait and when it was set.
    pub wait: Option<(u64, u64)>,
    pub doom: Option<Doom>,
    pub post_start: Hook,
    pub asked: [Asked; 3],
    /// Whether an instance before the newest has ended.
    pub has_past: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Down {
    pub why: &'static str,
    pub grace: u64,
    pub is_final: bool,
}

pub struct Model<'a> {
    pub script: &'a Script,
    pub now: u64,
    pub all: Vec<One>,
    /// Of each sandbox: whether it is ready, whether it was stopped.
    pub sandboxes: Vec<(bool, bool)>,
    pub making: Option<u64>,
    pub failed_makes: u32,
    pub make_failed_at: Option<u64>,
    pub stopping: Vec<(usize, u64)>,
    pub down: Option<Down>,
    /// Deleted in this very second.
    pub deleted_now: bool,
    pub phase: &'static str,
    pub log: Vec<(u64, String)>,
    pub acted: bool,
}

/// What can be seen of the pod at the end of a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub phase: String,
    pub stage: String,
    pub containers: Vec<String>,
}

/// All that is to be seen, second by second, and all that was ordered.
pub fn tell(script: &Script) -> (Vec<Seen>, Vec<(u64, String)>) {
    let mut model = Model::new(script);
    let mut seconds = vec![];
    while model.now < HORIZON {
        model.live_one_second();
        seconds.push(model.seen());
        model.now += 1;
    }
    (seconds, model.log)
}

impl<'a> Model<'a> {
    fn new(script: &'a Script) -> Self {
        let init = script.spec.init.iter().map(|c| (c, true));
        let regular = script.spec.containers.iter().map(|c| (c, false));
        let all = init.chain(regular).enumerate().map(|(index, (spec, is_init))| One {
            index,
            spec: spec.clone(),
            is_init,
            is_sidecar: is_init
                && spec.restart.as_ref().is_some_and(|own| own.policy == RestartPolicy::Always),
            doing: Doing::Nothing,
            instances: 0,
            sandbox: None,
            ends: None,
            starting: None,
            may_start: false,
            failed_starts: 0,
            failed: None,
            wait: None,
            doom: None,
            post_start: Hook::NotYet,
            asked: [Asked::default(); 3],
            has_past: false,
        });
        Self {
            script,
            now: 0,
            all: all.collect(),
            sandboxes: vec![],
            making: None,
            failed_makes: 0,
            make_failed_at: None,
            stopping: vec![],
            down: None,
            deleted_now: false,
            phase: "Pending",
            log: vec![],
            acted: false,
        }
    }

    fn live_one_second(&mut self) {
        self.deleted_now = false;
        for (at, event) in self.script.events.clone() {
            if at == self.now {
                self.happen(event);
            }
        }
        self.look_at_the_deadline();
        loop {
            self.acted = false;
            self.nature();
            self.decide();
            if !self.acted {
                break;
            }
        }
    }

    fn look_at_the_deadline(&mut self) {
        let Some(deadline) = self.script.spec.active_deadline else { return };
        let is_final = self.down.is_some_and(|down| down.is_final);
        if deadline.as_secs() != self.now || (is_final && !self.deleted_now) {
            return;
        }
        self.phase = "Failed";
        match &mut self.down {
            Some(down) if self.deleted_now => down.why = "DeadlineExceeded",
            _ => self.go_down("DeadlineExceeded", self.script.spec.grace.as_secs().max(1)),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Delete { grace } => {
                let grace = grace.unwrap_or(self.script.spec.grace.as_secs()).max(1);
                self.deleted_now = self.down.is_none_or(|down| !down.is_final);
                self.go_down("Deleted", grace);
            }
            Event::LoseSandbox { containers_survive } => {
                for sandbox in &mut self.sandboxes {
                    sandbox.0 = false;
                }
                for one in &mut self.all {
                    if !containers_survive && matches!(one.doing, Doing::Runs { .. }) {
                        one.ends = Some((self.now, 137));
                    }
                }
            }
        }
    }

    /// What comes by itself: ends, and the ends of what was begun.
    fn nature(&mut self) {
        let now = self.now;
        for i in 0..self.all.len() {
            let script = self.script;
            let sandbox_ready = self.sandboxes.last().is_some_and(|s| s.0);
            let newest = self.sandboxes.len().checked_sub(1).and_then(|n| u32::try_from(n).ok());
            let one = &mut self.all[i];
            if let Some((at, code)) = one.ends
                && at <= now
            {
                one.ends = None;
                one.doing = Doing::Dead { code, at: now };
            }
            if let Some(Doom { hook: Hook::Until(at), .. }) = one.doom
                && at <= now
            {
                one.doom.as_mut().unwrap().hook = Hook::Done;
            }
            let attempt = one.instances;
            let running = script.life(i, attempt.saturating_sub(1));
            if let Hook::Until(at) = one.post_start
                && at <= now
            {
                one.post_start = if running.post_start_succeeds { Hook::Done } else { Hook::Failed };
            }
            for kind in [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness] {
                one.hear(kind, &running.probes[kind_index(kind)], now);
            }
            if one.starting.is_some_and(|at| at <= now) {
                one.starting = None;
                let life = script.life(i, attempt);
                let times = one.failed.map_or(1, |(_, _, times)| times + 1);
                if one.failed_starts < life.start_fails {
                    one.failed_starts += 1;
                    one.failed = Some((now, life.pull_fails, times));
                } else if !sandbox_ready {
                    one.failed = Some((now, false, times));
                } else {
                    one.come_up(newest, life.ends_after.map(|after| (now + after, life.code)), now);
                }
            }
        }
        self.nature_of_sandboxes();
    }

    fn nature_of_sandboxes(&mut self) {
        let now = self.now;
        if self.making.is_some_and(|at| at <= now) {
            self.making = None;
            if self.failed_makes < self.script.make_fails {
                self.failed_makes += 1;
                self.make_failed_at = Some(now);
            } else {
                self.make_failed_at = None;
                self.sandboxes.push((true, false));
            }
        }
        for (sandbox, at) in self.stopping.clone() {
            if at <= now {
                self.sandboxes[sandbox] = (false, true);
            }
        }
        self.stopping.retain(|(_, at)| *at > now);
    }

    pub fn say(&mut self, line: String) {
        self.acted = true;
        self.log.push((self.now, line));
    }

    /// The first cause of an end stands, the shortest time too.
    pub fn go_down(&mut self, why: &'static str, grace: u64) {
        let shorter = |down: Down| down.grace.min(grace);
        self.down = Some(match self.down {
            Some(down) if down.is_final => Down { grace: shorter(down), ..down },
            Some(down) => Down { why, grace: shorter(down), is_final: true },
            None => Down { why, grace, is_final: true },
        });
    }

    pub fn policy(&self, one: &One) -> RestartPolicy {
        one.spec.restart.as_ref().map_or(self.script.spec.restart, |own| own.policy)
    }

    /// Whether a dead container comes again in a pod that goes on.
    pub fn comes_again(&self, one: &One) -> bool {
        let Doing::Dead { code, .. } = one.doing else { return matches!(one.doing, Doing::Nothing) };
        if one.is_sidecar {
            return true;
        }
        if one.is_init && code == 0 {
            return false;
        }
        let policy = self.policy(one);
        let by_probe = one.doom.is_some_and(|d| d.why == "LivenessProbe" || d.why == "StartupProbe");
        if by_probe && policy != RestartPolicy::Never {
            return true;
        }
        for rule in one.spec.restart.iter().flat_map(|own| own.rules.iter()) {
            match rule {
                RestartRule::In(codes) if codes.contains(&code) => return true,
                RestartRule::NotIn(codes) if !codes.contains(&code) => return true,
                _ => {}
            }
        }
        match policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => code != 0,
            RestartPolicy::Never => false,
        }
    }
}

impl One {
    pub fn runs(&self) -> bool {
        matches!(self.doing, Doing::Runs { .. })
    }

    /// The answer of a probe that was under way.
    fn hear(&mut self, kind: ProbeKind, words: &[bool], now: u64) {
        let spec = match kind {
            ProbeKind::Startup => &self.spec.startup,
            ProbeKind::Liveness => &self.spec.liveness,
            ProbeKind::Readiness => &self.spec.readiness,
        };
        let asked = &mut self.asked[kind_index(kind)];
        let (Some(spec), Some(until)) = (spec, asked.until) else { return };
        if until > now {
            return;
        }
        asked.until = None;
        let word = words[asked.runs % words.len()];
        asked.runs += 1;
        asked.streak =
            if asked.streak.0 == Some(word) { (Some(word), asked.streak.1 + 1) } else { (Some(word), 1) };
        if asked.streak.1 >= if word { spec.success_threshold } else { spec.failure_threshold } {
            asked.says = Some(word);
        }
    }

    pub fn is_up(&self) -> bool {
        self.runs() && (self.spec.startup.is_none() || self.asked[0].says == Some(true))
    }

    fn come_up(&mut self, sandbox: Option<u32>, ends: Option<(u64, i32)>, now: u64) {
        self.has_past = self.instances > 0;
        self.doing = Doing::Runs { since: now };
        self.instances += 1;
        self.sandbox = sandbox;
        self.ends = ends;
        self.may_start = false;
        self.failed_starts = 0;
        self.failed = None;
        self.doom = None;
        self.post_start = Hook::NotYet;
        self.asked = [Asked::default(); 3];
    }
}
