//! The status of a cluster that the controller keeps, as text.

use ::check::controller::ControllerStatus;

use crate::table;

/// The numbers in a table.
#[must_use]
pub fn text(status: &ControllerStatus) -> String {
    let conflicts = format!(
        "{} ({} in the label, {} in the policy)",
        status.conflicts, status.label_conflicts, status.policy_conflicts
    );
    let volumes = format!("{}, {} with pods that can meet on a node", status.volumes, status.meeting_volumes);
    let unread = if status.unread.is_empty() { "nothing".to_owned() } else { status.unread.join(", ") };
    let rows = [
        ["conflicts of two pods".to_owned(), conflicts],
        ["volumes with conflicts".to_owned(), volumes],
        ["pods with conflicts".to_owned(), status.pods.to_string()],
        ["pods that need a volume with several labels".to_owned(), status.multiple_labels.to_string()],
        [
            "pods".to_owned(),
            format!("{}, {} in their own user namespace", status.observed_pods, status.isolated_pods),
        ],
        [
            "nodes".to_owned(),
            format!("{}, {} with user namespaces", status.observed_nodes, status.able_nodes),
        ],
        ["not read".to_owned(), unread],
        ["written".to_owned(), status.renewed.clone()],
    ];
    table(["OF THE CLUSTER", "NUMBER"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_shown_and_what_was_not_read_is_named() {
        let status = ControllerStatus {
            renewed: "2026-03-01T12:30:05Z".to_owned(),
            unread: vec!["csidrivers".to_owned()],
            conflicts: 11,
            label_conflicts: 12,
            policy_conflicts: 13,
            volumes: 14,
            meeting_volumes: 15,
            pods: 16,
            multiple_labels: 17,
            observed_pods: 18,
            isolated_pods: 19,
            observed_nodes: 20,
            able_nodes: 21,
            renew_seconds: 60,
        };
        let text = text(&status);
        for number in 11..=21 {
            assert!(text.contains(&number.to_string()), "{number}: {text}");
        }
        assert!(text.contains("csidrivers") && text.contains("12:30:05"), "{text}");
    }
}
