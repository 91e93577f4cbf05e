//! What `wardlet run` says of the owners of a volume's files: what it costs to change them, and which the pod cannot have.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use crate::machine::{Lan, Machine, pod, text};

/// A pod that lists its hostPath `data` and ends.
fn with_data(machine: &Machine<'_>) -> String {
    let more = format!(
        "  restartPolicy: Never\n  volumes: [{{name: data, hostPath: {{path: {}}}}}]\n",
        machine.path("data").display()
    );
    let listing = pod("web", "stat -c '%u %n' /data/*", &more);
    listing.replace("image: IMAGE", "volumeMounts: [{name: data, mountPath: /data}], image: IMAGE")
}

/// Nothing was said of it, though the start takes the longer, the more files there are.
#[test]
fn what_chown_once_costs_is_announced_and_reported() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    machine.configure("policy: {volumes: {otherwise: chownOnce}}\n");
    let data = machine.path("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("file"), "x").unwrap();
    let file = machine.manifest("pod.yaml", &with_data(&machine));
    let output = machine.output(&["run", &file]);
    let said = text(&output);
    assert!(output.status.success() && said.contains("0 /data/file"), "{said}");
    let place = data.display();
    let lines = [
        "spec.volumes[0]: each file is given to the pod's host IDs before the pod starts".to_owned(),
        format!("volume data: walking {place} to give each file to the pod's host IDs (chownOnce)"),
        format!("volume data: 2 files of {place} were given to the pod's host IDs in "),
        format!("volume data: 2 files of {place} were taken back from the pod's host IDs in "),
    ];
    let at: Vec<_> =
        lines.iter().map(|line| said.find(line).unwrap_or_else(|| panic!("{line}: {said}"))).collect();
    assert!(at.is_sorted(), "{said}");
    assert_eq!(fs::metadata(data.join("file")).unwrap().uid(), 0);
}

#[test]
fn files_that_the_pods_map_leaves_out_are_warned_of() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let data = machine.path("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("foreign"), "x").unwrap();
    let file = machine.manifest("pod.yaml", &with_data(&machine));
    let warning = "uppermost files belong to IDs that the pod's map leaves out";
    let quiet = text(&machine.output(&["run", &file]));
    assert!(quiet.contains("0 /data/foreign") && !quiet.contains(warning), "{quiet}");
    chown(data.join("foreign"), Some(4_000_000), None).unwrap();
    let said = text(&machine.output(&["run", &file]));
    assert!(said.contains("65534 /data/foreign"), "{said}");
    let expected = format!("warning: default/web: volume data: 1 of the 2 {warning}, such as ");
    assert!(said.contains(&expected), "{said}");
}
