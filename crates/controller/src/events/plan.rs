//! Which events are to be sent: each once in a term of leadership. What an earlier leader has sent is not known here: the
//! API server refuses it a second time.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use conflicts::{PodKey, Says, VolumeId};
use tokio::time::Instant;

use super::notice::{Notice, Subject};
use crate::cluster::{Changes, Cluster};

/// All pods are examined for what concerns no other pod at most this often.
const EXAMINED: Duration = Duration::from_secs(5);

/// An event that waits, and when it was found to be due.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub(super) notice: Notice,
    /// `None` for what was there when this replica began to lead.
    pub(super) since: Option<Instant>,
}

/// The events of a term of leadership.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// What was sent, or waits, of each pod that has not gone.
    known: HashMap<PodKey, Sent>,
    /// Of changes: sent before those that were there at the begin.
    fresh: VecDeque<Due>,
    backlog: VecDeque<Due>,
    /// When all pods were examined for what concerns no other pod, and the revision of the cluster then.
    examined: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct Sent {
    uid: String,
    subjects: Vec<(VolumeId, Subject)>,
}

/// What an event is about, borrowed.
#[derive(Clone, Copy)]
struct About<'a> {
    pod: &'a PodKey,
    uid: &'a str,
    volume: &'a VolumeId,
    subject: Subject,
}

impl Plan {
    /// All conflicts that there are, for a replica that begins to lead.
    pub(super) fn begin(cluster: &mut Cluster) -> Self {
        let mut plan = Self::default();
        cluster.touch_all();
        let changes = cluster.take_changes();
        plan.add_conflicts(cluster, &changes, None);
        plan.add_multiple_labels(cluster, None);
        plan
    }

    /// Adds what changes of the cluster have made due.
    pub(super) fn update(&mut self, cluster: &mut Cluster, now: Instant) {
        let changes = cluster.take_changes();
        self.add_conflicts(cluster, &changes, Some(now));
        let revision = cluster.revision();
        let is_due = |(at, seen): (Instant, u64)| now.duration_since(at) >= EXAMINED && seen != revision;
        if self.examined.is_none_or(is_due) {
            self.examined = Some((now, revision));
            self.add_multiple_labels(cluster, Some(now));
        }
    }

    fn add_conflicts(&mut self, cluster: &Cluster, changes: &Changes, since: Option<Instant>) {
        for pod in &changes.gone {
            self.known.remove(pod);
        }
        let engine = cluster.engine();
        for volume in &changes.volumes {
            for (property, users) in engine.in_conflict(volume) {
                for pod in users.pods() {
                    // Without a UID it is no pod of an API server.
                    let Some(uid) = engine.uid(pod) else { continue };
                    self.add(About { pod, uid, volume, subject: Subject::Conflict(property) }, since);
                }
            }
        }
    }

    fn add_multiple_labels(&mut self, cluster: &Cluster, since: Option<Instant>) {
        let engine = cluster.engine();
        for remark in engine.remarks().filter(|remark| matches!(remark.says, Says::MultipleLabels { .. })) {
            let Some(uid) = engine.uid(remark.pod) else { continue };
            let (pod, volume) = (remark.pod, remark.volume);
            self.add(About { pod, uid, volume, subject: Subject::MultipleLabels }, since);
        }
    }

    fn add(&mut self, about: About<'_>, since: Option<Instant>) {
        let About { pod, uid, volume, subject } = about;
        let new = || Sent { uid: uid.to_owned(), subjects: Vec::new() };
        let sent = self.known.entry(pod.clone()).or_insert_with(new);
        if sent.uid != uid {
            *sent = new();
        }
        if sent.subjects.iter().any(|(of, about)| of == volume && *about == subject) {
            return;
        }
        sent.subjects.push((volume.clone(), subject));
        let notice = Notice { pod: pod.clone(), uid: uid.to_owned(), volume: volume.clone(), subject };
        let queue = if since.is_some() { &mut self.fresh } else { &mut self.backlog };
        queue.push_back(Due { notice, since });
    }

    /// The next event to send.
    pub(super) fn next(&mut self) -> Option<Due> {
        self.fresh.pop_front().or_else(|| self.backlog.pop_front())
    }

    /// An event that could not be sent is the next one again.
    pub(super) fn put_back(&mut self, due: Due) {
        let queue = if due.since.is_some() { &mut self.fresh } else { &mut self.backlog };
        queue.push_front(due);
    }
}

#[cfg(test)]
mod tests {
    use conflicts::{Property, Rules};
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::Details;
    use crate::objects::{ClaimObject, DriverObject, PodObject};

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new(Rules::default(), Details::Dropped);
        let driver = json!({"metadata": {"name": "csi.example.com"}, "spec": {"seLinuxMount": true}});
        cluster.put_driver(&serde_json::from_value::<DriverObject>(driver).unwrap());
        for namespace in ["shop", "bank"] {
            let volume = json!({"metadata": {"name": namespace}, "spec": {"accessModes": ["ReadWriteMany"],
                "csi": {"driver": "csi.example.com", "volumeHandle": "h"}}});
            cluster.put_volume(&serde_json::from_value(volume).unwrap());
            let claim = json!({"metadata": {"namespace": namespace, "name": "data"}, "spec": {"volumeName": namespace}});
            cluster.put_claim(&serde_json::from_value::<ClaimObject>(claim).unwrap());
        }
        cluster
    }

    /// A pod whose containers ask for these levels.
    fn pod(name: &str, uid: &str, levels: &[&str]) -> PodObject {
        let (namespace, name) = name.split_once('/').unwrap();
        let container = |(index, level): (usize, &&str)| {
            json!({"name": format!("c{index}"), "securityContext": {"seLinuxOptions": {"level": level}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}]})
        };
        let containers: Vec<Value> = levels.iter().enumerate().map(container).collect();
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        let metadata = json!({"namespace": namespace, "name": name, "uid": uid});
        serde_json::from_value(
            json!({"metadata": metadata, "spec": {"containers": containers, "volumes": volumes}}),
        )
        .unwrap()
    }

    fn all(plan: &mut Plan) -> Vec<String> {
        let mut found: Vec<String> = std::iter::from_fn(|| plan.next())
            .map(|due| format!("{} {} {}", due.notice.pod, due.notice.uid, due.notice.subject.reason()))
            .collect();
        found.sort();
        found
    }

    const C1: &str = "s0:c1,c2";
    const C8: &str = "s0:c8,c9";

    #[tokio::test]
    async fn each_pod_has_one_event_for_a_volume_and_a_property_however_many_it_conflicts_with() {
        let mut cluster = cluster();
        let now = Instant::now();
        let mut plan = Plan::begin(&mut cluster);
        assert_eq!(all(&mut plan), Vec::<String>::new());
        for number in 0..5 {
            cluster.put_pod(&pod(&format!("shop/a{number}"), &format!("u{number}"), &[C1]));
            cluster.put_pod(&pod(&format!("bank/b{number}"), &format!("v{number}"), &[C8]));
            plan.update(&mut cluster, now);
        }
        let found = all(&mut plan);
        assert_eq!(found.len(), 10, "{found:?}");
        assert!(found.contains(&"bank/b3 v3 SELinuxLabelConflict".to_owned()), "{found:?}");
        plan.update(&mut cluster, now);
        cluster.put_pod(&pod("shop/a0", "u0", &[C1]));
        plan.update(&mut cluster, now);
        assert_eq!(all(&mut plan), Vec::<String>::new(), "nothing has changed");
        // A new pod of an old name, as of a StatefulSet, has an event of its own.
        cluster.put_pod(&pod("shop/a0", "u9", &[C1]));
        plan.update(&mut cluster, now);
        assert_eq!(all(&mut plan), ["shop/a0 u9 SELinuxLabelConflict"]);
    }

    #[tokio::test]
    async fn a_replica_that_begins_to_lead_plans_all_that_there_is_and_changes_first() {
        let mut cluster = cluster();
        cluster.put_pod(&pod("shop/a", "u1", &[C1]));
        cluster.put_pod(&pod("shop/b", "u2", &[C8]));
        drop(cluster.take_changes());
        let mut plan = Plan::begin(&mut cluster);
        cluster.put_pod(&pod("shop/c", "u3", &[C8]));
        plan.update(&mut cluster, Instant::now());
        let first = plan.next().unwrap();
        assert_eq!((first.notice.uid.as_str(), first.since.is_some()), ("u3", true));
        plan.put_back(first);
        assert_eq!(plan.next().unwrap().notice.uid, "u3");
        assert_eq!(all(&mut plan).len(), 2);
    }

    #[tokio::test]
    async fn a_pod_with_several_labels_on_a_volume_has_a_warning_once() {
        let mut cluster = cluster();
        let mut plan = Plan::begin(&mut cluster);
        cluster.put_pod(&pod("shop/a", "u1", &[C1, C8]));
        plan.update(&mut cluster, Instant::now());
        let due = plan.next().unwrap();
        let text = due.notice.text(&cluster).unwrap();
        assert_eq!((text.reason, text.kind), ("MultipleSELinuxLabels", "Warning"));
        assert!(
            text.message.contains("\"v\"") && text.message.contains("\":::s0:c8,c9\""),
            "{}",
            text.message
        );
        plan.update(&mut cluster, Instant::now());
        assert!(plan.next().is_none());
    }

    #[tokio::test]
    async fn what_is_over_when_it_would_be_sent_has_no_text() {
        let mut cluster = cluster();
        let (a, b) = (pod("shop/a", "u1", &[C1]), pod("shop/b", "u2", &[C8]));
        cluster.put_pod(&a);
        cluster.put_pod(&b);
        let mut plan = Plan::begin(&mut cluster);
        let due = plan.next().unwrap();
        let text = due.notice.text(&cluster).unwrap();
        assert_eq!((text.reason, text.kind), ("SELinuxLabelConflict", "Normal"));
        assert_eq!(due.notice.subject, Subject::Conflict(Property::SELinuxLabel));
        cluster.remove_pod(&b);
        assert_eq!(plan.next().unwrap().notice.text(&cluster), None);
        assert_eq!(due.notice.text(&cluster), None);
        // Another pod of the same name is none of this event's business.
        cluster.put_pod(&b);
        assert!(due.notice.text(&cluster).is_some());
        cluster.put_pod(&pod("shop/a", "u9", &[C1]));
        assert_eq!(due.notice.text(&cluster), None);
    }
}
