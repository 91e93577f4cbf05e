use crate::action::{Action, Task};
use crate::container::{Container, Probe, ProbeKind};
use crate::moment::Moment;
use crate::turn::Turn;

impl Turn<'_> {
    /// Runs the probes that are due.
    pub(crate) fn probe(&mut self) {
        if self.state.terminal.is_some() {
            return;
        }
        for (_, container) in self.pod.each() {
            for kind in ProbeKind::ALL {
                if let Some(probe) = container.probe(kind) {
                    self.probe_one(container, kind, probe);
                }
            }
        }
    }

    fn probe_one(&mut self, container: &Container, kind: ProbeKind, probe: &Probe) {
        let Some((attempt, due)) = self.probe_due(container, kind, probe) else { return };
        let name = container.name.clone();
        if self.is_under_way(&Task::Probe(name.clone(), attempt, kind)) {
            return;
        }
        if due > self.now {
            return self.wake_at(due);
        }
        self.order(Action::RunProbe { container: name, attempt, kind, timeout: probe.timeout });
    }

    /// Which instance is to be probed next and when; none while the probe is paused.
    fn probe_due(&self, container: &Container, kind: ProbeKind, probe: &Probe) -> Option<(u32, Moment)> {
        let track = self.track(&container.name)?;
        let seen = track.newest.as_ref()?;
        let since = seen.running_since()?;
        let is_marked = self.state.kills.contains_key(&(container.name.clone(), seen.attempt));
        // An instance that is to end needs no liveness probe; readiness is probed until its end.
        if kind != ProbeKind::Readiness && (is_marked || self.is_ending()) {
            return None;
        }
        if kind != ProbeKind::Startup && !self.has_started(container) {
            return None;
        }
        let probed = track.probes.get(&kind).copied().unwrap_or_default();
        if probed.is_decided(kind) {
            return None;
        }
        let first = since.after(probe.initial_delay);
        Some((seen.attempt, probed.begun.map_or(first, |begun| begun.after(probe.period))))
    }
}
