//! The rows of the suite and their goals.

use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides, Unit};
use crate::report::Report;

use super::idle;
use super::node::{Kind, Results};
use super::rounds::AT_ONCE;
use super::template::Shape;

/// Which processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// The one in the kubelet's role.
    Agent,
    /// All that serve pods: with runtime, shims, monitors and pauses.
    Node,
}

impl Scope {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Node => "whole node",
        }
    }
}

/// What is measured, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    /// From POST until the pod's process is seen.
    Running(Shape),
    /// From POST until the API server has it Ready.
    Ready(Shape),
    /// From DELETE until the API server has it no more.
    Gone(Shape),
    BurstRunning,
    BurstReady,
    BurstGone,
    /// Requests to the API server, for a pod's whole life.
    Requests,
    /// Proportional memory.
    Memory {
        scope: Scope,
        pods: u32,
    },
    /// Resident memory.
    Resident {
        scope: Scope,
        pods: u32,
    },
    /// CPU time in a window.
    Cpu(Scope),
    Recovery,
}

impl Row {
    fn name(self) -> String {
        match self {
            Self::Running(shape) => format!("POST to running, {}", shape.name()),
            Self::Ready(shape) => format!("POST to Ready, {}", shape.name()),
            Self::Gone(shape) => format!("delete to gone, {}", shape.name()),
            Self::BurstRunning => format!("{AT_ONCE} at once, POST to running"),
            Self::BurstReady => format!("{AT_ONCE} at once, POST to Ready"),
            Self::BurstGone => format!("{AT_ONCE} at once, delete to gone"),
            Self::Requests => "API requests per pod".to_owned(),
            Self::Memory { scope, pods } => format!("PSS of the {}, {pods} pods", scope.name()),
            Self::Resident { scope, pods } => format!("RSS of the {}, {pods} pods", scope.name()),
            Self::Cpu(scope) => {
                format!("CPU in 10 s of the {}, {} idle pods", scope.name(), idle::pods_at_most())
            }
            Self::Recovery => format!("restart until {} statuses are known", idle::pods_at_most()),
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::Memory { .. } | Self::Resident { .. } => Unit::Bytes,
            Self::Requests => Unit::Number,
            _ => Unit::Seconds,
        }
    }

    /// Which part of the kubelet's value ours is at most.
    fn goal(self, ours: Kind) -> Option<f64> {
        let full = idle::pods_at_most();
        match (self, ours) {
            (_, Kind::Kubelet) => None,
            (Self::Running(_) | Self::Ready(_), Kind::AgentAlone) => Some(0.33),
            (Self::Running(shape) | Self::Ready(shape), _) => Some(if shape.volumes { 0.6 } else { 1.0 }),
            (Self::Gone(_) | Self::Recovery, _) => Some(0.5),
            (Self::Memory { scope: Scope::Node, pods }, Kind::AgentAlone) if pods == full => Some(0.125),
            (
                Self::Memory { scope: Scope::Agent, .. }
                | Self::Resident { scope: Scope::Agent, .. }
                | Self::Cpu(Scope::Agent),
                Kind::AgentOnContainerd,
            ) => Some(0.33),
            _ => None,
        }
    }
}

/// Both of ours against the kubelet.
pub(super) fn judge(all: Vec<Results>, dice: &mut Dice, report: &mut Report) {
    let (kubelet, ours): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.kind == Kind::Kubelet);
    let Some(kubelet) = kubelet.into_iter().next() else { return };
    for one in ours {
        for (row, side) in one.rows {
            let peer: Option<Side> = kubelet.rows.get(&row).cloned();
            let name = format!("{}: {}", one.kind.name(), row.name());
            let goal = row.goal(one.kind).map(Goal::Part);
            let sides = Sides { ours: Some(side), peer };
            report.measures.push(Measure::new(&name, sides, goal, dice).in_unit(row.unit()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Shape = Shape { isolated: true, volumes: false };
    const MOUNTED: Shape = Shape { isolated: true, volumes: true };

    #[test]
    fn the_goals_are_those_of_each_runtime() {
        let both = |row: Row| [Kind::AgentOnContainerd, Kind::AgentAlone].map(|kind| row.goal(kind));
        assert_eq!(both(Row::Ready(PLAIN)), [Some(1.0), Some(0.33)]);
        assert_eq!(both(Row::Running(MOUNTED)), [Some(0.6), Some(0.33)]);
        assert_eq!(both(Row::Gone(PLAIN)), [Some(0.5), Some(0.5)]);
        assert_eq!(both(Row::Recovery), [Some(0.5), Some(0.5)]);
        assert_eq!(both(Row::Memory { scope: Scope::Agent, pods: 0 }), [Some(0.33), None]);
        assert_eq!(both(Row::Memory { scope: Scope::Node, pods: 100 }), [None, Some(0.125)]);
        assert_eq!(both(Row::Memory { scope: Scope::Node, pods: 50 }), [None, None]);
        assert_eq!(both(Row::Cpu(Scope::Agent)), [Some(0.33), None]);
        assert_eq!(both(Row::Requests), [None, None]);
    }

    #[test]
    fn each_of_ours_is_compared_with_the_kubelet_row_by_row() {
        let results = |kind, value| {
            let mut rows = std::collections::BTreeMap::new();
            for row in [Row::Recovery, Row::Memory { scope: Scope::Node, pods: 100 }] {
                let side: &mut Side = rows.entry(row).or_default();
                (0..5).for_each(|_| side.add_value(value));
            }
            Results { kind, rows }
        };
        let all = vec![
            results(Kind::AgentAlone, 1.0),
            results(Kind::Kubelet, 10.0),
            results(Kind::AgentOnContainerd, 6.0),
        ];
        let mut dice = Dice::new(1);
        let mut report = Report::default();
        judge(all, &mut dice, &mut report);
        let found: Vec<_> = report
            .measures
            .iter()
            .map(|one| (one.ratio.unwrap().value, one.goal.as_ref().map(|goal| goal.met), one.unit))
            .collect();
        let expected = [
            (0.1, Some(true), Unit::Bytes),
            (0.1, Some(true), Unit::Seconds),
            (0.6, None, Unit::Bytes),
            (0.6, Some(false), Unit::Seconds),
        ];
        assert_eq!(found, expected);
    }
}
