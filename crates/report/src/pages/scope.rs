//! What a reader of some namespaces sees of a cluster: nothing by which another namespace, or an object in it, could be known.

use std::collections::BTreeSet;

use check::{
    Conflict, ConflictSide, Fix, Now, ObjectRef, Severity, Summary, User, Verdict, Volume, Workload,
};
use serde::{Deserialize, Serialize};

use super::{ClusterPage, LeftOut, NodeReadiness, SelinuxReadiness};

/// In the place of a name or a value of another namespace. No object can be called so.
const HIDDEN: &str = "(another namespace)";
/// Why there is a conflict with another namespace: as much as an event of the pod says.
const WHY: &str = "a pod of another namespace uses the volume and asks for something else; where both are on one node, only one of them can have it";

/// Which namespaces a reader of a page may see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// All of them.
    #[default]
    Cluster,
    /// These.
    Namespaces(BTreeSet<String>),
}

impl Scope {
    fn has(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespaces(names) => names.contains(namespace),
        }
    }

    fn has_claim(&self, claim: &str) -> bool {
        claim.split_once('/').is_some_and(|(namespace, _)| self.has(namespace))
    }
}

impl ClusterPage {
    /// The page for a reader of these namespaces. Of a conflict with a pod elsewhere it shows that there is one, as the
    /// events of the pods do. Left out are names, labels and values of other namespaces, names of volumes, which provisioners
    /// build from namespaces, fixes that would name others, and all that is said of the cluster as a whole.
    #[must_use]
    pub fn seen_from(&self, scope: Scope) -> Self {
        if scope == Scope::Cluster {
            return Self { scope, ..self.clone() };
        }
        let workloads: Vec<Workload> =
            self.workloads.iter().filter(|one| scope.has(&one.object.namespace)).map(alone).collect();
        let mut seen: Vec<SeenVolume<'_>> = Vec::new();
        for volume in &self.volumes {
            let next = SeenVolume::of(volume, &scope, &seen);
            seen.extend(next);
        }
        let conflicts: Vec<Conflict> =
            seen.iter().flat_map(|volume| volume.conflicts(self, &scope)).collect();
        let fixes = seen.iter().filter_map(|volume| volume.fix(self, &scope)).collect();
        let selinux = SelinuxReadiness {
            mount_gate: self.selinux.mount_gate,
            shared_volumes: 0,
            contested_volumes: count(seen.len()),
            on_one_node: of_severity(&conflicts, Severity::OnOneNode),
            must_meet: of_severity(&conflicts, Severity::MustMeet),
            may_meet: of_severity(&conflicts, Severity::MayMeet),
            cannot_meet: of_severity(&conflicts, Severity::CannotMeet),
            drivers: Vec::new(),
        };
        Self {
            taken: self.taken,
            revision: self.revision,
            cluster: self.cluster.clone(),
            kubernetes: self.kubernetes.clone(),
            watch: self.watch.clone(),
            summary: summary(&workloads, &conflicts),
            nodes: NodeReadiness { causes: Vec::new(), ..self.nodes },
            selinux,
            workloads,
            volumes: seen.into_iter().map(|volume| volume.shown).collect(),
            conflicts,
            fixes,
            trend: Vec::new(),
            problems: Vec::new(),
            notes: vec!["This is what concerns your namespaces; others are not shown.".to_owned()],
            left_out: LeftOut::default(),
            scope,
        }
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn of_severity(conflicts: &[Conflict], severity: Severity) -> u64 {
    count(conflicts.iter().filter(|conflict| conflict.severity == severity).count())
}

/// A workload without the names of volumes, which say where they come from.
fn alone(workload: &Workload) -> Workload {
    let mut own = workload.clone();
    for finding in &mut own.selinux.findings {
        finding.volume.clear();
    }
    own
}

fn summary(workloads: &[Workload], conflicts: &[Conflict]) -> Summary {
    let of = |verdict| workloads.iter().filter(|w| w.user_namespace.verdict == verdict).count();
    let isolated =
        |w: &&Workload| w.user_namespace.now == Now::Own && w.user_namespace.verdict != Verdict::Blocked;
    Summary {
        workloads: workloads.len(),
        ready: of(Verdict::Ready),
        risky: of(Verdict::Risky),
        blocked: of(Verdict::Blocked),
        isolated: workloads.iter().filter(isolated).count(),
        conflicts: conflicts.iter().filter(|c| c.severity != Severity::CannotMeet).count(),
        breaks: 0,
        problems: 0,
    }
}

/// A volume that a reader's pods use, and how it is shown to the reader.
struct SeenVolume<'a> {
    volume: &'a Volume,
    shown: Volume,
    /// The first of its users that is the reader's.
    first: ObjectRef,
    /// Whether pods of other namespaces use it, too.
    is_shared: bool,
}

impl<'a> SeenVolume<'a> {
    /// The volume beside those before it; `None` if no pod of the reader's uses it.
    fn of(volume: &'a Volume, scope: &Scope, before: &[Self]) -> Option<Self> {
        let (own, others): (Vec<&User>, Vec<&User>) =
            volume.users.iter().partition(|user| scope.has(&user.workload.namespace));
        let first = own.first()?.workload.clone();
        let claim = volume.claim.clone().filter(|claim| scope.has_claim(claim));
        let id = match &claim {
            Some(claim) => format!("claim {claim}"),
            // Without a claim of the reader's, it is known by its first user; several of one user are numbered.
            None => {
                let others =
                    before.iter().filter(|other| other.shown.claim.is_none() && other.first == first);
                format!("volume {} of {first}", others.count() + 1)
            }
        };
        let hidden = User {
            workload: hidden(),
            label: HIDDEN.to_owned(),
            policy: HIDDEN.to_owned(),
            nodes: Vec::new(),
            pods: 0,
        };
        let is_shared = !others.is_empty();
        let shown = Volume {
            id,
            persistent_volume: None,
            claim,
            driver: volume.driver.clone(),
            access_modes: volume.access_modes.clone(),
            mounted_with_context: volume.mounted_with_context,
            users: own.into_iter().cloned().chain(is_shared.then_some(hidden)).collect(),
        };
        Some(Self { volume, shown, first, is_shared })
    }

    /// The conflicts that concern the reader; those with pods that are not shown are one for each of the reader's sides.
    fn conflicts(&self, page: &ClusterPage, scope: &Scope) -> Vec<Conflict> {
        let mut seen: Vec<Conflict> = Vec::new();
        let of_volume = page.conflicts.iter().filter(|conflict| conflict.volume == self.volume.id);
        for conflict in of_volume {
            let own = [&conflict.a, &conflict.b].map(|side| scope.has(&side.workload.namespace));
            let mut shown = Conflict { volume: self.shown.id.clone(), ..conflict.clone() };
            match own {
                [true, true] => {}
                [true, false] => shown.b = hidden_side(),
                [false, true] => shown.a = hidden_side(),
                [false, false] => continue,
            }
            if own != [true, true] {
                (shown.why, shown.pairs) = (WHY.to_owned(), 1);
            }
            match seen.iter_mut().find(|known| is_same(known, &shown)) {
                // Of several pods elsewhere the gravest counts.
                Some(known) => known.severity = known.severity.min(shown.severity),
                None => seen.push(shown),
            }
        }
        seen
    }

    /// What settles it, if that names no other namespace and says nothing of its labels.
    fn fix(&self, page: &ClusterPage, scope: &Scope) -> Option<Fix> {
        if self.is_shared {
            return None;
        }
        let fix = page.fixes.iter().find(|fix| fix.volume == self.volume.id)?;
        let is_own = |object: &ObjectRef| scope.has(&object.namespace);
        let options =
            fix.options.iter().filter(|option| option.patches.iter().all(|p| is_own(&p.target.object)));
        Some(Fix { volume: self.shown.id.clone(), options: options.cloned().collect() })
    }
}

fn is_same(a: &Conflict, b: &Conflict) -> bool {
    (a.property, &a.a, &a.b) == (b.property, &b.a, &b.b)
}

fn hidden() -> ObjectRef {
    ObjectRef { kind: "Pod".to_owned(), namespace: String::new(), name: HIDDEN.to_owned() }
}

fn hidden_side() -> ConflictSide {
    ConflictSide { workload: hidden(), value: HIDDEN.to_owned(), pod: None, pods: 0 }
}

#[cfg(test)]
mod tests {
    use check::{Apply, FixOption, How, Patch, Problem, Property, Target, When};
    use serde_json::json;

    use super::*;
    use crate::pages::{DriverReadiness, NodeCause, TrendPoint};

    /// In every text of another namespace, and in no other.
    const MARK: &str = "zebra";

    fn object(namespace: &str, name: &str) -> ObjectRef {
        ObjectRef { kind: "Deployment".into(), namespace: namespace.into(), name: name.into() }
    }

    fn side(namespace: &str, name: &str, value: &str) -> ConflictSide {
        ConflictSide {
            workload: object(namespace, name),
            value: value.into(),
            pod: Some(format!("{name}-1")),
            pods: 2,
        }
    }

    fn user(namespace: &str, name: &str, label: &str) -> User {
        User {
            workload: object(namespace, name),
            label: label.into(),
            policy: "MountOption".into(),
            nodes: vec![format!("node-of-{name}")],
            pods: 2,
        }
    }

    fn conflict(volume: &str, a: ConflictSide, b: ConflictSide) -> Conflict {
        Conflict {
            property: Property::SELinuxLabel,
            volume: volume.into(),
            why: format!("{} and {} may meet", a.workload, b.workload),
            a,
            b,
            severity: Severity::MayMeet,
            when: When::AfterUpgrade,
            pairs: 4,
        }
    }

    fn patch(object: ObjectRef) -> Patch {
        let command = Some(format!("kubectl patch {object}"));
        let target = Target { api_version: "apps/v1".into(), object };
        Patch { target, body: json!({}), fields: 1, gives_up: vec![], apply: Apply::Patch, command }
    }

    fn fix(volume: &str, what: &str, objects: Vec<ObjectRef>) -> Fix {
        let patches = objects.into_iter().map(patch).collect();
        let option =
            FixOption { how: How::EqualLabels, what: what.into(), fields: 1, gives_up: vec![], patches };
        Fix { volume: volume.into(), options: vec![option] }
    }

    fn workload(namespace: &str, name: &str) -> Workload {
        serde_json::from_value(json!({
            "kind": "Deployment", "namespace": namespace, "name": name, "source": null, "pods": 1, "replicas": null,
            "userNamespace": {"verdict": "blocked", "now": "host", "reasons": []},
            "selinux": {"labels": [], "changePolicy": null, "findings": [{
                "what": "WithoutLevel", "volume": format!("kubernetes.io/csi/d^{MARK}-{name}"), "field": "spec", "cause": "c",
                "hint": "h", "when": "already",
            }]},
            "podSecurity": {"now": "", "withUserNamespace": "", "violations": []}, "patch": null,
        }))
        .unwrap()
    }

    fn page() -> ClusterPage {
        let shared = format!("kubernetes.io/csi/nfs^{MARK}-data");
        let own = "kubernetes.io/csi/nfs^own";
        let other = format!("{MARK}-ns");
        let volumes = vec![
            Volume {
                id: shared.clone(),
                persistent_volume: Some(format!("pv-{MARK}")),
                claim: Some(format!("{other}/data")),
                driver: Some("nfs".into()),
                users: vec![
                    user("mine", "web", "l1"),
                    user(&other, &format!("{MARK}-a"), &format!("{MARK}_t")),
                    user(&other, &format!("{MARK}-b"), &format!("{MARK}_u")),
                ],
                ..Volume::default()
            },
            Volume {
                id: own.into(),
                claim: Some("mine/own".into()),
                users: vec![user("mine", "web", "l1"), user("mine", "db", "l2")],
                ..Volume::default()
            },
            Volume {
                id: format!("{MARK}-only"),
                users: vec![user(&other, &format!("{MARK}-c"), "l1")],
                ..Volume::default()
            },
        ];
        let theirs = |name: &str| side(&other, &format!("{MARK}-{name}"), &format!("{MARK}_t"));
        ClusterPage {
            nodes: NodeReadiness {
                able: 3,
                unable: 1,
                unknown: 0,
                causes: vec![NodeCause { node: format!("{MARK}-node"), cause: "old".into() }],
            },
            selinux: SelinuxReadiness {
                drivers: vec![DriverReadiness {
                    name: format!("{MARK}.example"),
                    ..DriverReadiness::default()
                }],
                ..SelinuxReadiness::default()
            },
            workloads: vec![workload("mine", "web"), workload(&other, &format!("{MARK}-a"))],
            conflicts: vec![
                conflict(&shared, side("mine", "web", "l1"), theirs("a")),
                conflict(&shared, theirs("b"), side("mine", "web", "l1")),
                conflict(&shared, theirs("a"), theirs("b")),
                conflict(own, side("mine", "db", "l2"), side("mine", "web", "l1")),
            ],
            fixes: vec![
                fix(&shared, &format!("give web the level of {MARK}-a"), vec![object("mine", "web")]),
                fix(own, "give both one level", vec![object("mine", "web"), object("mine", "db")]),
            ],
            volumes,
            trend: vec![TrendPoint { conflicts: 7, ..TrendPoint::default() }],
            problems: vec![Problem { cause: format!("{MARK} cannot be read"), ..Problem::default() }],
            notes: vec![format!("{MARK} is taken for granted")],
            ..ClusterPage::default()
        }
    }

    #[test]
    fn no_byte_of_another_namespace_is_in_what_a_reader_of_some_sees() {
        let whole = page();
        assert!(serde_json::to_string(&whole).unwrap().contains(MARK));
        assert!(crate::html::cluster::render(&whole).contains(MARK));
        let seen = whole.seen_from(Scope::Namespaces(["mine".to_owned()].into()));
        for text in [serde_json::to_string(&seen).unwrap(), crate::html::cluster::render(&seen)] {
            assert!(!text.to_lowercase().contains(MARK), "{text}");
        }
        for volume in &seen.volumes {
            let key = crate::html::key(&volume.id);
            let text = crate::html::cluster::document(&seen, "card", &format!("key={key}")).unwrap().body;
            assert!(text.contains("web") && !text.contains(MARK), "{text}");
        }
    }

    #[test]
    fn conflicts_with_other_namespaces_are_shown_as_such_and_own_ones_whole() {
        let seen = page().seen_from(Scope::Namespaces(["mine".to_owned()].into()));
        assert_eq!(seen.volumes.len(), 2);
        let [first, second, own] = seen.conflicts.as_slice() else { panic!("{:?}", seen.conflicts) };
        assert_eq!((first.b.clone(), second.a.clone()), (hidden_side(), hidden_side()));
        assert_eq!((first.why.as_str(), first.pairs), (WHY, 1));
        assert_eq!((own.a.workload.name.as_str(), own.b.workload.name.as_str()), ("db", "web"));
        assert_eq!(seen.fixes.len(), 1);
        assert!(seen.volumes.iter().any(|volume| volume.id == seen.fixes[0].volume));
        assert_eq!((seen.summary.workloads, seen.summary.blocked, seen.summary.conflicts), (1, 1, 3));
    }

    #[test]
    fn a_reader_of_the_cluster_sees_all_of_it_and_one_of_nothing_nothing() {
        let whole = page();
        assert_eq!(whole.seen_from(Scope::Cluster), whole);
        let nothing = whole.seen_from(Scope::Namespaces(BTreeSet::new()));
        assert!(nothing.volumes.is_empty() && nothing.conflicts.is_empty() && nothing.workloads.is_empty());
    }
}
