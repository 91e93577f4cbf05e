//! What a kubelet, `wardlet run` and `wardlet agent` ask of the same containerd, for pods with every field that reaches CRI.

use testbed::compare_cri::{Against, Extent, compare};

#[test]
fn requests_differ_from_a_kubelets_only_as_documented() {
    let against = [Against::Run, Against::Agent];
    let outcomes = compare(&against, Extent::Whole, None).unwrap();
    assert_eq!(outcomes.len(), against.len());
    for (against, outcome) in against.into_iter().zip(outcomes) {
        let (new, stale) = (&outcome.undocumented, &outcome.stale);
        assert!(outcome.holds(), "{against}: undocumented: {new:#?}\nnot found: {stale:#?}");
        assert!(outcome.pods >= 120, "{against}: {outcome:?}");
    }
}
