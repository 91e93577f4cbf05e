//! A flipped byte anywhere, many more of them than in `damage`.
//!
//! With `WARDLET_ROUNDS` of 100 or more every byte of every file is flipped once; with less, every
//! so many-th that a round takes about a minute, beginning anywhere. One byte in sixteen is replaced by
//! another value altogether.

use crate::crash;
use crate::damaged;

use crash::Where;
use damaged::{FILES, Log, Specimen};
use testkit::{Dice, rounds};

/// The bytes to damage, so that a run of one round takes about a minute.
fn offsets(length: usize, dice: &mut Dice) -> Vec<usize> {
    let wanted = 700 * rounds();
    let stride = if rounds() >= 100 { 1 } else { (length / wanted).max(1) };
    let first = dice.below(stride);
    (first..length).step_by(stride).collect()
}

fn mask(dice: &mut Dice) -> u8 {
    if dice.below(16) == 0 { u8::try_from(1 + dice.below(255)).unwrap() } else { 1 << dice.below(8) }
}

fn flip_all(log: Log) {
    let specimen = Specimen::new(log);
    let mut dice = Dice::thrown("damage");
    for file in FILES {
        let (length, mut flipped) = (specimen.length(file), 0);
        for at in offsets(length, &mut dice) {
            let copy = specimen.copy();
            let bits = mask(&mut dice);
            copy.flip(file, at, bits);
            let context = Where::new(format!("{log:?} log, {file} byte {at} bits {bits:#x}"));
            copy.loses_nothing(&specimen.held);
            context.over();
            flipped += 1;
        }
        println!("{log:?} log, {file}: {flipped} of {length} bytes flipped");
    }
}

#[test]
fn a_flipped_byte_of_a_folded_ledger_loses_nothing() {
    flip_all(Log::Short);
}

#[test]
fn a_flipped_byte_of_a_ledger_with_a_long_log_loses_nothing() {
    flip_all(Log::Long);
}

#[test]
fn two_flipped_bytes_in_database_and_copy_free_nothing() {
    let specimen = Specimen::new(Log::Short);
    let mut dice = Dice::thrown("damage");
    let at = |file: &str, dice: &mut Dice| dice.below(specimen.read(file).len());
    for _ in 0..400 * rounds() {
        let copy = specimen.copy();
        let (db, copies) = (at("ledger.db", &mut dice), at("copies", &mut dice));
        let context = Where::new(format!("ledger.db from byte {db}, copies byte {copies}"));
        let mut bytes = specimen.read("ledger.db");
        bytes[db..].iter_mut().take(300).for_each(|b| *b ^= 0x5a);
        copy.write("ledger.db", &bytes);
        copy.flip("copies", copies, mask(&mut dice));
        copy.frees_nothing(&specimen.held);
        context.over();
    }
}
