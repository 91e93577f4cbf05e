//! What a kubelet and `wardlet run` ask of the same containerd, for some pods; tests/node has all of them.

use testbed::compare_cri::{Extent, compare};

#[test]
fn requests_differ_from_a_kubelets_only_as_documented() {
    let outcome = compare(Extent::Short, None).unwrap();
    assert!(outcome.holds(), "{:#?}", outcome.undocumented);
    assert!(outcome.requests > 30, "{outcome:?}");
}
