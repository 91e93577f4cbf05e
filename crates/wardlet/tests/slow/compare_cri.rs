//! What a kubelet, `wardlet run` and `wardlet agent` ask of the same containerd, for a few pods; for all of them it is a
//! test of a node.

use testbed::compare_cri::{Against, Extent, compare};

#[test]
fn requests_of_a_few_pods_differ_from_a_kubelets_only_as_documented() {
    let against = [Against::Run, Against::Agent];
    let outcomes = compare(&against, Extent::Short, None).unwrap();
    assert_eq!(outcomes.len(), against.len());
    for (against, outcome) in against.into_iter().zip(outcomes) {
        assert!(outcome.holds(), "{against}: undocumented: {:#?}", outcome.undocumented);
        assert!(outcome.pods >= 14 && outcome.requests >= 40, "{against}: {outcome:?}");
    }
}
