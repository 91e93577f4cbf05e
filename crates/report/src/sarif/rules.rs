use serde_json::{Value, json};

/// Something that can be found.
pub(super) struct Rule {
    pub(super) id: &'static str,
    level: &'static str,
    short: &'static str,
    help: &'static str,
}

/// Names stay: users suppress a rule by its name.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "selinux-conflict",
        level: "error",
        short: "Workloads with different SELinux labels share a volume",
        help: "A volume that is mounted with a label can have only one on a node. Give the workloads equal labels, or let them opt out with seLinuxChangePolicy: Recursive.",
    },
    Rule {
        id: "selinux-multiple-labels",
        level: "error",
        short: "Containers of one pod need a volume with different SELinux labels",
        help: "Give the containers one label, or a volume each. No seLinuxChangePolicy starts such a pod.",
    },
    Rule {
        id: "selinux-labelled-and-unlabelled",
        level: "warning",
        short: "Containers with and without an SELinux label share a volume",
        help: "Set the label for the whole pod.",
    },
    Rule {
        id: "selinux-without-level",
        level: "note",
        short: "SELinux options without a level: the label that a volume gets is not predictable",
        help: "Set a level, so that workloads that share a volume can be compared.",
    },
    Rule {
        id: "selinux-privileged-with-options",
        level: "note",
        short: "A privileged container has SELinux options, which label its volume but not its process",
        help: "Leave the options out, or the privilege.",
    },
    Rule {
        id: "selinux-driver",
        level: "error",
        short: "A CSI driver says that it can mount with a label, and its DaemonSet cannot",
        help: "The DaemonSet needs the host's /sys/fs/selinux and /etc/selinux.",
    },
    Rule {
        id: "user-namespace-blocked",
        level: "warning",
        short: "A workload that cannot have a user namespace of its own",
        help: "The message names the field that stands in the way, and the way out.",
    },
    Rule {
        id: "user-namespace-risky",
        level: "note",
        short: "A workload that may miss something in a user namespace of its own",
        help: "The message names the field and what may be missed.",
    },
];

/// The rule as the log lists it.
pub(super) fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": {"text": rule.short},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": rule.level},
    })
}

/// Where a rule is in the list.
pub(super) fn index(id: &str) -> Option<usize> {
    RULES.iter().position(|rule| rule.id == id)
}
