//! What a kubelet and `wardlet run` ask of the same containerd, for pods with every field that reaches CRI.

use testbed::compare_cri::{Extent, compare};

#[test]
fn requests_differ_from_a_kubelets_only_as_documented() {
    let outcome = compare(Extent::Whole, None).unwrap();
    assert!(outcome.holds(), "undocumented: {:#?}\nnot found: {:#?}", outcome.undocumented, outcome.stale);
    assert!(outcome.pods >= 120, "{outcome:?}");
}
