use crate::action::Action;
use crate::moment::Moment;
use crate::observed::Observed;
use crate::pod::Pod;
use crate::state::State;
use crate::status::Status;
use crate::turn::Turn;

/// What is to be done for `pod` now, and what is to be said of it.
///
/// Called whenever something was observed and whenever the [`Action::Wake`] of the last call is due. Given
/// the same again, with the ordered actions under way, it orders nothing.
pub fn step(pod: &Pod, observed: &Observed, state: &mut State, now: Moment) -> (Vec<Action>, Status) {
    let mut turn = Turn { pod, observed, state, now, actions: Vec::new(), wake: None };
    turn.absorb();
    turn.consider_end();
    if turn.is_ending() {
        turn.take_down();
    } else {
        turn.sync();
    }
    turn.condemn_strays();
    turn.carry_out_sentences();
    turn.probe();
    turn.tidy();
    let status = turn.status();
    if let Some(at) = turn.wake {
        turn.actions.push(Action::Wake { at });
    }
    (turn.actions, status)
}
