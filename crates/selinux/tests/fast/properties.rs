//! What holds for every label, tried on ten thousand of them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use selinux::{Comparison, Label, Level, PartialLabel};

fn cases() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// Categories as somebody may write them, and the set that they are.
fn categories() -> impl Strategy<Value = (String, BTreeSet<u16>)> {
    let run = prop_oneof![
        3 => (0..40_u16).prop_map(|n| (format!("c{n}"), n..=n)),
        1 => (0..1020_u16, 1..4_u16).prop_map(|(n, more)| (format!("c{n}.c{}", n + more), n..=n + more)),
    ];
    prop::collection::vec(run, 1..8).prop_map(|runs| {
        let text: Vec<String> = runs.iter().map(|(t, _)| t.clone()).collect();
        (text.join(","), runs.into_iter().flat_map(|(_, r)| r).collect())
    })
}

/// The kernel's way to print categories, as its source does it: bit by bit.
fn kernels_print(set: &BTreeSet<u16>) -> String {
    let mut text = String::new();
    let (mut head, mut previous): (i32, i32) = (-2, -2);
    let close = |text: &mut String, head: i32, previous: i32| {
        if head != previous {
            text.push(if previous - head > 1 { '.' } else { ',' });
            text.push_str(&format!("c{previous}"));
        }
    };
    for &bit in set {
        let bit = i32::from(bit);
        if bit - previous > 1 {
            close(&mut text, head, previous);
            text.push_str(if previous < 0 { "" } else { "," });
            text.push_str(&format!("c{bit}"));
            head = bit;
        }
        previous = bit;
    }
    close(&mut text, head, previous);
    text
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_level_is_the_set_of_its_categories_printed_as_the_kernel_does((text, set) in categories()) {
        let level: Level = format!("s0:{text}").parse().unwrap();
        prop_assert_eq!(level.low().categories().iter().collect::<BTreeSet<_>>(), set.clone());
        prop_assert_eq!(level.to_string(), format!("s0:{}", kernels_print(&set)));
        prop_assert_eq!(level.to_string().parse::<Level>().unwrap(), level);
    }

    #[test]
    fn labels_are_equal_just_when_their_sets_are((a, first) in categories(), (b, second) in categories()) {
        let label = |t: &str| format!("u:r:t:s0:{t}").parse::<Label>().unwrap();
        prop_assert_eq!(label(&a) == label(&b), first == second);
        let partial = |t: &str| format!(":::s0:{t}").parse::<PartialLabel>().unwrap();
        prop_assert_eq!(partial(&a).compare(&partial(&b)) == Comparison::Same, first == second);
    }

    #[test]
    fn a_range_is_one_just_when_the_upper_end_covers_the_lower((a, low) in categories(), (b, high) in categories()) {
        prop_assert_eq!(format!("s0:{a}-s0:{b}").parse::<Level>().is_ok(), low.is_subset(&high));
    }

    #[test]
    fn whatever_is_read_is_read_again_from_its_print_and_breaks_no_quote(text in "[a-z_]{1,3}(:[a-z_\\-.]{1,3}){2}(:s[0-9]{1,2}(:c[0-9.,c]{1,12})?)?|.{0,24}") {
        if let Ok(label) = text.parse::<Label>() {
            let printed = label.to_string();
            prop_assert!(!printed.contains(['"', '\\', ' ', '\0', '\n']));
            prop_assert_eq!(printed.parse::<Label>().unwrap(), label);
        }
    }
}
