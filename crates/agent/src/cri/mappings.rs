//! ID mappings in CRI requests.

use ids::IdMapping;

/// ID mappings in the form that CRI requests carry.
pub(crate) fn id_mappings(mappings: &[IdMapping]) -> Vec<cri::IdMapping> {
    let line = |m: &IdMapping| cri::IdMapping {
        host_id: m.host().first(),
        container_id: m.container().get(),
        length: u32::try_from(m.length()).unwrap_or(u32::MAX),
    };
    mappings.iter().map(line).collect()
}
