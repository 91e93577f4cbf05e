use crate::action::Action;
use crate::moment::Moment;
use crate::observed::Observed;
use crate::pod::Pod;
use crate::state::State;
use crate::status::Status;
use crate::turn::Turn;

/// The actions for `pod` now, and its status.
///
/// Called whenever something was observed and whenever the [`Action::Wake`] of the last call is due. With the same
/// input and the issued actions under way, it issues nothing.
pub fn step(pod: &Pod, observed: &Observed, state: &mut State, now: Moment) -> (Vec<Action>, Status) {
    let mut turn = Turn { pod, observed, state, now, actions: Vec::new(), wake: None };
    turn.absorb();
    turn.consider_end();
    if turn.is_ending() {
        turn.take_down();
    } else {
        turn.sync();
    }
    turn.mark_orphans();
    turn.issue_kills();
    turn.probe();
    turn.tidy();
    let status = turn.status();
    if let Some(at) = turn.wake {
        turn.actions.push(Action::Wake { at });
    }
    (turn.actions, status)
}
