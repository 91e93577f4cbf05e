#![no_main]
//! `/etc/subuid`: no line is lost, no entry holds 2^32-1, and good lines printed are read back.

use ids::parse::subid::{SubidEntry, Subids, parse_subids};
use libfuzzer_sys::fuzz_target;

fn printed(entry: &SubidEntry) -> String {
    format!("{}:{}:{}\n", entry.owner, entry.ids.first(), entry.ids.length())
}

fn facts(subids: &Subids) -> Vec<(&str, u32, u64)> {
    subids.entries.iter().map(|e| (e.owner.as_str(), e.ids.first(), e.ids.end())).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let subids = parse_subids(text);

    let said = text.split('\n').filter(|l| !l.trim_ascii().is_empty() && !l.starts_with('#')).count();
    assert_eq!(subids.entries.len() + subids.problems.len(), said);
    assert!(subids.entries.iter().all(|e| e.ids.end() <= 4_294_967_295));
    assert!(subids.entries.iter().all(|e| subids.of(&e.owner).any(|own| own == e)));
    for problem in &subids.problems {
        assert!(!problem.hint().is_empty() && !problem.to_string().contains('\n'));
    }

    let again = parse_subids(&subids.entries.iter().map(printed).collect::<String>());
    assert_eq!(facts(&again), facts(&subids));
    assert!(again.problems.is_empty());
});
