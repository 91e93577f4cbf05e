//! What a kubelet and `wardlet run` ask of the same containerd, for a few pods; for all of them it is a test of a node.

use testbed::compare_cri::{Extent, compare};

#[test]
fn requests_of_a_few_pods_differ_from_a_kubelets_only_as_documented() {
    let outcome = compare(Extent::Short, None).unwrap();
    assert!(outcome.holds(), "undocumented: {:#?}", outcome.undocumented);
    assert!(outcome.pods >= 14 && outcome.requests >= 40, "{outcome:?}");
}
