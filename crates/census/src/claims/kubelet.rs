//! The kubelet's records of the blocks it gave to pods, `pods/<uid>/userns`.

use std::path::Path;

use ids::HostSpan;
use ids::parse::kubelet::{RecordError, parse_record};

use super::{Claims, Ids};
use crate::owner::OwnerKind;

pub(super) fn read(claims: &mut Claims<'_>, kubelet: &Path) {
    let pods = kubelet.join("pods");
    for pod in claims.names(&pods) {
        let file = pods.join(&pod).join("userns");
        let Some(content) = claims.content(&file) else { continue };
        let record = parse_record(&content);
        let reaches_last_id = matches!(record, Err(RecordError::LastId { .. }));
        let span = match record {
            Ok(record) => record.map(|r| r.span()),
            // What it claims short of the last ID is claimed all the same.
            Err(RecordError::LastId { host_id, length }) => {
                HostSpan::new(host_id.into(), u64::from(length).saturating_sub(1)).ok()
            }
            Err(e) => {
                claims.problem(&file, e.to_string());
                None
            }
        };
        if let Some(span) = span {
            let name = format!("kubelet record of pod {pod}");
            let ids = Ids { uids: vec![span], gids: vec![span] };
            claims.add(OwnerKind::KubeletRecord { pod, reaches_last_id }, name, ids);
        }
    }
}
