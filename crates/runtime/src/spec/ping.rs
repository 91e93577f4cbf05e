//! The groups that may use ping. The kernel takes them as the writer knows them, and the writer is on the host.

use std::collections::BTreeMap;

use ids::{IdMapping, IdMappings};

use types::Refusal;

const PING: &str = "net.ipv4.ping_group_range";
/// No larger number can be written there.
const LARGEST: u64 = 2_147_483_647;

/// `net.ipv4.ping_group_range` of a pod with a user namespace, as host GIDs. If the range has no host GIDs, a pod that
/// requested the sysctl is refused, and any other pod has no ping.
pub(super) fn as_the_host_knows(
    settings: &mut BTreeMap<String, String>,
    ids: &IdMappings,
    asked: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let Some(name) = settings.keys().find(|name| name.replace('/', ".") == PING).cloned() else {
        return Ok(());
    };
    // What is no range is the kernel's to refuse; one without anything in it is the same for all.
    let range = settings.get(&name).and_then(|text| ends(text)).filter(|(low, high)| low <= high);
    let Some((low, high)) = range else { return Ok(()) };
    match (on_host(&ids.gids, low), on_host(&ids.gids, high)) {
        (Some(low), Some(high)) if low <= high && high <= LARGEST => {
            settings.insert(name, format!("{low}\t{high}"));
        }
        _ if asked.contains_key(&name) => {
            let cause =
                format!("on the host these groups are beyond {LARGEST}, which the kernel does not take");
            return Err(Refusal::new(format!("linux.sysctls[{name}]"), cause));
        }
        _ => _ = settings.remove(&name),
    }
    Ok(())
}

fn ends(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Some(low)), Some(Some(high)), None) => Some((low, high)),
        _ => None,
    }
}

fn on_host(lines: &[IdMapping], group: u64) -> Option<u64> {
    lines.iter().find_map(|line| {
        let offset = group.checked_sub(u64::from(line.container()))?;
        (offset < line.length()).then(|| u64::from(line.host().first()) + offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(host: u64) -> IdMappings {
        let lines = vec![IdMapping::new(0, host, 65_536).unwrap()];
        IdMappings { uids: lines.clone(), gids: lines }
    }

    fn map(range: &str) -> BTreeMap<String, String> {
        [(PING.to_owned(), range.to_owned())].into()
    }

    #[test]
    fn a_range_is_written_in_the_hosts_numbers() {
        for (range, expected) in
            [("0\t65535", "100000\t165535"), ("5 7", "100005\t100007"), ("1\t0", "1\t0"), ("x", "x")]
        {
            let mut settings = map(range);
            as_the_host_knows(&mut settings, &ids(100_000), &BTreeMap::new()).unwrap();
            assert_eq!(settings, map(expected), "{range}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_said_are_refused_only_to_whoever_asks() {
        let (high, range) = (ids(3_000_000_000), map("0 65535"));
        let mut settings = range.clone();
        as_the_host_knows(&mut settings, &high, &BTreeMap::new()).unwrap();
        assert_eq!(settings, BTreeMap::new());
        let refused = as_the_host_knows(&mut range.clone(), &high, &range).unwrap_err();
        assert!(refused.field.contains(PING), "{refused}");
    }
}
