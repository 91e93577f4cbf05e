//! All blocks of the pool for one pod.
//!
//! The annotations `wardlet.dev/ids` and CRI-O's `auto:size=N` had no upper bound: one pod, or two, that asked for the
//! longest block took the whole pool, and no other pod of the node could be isolated until they ended.

use std::path::Path;

use serde_json::{Value, json};

use crate::asking::{Emptied, RUNC, asking, done, held, leases};
use crate::isolation::{Host, debians};
use crate::wrapped::{Wrapped, stderr};

/// The longest block that [`Wrapped`]'s pool can give: half of all its IDs.
const HALF_THE_POOL: &str = "8388608";

fn with(annotations: &[(&str, &str)]) -> impl FnOnce(&mut Value) {
    let annotations: Vec<_> = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    move |spec| {
        for (key, value) in annotations {
            spec["annotations"][key] = json!(value);
        }
    }
}

#[test]
fn a_pod_cannot_take_the_pool_from_all_others() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let size = format!("auto:size={HALF_THE_POOL}");
        for (key, value) in [("wardlet.dev/ids", HALF_THE_POOL), ("userns-mode.crio.io", &size)] {
            let (id, bundle) = asking(host, &host.pod(0), None, with(&[(key, value)]));
            let output = wrapped.create(&bundle, &id);
            assert_eq!(output.status.code(), Some(1), "{key}: {:?}", leases(&wrapped));
            let said = stderr(&output);
            for part in [key, HALF_THE_POOL, "65536", "userNamespaces.maxIdsPerPod"] {
                assert!(said.contains(part), "{part} is not in: {said}");
            }
        }
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        done(&wrapped.create(&bundle, &id));
        assert_eq!(held(&wrapped), 1, "there is a block for another pod");
    });
}

#[test]
fn a_pod_gets_as_many_ids_as_the_operator_allows_and_no_more() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        wrapped.allow(131_072);
        let (id, bundle) = asking(host, &host.pod(0), None, with(&[("wardlet.dev/ids", "131072")]));
        done(&wrapped.create(&bundle, &id));
        let (id, bundle) = asking(host, &host.pod(0), None, with(&[("wardlet.dev/ids", "196608")]));
        let output = wrapped.create(&bundle, &id);
        assert_eq!((output.status.code(), held(&wrapped)), (Some(1), 1), "{}", stderr(&output));
    });
}
