use lifecycle::{ProbeKind, RestartPolicy};

use super::{Doing, Doom, Down, Hook, Model};
use crate::script::{end_after_stop, kind_index};

const WAIT: u64 = 2;
const LONGEST_WAIT: u64 = 8;
const RETRY: u64 = 3;
const LEAST_GRACE: u64 = 2;

impl Model<'_> {
    pub fn decide(&mut self) {
        let is_ready = self.sandboxes.last().is_some_and(|sandbox| sandbox.0);
        let is_broken = self.all.iter().any(|one| {
            let is_bad = matches!(one.doing, Doing::Dead { code, .. } if code != 0);
            one.is_init && !one.is_sidecar && is_bad && !self.comes_again(one)
        });
        if !self.down.is_some_and(|down| down.is_final) {
            if is_broken {
                self.go_down("InitFailed", self.grace());
            } else if self.is_finished() {
                self.go_down("PodFinished", self.grace());
            }
        }
        if self.down.is_some_and(|down| down.is_final) {
            self.bring_down();
        } else if is_ready {
            self.down = None;
            self.go_on();
        } else if self.making.is_none() {
            self.want_sandbox();
        }
        for i in 0..self.all.len() {
            self.proceed_with_doom(i);
        }
        if self.phase != "Succeeded" && self.phase != "Failed" {
            for i in 0..self.all.len() {
                for kind in [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness] {
                    self.ask(i, kind);
                }
            }
        }
        self.find_phase();
    }

    fn grace(&self) -> u64 {
        self.script.spec.grace.as_secs()
    }

    fn want_sandbox(&mut self) {
        let had_run = self.all.iter().any(|one| one.instances > 0);
        if self.script.spec.restart == RestartPolicy::Never && !self.sandboxes.is_empty() && had_run {
            self.go_down("SandboxChanged", self.grace());
            return self.bring_down();
        }
        let is_busy = self.all.iter().any(|one| one.runs() || one.starting.is_some());
        if is_busy || self.sandboxes.iter().any(|(_, stopped)| !stopped) {
            let grace = self.grace();
            self.down = self.down.or(Some(Down { why: "SandboxChanged", grace, is_final: false }));
            return self.bring_down();
        }
        self.down = None;
        if self.make_failed_at.is_some_and(|at| at + RETRY > self.now) {
            return;
        }
        self.making = Some(self.now + self.script.make_takes);
        self.say(format!("make sandbox {}", self.sandboxes.len()));
    }

    fn bring_down(&mut self) {
        let Some(down) = self.down else { return };
        for one in &mut self.all {
            if one.runs() {
                let by = self.now + down.grace;
                let fresh = Doom { why: down.why, by, hook: Hook::NotYet, killed_by: None };
                let doom = one.doom.get_or_insert(fresh);
                doom.by = doom.by.min(by);
            }
        }
        let is_busy = self.all.iter().any(|one| one.runs() || one.starting.is_some());
        if is_busy || self.making.is_some() {
            return;
        }
        for i in 0..self.sandboxes.len() {
            if !self.sandboxes[i].1 && !self.stopping.iter().any(|(s, _)| *s == i) {
                self.stopping.push((i, self.now + self.script.stop_takes));
                self.say(format!("stop sandbox {i}"));
            }
        }
    }

    pub fn is_finished(&self) -> bool {
        let mut regular = self.all.iter().filter(|one| !one.is_init);
        regular.all(|one| {
            matches!(one.doing, Doing::Dead { .. }) && one.starting.is_none() && !self.comes_again(one)
        })
    }

    fn go_on(&mut self) {
        let here = u32::try_from(self.sandboxes.len() - 1).ok();
        let init = self.all.iter().filter(|one| one.is_init).count();
        let is_begun = self.all[init..].iter().any(|one| one.sandbox == here);
        let at_work =
            if is_begun { Some(init) } else { self.all[..init].iter().rposition(|one| one.sandbox == here) };
        let is_through = match at_work {
            None if init == 0 => true,
            None => {
                self.start(0);
                false
            }
            Some(at_work) => {
                for i in 0..at_work {
                    if self.all[i].is_sidecar {
                        self.keep(i);
                    }
                }
                if at_work == init {
                    true
                } else if self.is_passed(at_work) {
                    if at_work + 1 < init {
                        self.start(at_work + 1);
                    }
                    at_work + 1 == init
                } else {
                    false
                }
            }
        };
        if is_through {
            self.keep_regular(init);
        }
    }

    fn keep_regular(&mut self, init: usize) {
        let mut is_held = false;
        for i in init..self.all.len() {
            if !is_held || self.all[i].runs() {
                let (_, holds) = self.keep(i);
                is_held = is_held || holds;
            }
        }
    }

    fn is_passed(&mut self, i: usize) -> bool {
        if self.all[i].is_sidecar {
            return self.keep(i).0;
        }
        match self.all[i].doing {
            Doing::Dead { code: 0, .. } => true,
            Doing::Dead { .. } => {
                self.start(i);
                false
            }
            _ => false,
        }
    }

    /// Whether it is up, and whether those after it must wait.
    fn keep(&mut self, i: usize) -> (bool, bool) {
        if !self.all[i].runs() {
            let is_starting = self.comes_again(&self.all[i]) && self.start(i);
            return (false, is_starting && self.all[i].spec.post_start);
        }
        let (now, grace) = (self.now, self.grace());
        let one = &mut self.all[i];
        let own = |probe: &Option<lifecycle::Probe>| {
            probe.as_ref().and_then(|p| p.grace).map_or(grace, |grace| grace.as_secs())
        };
        let doom = if one.asked[1].says == Some(false) {
            Some(("LivenessProbe", own(&one.spec.liveness)))
        } else if one.asked[0].says == Some(false) {
            Some(("StartupProbe", own(&one.spec.startup)))
        } else if one.post_start == Hook::Failed {
            Some(("FailedPostStartHook", grace))
        } else {
            None
        };
        if let (Some((why, grace)), None) = (doom, one.doom) {
            one.doom = Some(Doom { why, by: now + grace, hook: Hook::NotYet, killed_by: None });
        }
        if one.doom.is_some() {
            return (false, false);
        }
        if one.spec.post_start && one.post_start == Hook::NotYet {
            let attempt = one.instances - 1;
            one.post_start = Hook::Until(now + self.script.life(i, attempt).post_start_takes);
            let line = format!("PostStart {}#{attempt} None", one.spec.name);
            self.say(line);
            return (false, true);
        }
        let is_waiting = matches!(one.post_start, Hook::Until(_));
        (!is_waiting && one.is_up(), is_waiting)
    }

    fn start(&mut self, i: usize) -> bool {
        let now = self.now;
        let one = &mut self.all[i];
        if one.starting.is_some() {
            return true;
        }
        if one.runs() {
            return false;
        }
        let ended = if let Doing::Dead { at, .. } = one.doing { Some(at) } else { None };
        let wait = one.wait.filter(|(_, set)| ended.is_some_and(|at| at <= set + 2 * LONGEST_WAIT));
        if let (false, Some(at), Some((wait, _))) = (one.may_start, ended, wait)
            && at + wait > now
        {
            return false;
        }
        if let Some((at, is_pull, times)) = one.failed {
            let delay = if is_pull { (WAIT << (times - 1)).min(LONGEST_WAIT) } else { RETRY };
            if at + delay > now {
                return false;
            }
        }
        if !one.may_start {
            one.may_start = true;
            if ended.is_some() {
                one.wait = Some((wait.map_or(WAIT, |(wait, _)| (2 * wait).min(LONGEST_WAIT)), now));
            }
        }
        let attempt = one.instances;
        one.starting = Some(now + self.script.life(i, attempt).start_takes);
        let line = format!("start {}#{attempt}", one.spec.name);
        self.say(line);
        true
    }

    fn proceed_with_doom(&mut self, i: usize) {
        let (now, one) = (self.now, &self.all[i]);
        let (Some(doom), true) = (one.doom, one.runs()) else { return };
        let attempt = one.instances - 1;
        let life = self.script.life(i, attempt).clone();
        let name = one.spec.name.clone();
        if doom.killed_by.is_none() && now < doom.by {
            match doom.hook {
                Hook::NotYet if one.spec.pre_stop => {
                    self.all[i].doom.as_mut().unwrap().hook = Hook::Until(now + life.pre_stop_takes);
                    return self.say(format!("PreStop {name}#{attempt} {:?}", Some(doom.by - now)));
                }
                Hook::Until(_) => return,
                _ => {}
            }
        }
        if doom.killed_by.is_none()
            && one.is_sidecar
            && let Some(down) = self.down
        {
            let users = self.all[i + 1..].iter().filter(|user| !user.is_init || user.is_sidecar);
            let until = |user: &super::One| match (user.starting, user.doom) {
                (Some(_), _) => Some(now + down.grace),
                (None, Some(doom)) if user.runs() => Some(doom.by.max(self.all[i].doom.unwrap().by)),
                _ => None,
            };
            if users.filter_map(until).max().is_some_and(|until| now < until) {
                return;
            }
        }
        let grace = doom.by.saturating_sub(now).max(LEAST_GRACE);
        if doom.killed_by.is_some_and(|by| by <= now + grace) {
            return;
        }
        let end = end_after_stop(&life, now, grace);
        let one = &mut self.all[i];
        one.doom.as_mut().unwrap().killed_by = Some(now + grace);
        one.ends = Some(one.ends.filter(|before| before.0 <= end.0).unwrap_or(end));
        self.say(format!("stop {name}#{attempt} {grace}s {}", doom.why));
    }

    fn ask(&mut self, i: usize, kind: ProbeKind) {
        let now = self.now;
        let is_ending = self.down.is_some_and(|down| down.is_final);
        let one = &mut self.all[i];
        let Doing::Runs { since } = one.doing else { return };
        let spec = match kind {
            ProbeKind::Startup => &one.spec.startup,
            ProbeKind::Liveness => &one.spec.liveness,
            ProbeKind::Readiness => &one.spec.readiness,
        };
        let Some(spec) = spec else { return };
        let is_up = one.is_up();
        let is_resting = match kind {
            ProbeKind::Startup => one.doom.is_some() || is_ending || one.asked[0].says.is_some(),
            ProbeKind::Liveness => {
                one.doom.is_some() || is_ending || !is_up || one.asked[1].says == Some(false)
            }
            ProbeKind::Readiness => !is_up,
        };
        let asked = &mut one.asked[kind_index(kind)];
        let next = asked.next.unwrap_or(since + spec.initial_delay.as_secs());
        if is_resting || asked.until.is_some() || next > now {
            return;
        }
        let attempt = one.instances - 1;
        asked.next = Some(now + spec.period.as_secs());
        asked.until = Some(now + self.script.life(i, attempt).probe_takes);
        let line = format!("{kind} {}#{attempt}", one.spec.name);
        self.say(line);
    }
}
