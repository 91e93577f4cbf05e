#![no_main]
//! A manifest: any bytes are read or refused. What is read can be checked, defaulted and lowered; what
//! is refused has a place in the text; and the same bytes are always read as the same.

use libfuzzer_sys::fuzz_target;
use manifest::{Cluster, Level, Object, Unknowns, lower, read, read_with, unsupported, validate, violations};
use plan::{Gates, KubernetesVersion};

fn use_it(object: &Object, cluster: &Cluster<'_>) {
    let _ = validate(object, &Gates::default());
    let Some(pod) = object.pod() else { return };
    let _ = unsupported(&pod);
    let _ = violations(&pod, Level::Restricted, KubernetesVersion::NEWEST);
    if let Ok(intent) = lower(&pod, cluster) {
        assert_eq!(intent.host_users, pod.spec.host_users);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let reading = read("fuzz", bytes);
    let lines = u32::try_from(bytes.len()).unwrap_or(u32::MAX).saturating_add(1);
    for finding in &reading.findings {
        assert!(finding.at.line >= 1 && finding.at.line <= lines, "{finding}");
    }
    let cluster = Cluster::of(&reading.objects);
    reading.objects.iter().for_each(|object| use_it(object, &cluster));
    assert!(reading.objects.iter().all(|object| object.warnings.is_empty()));
    let lenient = read_with("fuzz", bytes, Unknowns::Warn);
    assert!(lenient.objects.len() >= reading.objects.len());
});
