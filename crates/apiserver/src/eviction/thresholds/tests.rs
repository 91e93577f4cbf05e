use ::node::kubelet::KubeletFlags;

use super::super::signals::Observation;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn config(fields: &str) -> KubeletConfig {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.yaml");
    let kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    std::fs::write(&file, format!("{kind}{fields}")).unwrap();
    KubeletConfig::load(Some(&file), None, &KubeletFlags::default()).unwrap().config
}

/// Signal, threshold of a capacity of 1000, and grace period in seconds.
fn listed(fields: &str, layout: DiskLayout) -> Vec<(&'static str, u64, u64)> {
    let all = thresholds(&config(fields), layout);
    all.iter().map(|one| (one.signal.name(), one.value.of(1000), one.grace.as_secs())).collect()
}

fn observed(all: &[(EvictionSignal, u64)]) -> Observations {
    let of = |(signal, available): &(EvictionSignal, u64)| {
        (*signal, Observation { available: *available, capacity: 1000 })
    };
    all.iter().map(of).collect()
}

#[test]
fn thresholds_of_other_signals_follow_from_those_that_are_set() {
    let default = listed("", DiskLayout::Single);
    let mi = 100 << 20;
    let expected = [
        ("memory.available", mi, 0),
        ("nodefs.available", 100, 0),
        ("nodefs.inodesFree", 50, 0),
        ("imagefs.available", 150, 0),
        ("imagefs.inodesFree", 50, 0),
        ("allocatableMemory.available", mi, 0),
        ("containerfs.available", 100, 0),
        ("containerfs.inodesFree", 50, 0),
    ];
    assert_eq!(default, expected);
    let separate = listed("", DiskLayout::SeparateImages);
    assert_eq!(separate[6..], [("containerfs.available", 150, 0), ("containerfs.inodesFree", 50, 0)]);
    // Pods without a limit together, soft thresholds, and one that is ignored.
    let fields = "enforceNodeAllocatable: []\nevictionHard: {memory.available: 10%, containerfs.available: 7%}\n\
                  evictionSoft: {memory.available: 20%, nodefs.available: 30%}\n\
                  evictionSoftGracePeriod: {memory.available: 1m30s, nodefs.available: 2m}\n";
    let expected = [
        ("memory.available", 100, 0),
        ("memory.available", 200, 90),
        ("nodefs.available", 300, 120),
        ("containerfs.available", 300, 120),
    ];
    assert_eq!(listed(fields, DiskLayout::SplitImages), expected);
    assert!(listed("evictionHard: {memory.available: 0%}\n", DiskLayout::Single).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hard_threshold_is_due_at_once_and_its_condition_stays_for_a_while() {
    let config = config("evictionHard: {nodefs.available: 10%}\nenforceNodeAllocatable: []\n");
    let all = thresholds(&config, DiskLayout::Single);
    let mut state = ThresholdState::new(all, SECOND * 300);
    let (begin, signal) = (Instant::now(), EvictionSignal::NodeFsAvailable);
    let mut at = |seconds: u32, available: u64| {
        let found = state.assess(&observed(&[(signal, available)]), begin + SECOND * seconds);
        (found.conditions, found.due.len())
    };
    let disk = vec![NodeCondition::DiskPressure];
    assert_eq!(at(0, 100), (vec![], 0), "a threshold is met below it");
    assert_eq!(at(10, 99), (disk.clone(), 1));
    assert_eq!(at(20, 100), (disk.clone(), 0));
    assert_eq!(at(309, 500), (disk.clone(), 0));
    assert_eq!(at(310, 500), (vec![], 0));
    assert_eq!(at(320, 0), (disk, 1));
}

#[tokio::test(start_paused = true)]
async fn a_soft_threshold_is_due_once_it_is_met_for_its_grace_period_without_a_break() {
    let fields = "evictionHard: {memory.available: 0%}\nevictionSoft: {memory.available: 20%}\n\
                  evictionSoftGracePeriod: {memory.available: 30s}\n";
    let mut state = ThresholdState::new(thresholds(&config(fields), DiskLayout::Single), SECOND);
    let (begin, signal) = (Instant::now(), EvictionSignal::MemoryAvailable);
    let mut at = |seconds: u32, available: u64| {
        let found = state.assess(&observed(&[(signal, available)]), begin + SECOND * seconds);
        (found.conditions.len(), found.due.len())
    };
    // The condition is there at once.
    assert_eq!(at(0, 199), (1, 0));
    assert_eq!(at(29, 150), (1, 0));
    assert_eq!(at(35, 250), (0, 0));
    assert_eq!(at(40, 199), (1, 0));
    assert_eq!(at(69, 199), (1, 0));
    assert_eq!(at(70, 199), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_threshold_that_pods_were_ended_for_is_due_until_enough_is_reclaimed() {
    let fields = "evictionHard: {nodefs.available: 10%, memory.available: 10%}\nenforceNodeAllocatable: []\n\
                  evictionMinimumReclaim: {nodefs.available: 5%}\n";
    let mut state = ThresholdState::new(thresholds(&config(fields), DiskLayout::SeparateImages), SECOND);
    let begin = Instant::now();
    let observed = |memory: u64, disk: u64| {
        observed(&[(EvictionSignal::MemoryAvailable, memory), (EvictionSignal::NodeFsAvailable, disk)])
    };
    let mut at = |seconds: u32, memory: u64, disk: u64| {
        let found = state.assess(&observed(memory, disk), begin + SECOND * seconds);
        found.due.iter().map(|threshold| threshold.signal.name()).collect::<Vec<_>>()
    };
    assert!(at(0, 100, 120).is_empty(), "the minimum counts only after pods were ended");
    assert_eq!(at(10, 100, 90), ["nodefs.available"]);
    assert_eq!(at(20, 100, 149), ["nodefs.available"]);
    // Memory comes first, and has no minimum.
    assert_eq!(at(30, 50, 149), ["memory.available", "nodefs.available"]);
    assert!(at(40, 100, 150).is_empty());
    assert!(at(50, 100, 120).is_empty());
    assert!(!state.is_satisfied(&observed(100, 149)) && state.is_satisfied(&observed(100, 150)));
    assert!(state.is_satisfied(&Observations::new()), "what is not observed is not short");
}
