#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use conflicts::Rules;
use inventory::{Lens, ManifestChunk, Objects, Origin};
use manifest::{Listed, Position};
use plan::{Gates, KubernetesVersion};
use serde_json::{Value, json};

use super::*;

/// Numbers that are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A pod of one of three workloads.
fn pod(number: usize, dice: &mut Dice) -> Value {
    let owner = dice.pick(&["a", "b", "c"]);
    let mut pod = bare_pod(number, owner, dice);
    pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": "u", "controller": true}]);
    pod
}

fn bare_pod(number: usize, app: &str, dice: &mut Dice) -> Value {
    let context = match dice.below(4) {
        0 => json!({}),
        1 => json!({"seLinuxOptions": {"level": "s0:c1"}, "seLinuxChangePolicy": "Recursive"}),
        n => json!({"seLinuxOptions": {"level": format!("s0:c{n}")}}),
    };
    let mut spec = json!({
        "securityContext": context,
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": dice.pick(&["x", "y"])}}],
    });
    if dice.below(3) > 0 {
        spec["nodeName"] = json!(dice.pick(&["n1", "n2", "n3"]));
    }
    if dice.below(2) == 0 {
        spec["nodeSelector"] = json!({"zone": dice.pick(&["p", "q"])});
    }
    if dice.below(4) == 0 {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": dice.pick(&["a", "b"])}}});
        spec["affinity"] =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{number}"), "uid": format!("{number}"), "labels": {"app": app}},
        "spec": spec,
    })
}

fn objects(dice: &mut Dice) -> Objects {
    let count = 2 + dice.below(12);
    let pods = (0..count).map(|number| pod(number, dice)).collect();
    objects_with(pods, dice)
}

/// These pods, and the claims that they share.
fn objects_with(mut items: Vec<Value>, dice: &mut Dice) -> Objects {
    let lens = Lens { version: KubernetesVersion::NEWEST, gates: Gates::default() };
    let mut objects = Objects::new(lens);
    for claim in ["x", "y"] {
        let mode = dice.pick(&["ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]);
        items.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim, "uid": claim},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}}));
    }
    let text = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    objects.take(&ManifestChunk {
        file: "dump",
        origin: Origin::Named,
        bytes: text.as_bytes(),
        at: Position::START,
        prefix: String::new(),
        listed: Listed::default(),
    });
    assert_eq!(objects.all_problems(), []);
    objects
}

type Summed = BTreeMap<PairKey, (u64, Meeting, Reach)>;

/// The same by looking at every pair of pods.
fn naive(engine: &Engine, snapshot: &ClusterSnapshot) -> Summed {
    let mut all = Summed::new();
    for conflict in engine.conflicts() {
        let [a, b] = [conflict.a, conflict.b].map(|party| {
            let equivalent = &snapshot.equivalents[party.pod];
            ((equivalent.workload.clone(), party.value.to_string()), equivalent.count)
        });
        let (a, b) = if a.0 <= b.0 { (a, b) } else { (b, a) };
        let key = PairKey { volume: conflict.volume.clone(), property: conflict.property, a: a.0, b: b.0 };
        let sum = all.entry(key).or_insert((0, conflict.meeting(), conflict.reach()));
        *sum = (sum.0 + a.1 * b.1, sum.1.max(conflict.meeting()), sum.2.max(conflict.reach()));
    }
    all
}

#[test]
fn a_few_telling_pods_say_the_same_as_every_pair_of_pods() {
    let mut conflicts = 0;
    for seed in 0..400 {
        let mut objects = objects(&mut Dice(seed));
        let live = objects.take_live();
        let found = objects.workloads();
        let snapshot = ClusterSnapshot::of(&objects, live, &found);
        for mount in [true, false] {
            let gates = conflicts::Gates { mount, ..conflicts::Gates::default() };
            let engine = snapshot.engine(Rules { gates, ..Rules::default() });
            let told = pairs(&engine, &snapshot);
            let told: Summed = told
                .into_iter()
                .map(|(key, pair)| (key, (pair.pairs, pair.nearest.meeting, pair.nearest.reach)))
                .collect();
            assert_eq!(told, naive(&engine, &snapshot), "seed {seed}");
            conflicts += told.len();
        }
    }
    assert!(conflicts > 1_000, "{conflicts}");
}

/// The pairs of pods by volume and by what they ask for, of any workload, and the gravest among them.
type ByValues = BTreeMap<(VolumeId, Property, [String; 2]), (u64, Meeting)>;

fn by_values(pairs: impl Iterator<Item = (PairKey, u64, Meeting)>) -> ByValues {
    let mut all = ByValues::new();
    for (key, pairs, meeting) in pairs {
        let mut values = [key.a.1, key.b.1];
        values.sort();
        let sum = all.entry((key.volume, key.property, values)).or_insert((0, meeting));
        *sum = (sum.0 + pairs, sum.1.max(meeting));
    }
    all
}

#[test]
fn a_crowd_says_the_same_as_every_pair_of_its_pods() {
    let mut crowded = 0;
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let pods = (0..60).map(|number| bare_pod(number, ["a", "b"][number % 2], &mut dice)).collect();
        let mut objects = objects_with(pods, &mut dice);
        let live = objects.take_live();
        let found = objects.workloads();
        let snapshot = ClusterSnapshot::of(&objects, live, &found);
        let engine = snapshot.engine(Rules::default());
        let told = pairs(&engine, &snapshot);
        crowded += told.keys().filter(|key| key.a.0.is_crowd() && key.b.0.is_crowd()).count();
        let told = by_values(told.into_iter().map(|(key, pair)| (key, pair.pairs, pair.nearest.meeting)));
        let every = naive(&engine, &snapshot).into_iter();
        let every = by_values(every.map(|(key, (pairs, meeting, _))| (key, pairs, meeting)));
        assert_eq!(told, every, "seed {seed}");
    }
    assert!(crowded > 40, "{crowded}");
}

/// Every pod has a name and a label that no other has, as pods do whose controller is not in the input.
fn crowd_of(count: usize) -> (usize, usize) {
    let mut dice = Dice(7);
    let pods = (0..count).map(|number| {
        let mut pod = bare_pod(number, &format!("app-{number}"), &mut dice);
        pod["spec"]["securityContext"] = json!({"seLinuxOptions": {"level": format!("s0:c{}", number % 2)}});
        pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = json!("x");
        pod
    });
    let pods = pods.collect();
    let mut objects = objects_with(pods, &mut dice);
    let live = objects.take_live();
    let found = objects.workloads();
    let snapshot = ClusterSnapshot::of(&objects, live, &found);
    let engine = snapshot.engine(Rules::default());
    let volume = engine.contested().next().unwrap().0.clone();
    let groups = groups(&engine, &snapshot, &volume);
    let looked_at = groups.iter().map(|group| group.telling(&groups).equivalents.len()).sum();
    (pairs(&engine, &snapshot).len(), looked_at)
}

#[test]
fn conflicts_of_many_pods_of_nobodys_do_not_grow_with_their_pairs() {
    let (few, _) = crowd_of(4);
    assert_eq!(few, 4, "a few are named one by one");
    let [(two_hundred, _), (six_hundred, looked_at)] = [200, 600].map(crowd_of);
    assert_eq!((two_hundred, six_hundred), (1, 1));
    // Two sides, and for each as many kinds as are looked at and one for a node in common with each.
    assert!(looked_at <= 2 * (KINDS + 2), "{looked_at}");
}
