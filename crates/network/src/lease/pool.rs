use std::collections::VecDeque;
use std::ops::Range;

/// The free host numbers of a subnet, those that were released longest ago first.
#[derive(Debug)]
pub(super) struct Pool {
    free: VecDeque<u32>,
}

impl Pool {
    /// All numbers that are not held. The one after the last that was leased comes first: after a restart, it is the
    /// one that has been free longest.
    pub(super) fn new(numbers: Range<u32>, last: Option<u32>, held: impl Fn(u32) -> bool) -> Self {
        let turn = last.filter(|last| numbers.contains(last)).map_or(numbers.start, |last| last + 1);
        let order = (turn..numbers.end).chain(numbers.start..turn);
        Self { free: order.filter(|number| !held(*number)).collect() }
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop_front()
    }

    pub(super) fn give_back(&mut self, number: u32) {
        if !self.free.contains(&number) {
            self.free.push_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_first_is_given_first() {
        let mut pool = Pool::new(2..6, None, |_| false);
        assert_eq!([pool.take(), pool.take(), pool.take()], [Some(2), Some(3), Some(4)]);
        pool.give_back(3);
        pool.give_back(2);
        pool.give_back(2);
        let rest: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(rest, [5, 3, 2]);
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn after_a_restart_it_goes_on_behind_the_last() {
        let mut pool = Pool::new(2..8, Some(5), |number| number == 6);
        let order: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(order, [7, 2, 3, 4, 5]);
        // A number that is of no use, as of another subnet, is as none.
        assert_eq!(Pool::new(2..8, Some(99), |_| false).take(), Some(2));
        assert_eq!(Pool::new(2..8, Some(7), |_| false).take(), Some(2));
    }

    /// Against a model that remembers when each number was given back.
    #[test]
    fn no_number_is_given_twice_and_the_oldest_is_given_first() {
        let mut pool = Pool::new(2..34, None, |_| false);
        let mut rested: Vec<(u64, u32)> = (2..34).map(|number| (0, number)).collect();
        let mut held = Vec::new();
        let mut dice: u64 = 0x9e37_79b9_7f4a_7c15;
        for time in 1..20_000_u64 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let roll = usize::try_from(dice >> 33).unwrap();
            if roll % 2 == 0 {
                rested.sort_unstable();
                let wanted = (!rested.is_empty()).then(|| rested.remove(0).1);
                assert_eq!(pool.take(), wanted);
                held.extend(wanted);
            } else if !held.is_empty() {
                let number = held.swap_remove(roll / 2 % held.len());
                rested.push((time, number));
                pool.give_back(number);
            }
        }
    }
}
