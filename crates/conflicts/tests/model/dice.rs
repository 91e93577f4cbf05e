//! Objects and histories by chance, from a seed.

use conflicts::*;
use selinux::SelinuxOptions;

/// SplitMix64.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    /// Once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            all.swap(end, self.below(end + 1));
        }
    }
}

const NAMESPACES: [&str; 2] = ["bank", "shop"];

fn text(of: &str) -> Option<String> {
    Some(of.to_owned())
}

fn options(dice: &mut Dice) -> Option<SelinuxOptions> {
    let level = dice.pick(&["s0:c1,c2", "s0:c2,c1", "s0:c3,c4", "s0", ""]);
    match dice.below(8) {
        0 | 1 => None,
        2 => Some(SelinuxOptions::default()),
        3 => Some(SelinuxOptions {
            kind: text(dice.pick(&["container_t", "spc_t", ""])),
            user: text(dice.pick(&["u", "v", ""])),
            level: text(level),
            role: None,
        }),
        _ => Some(SelinuxOptions { level: text(level), ..Default::default() }),
    }
}

fn mounts(dice: &mut Dice) -> Vec<Mount> {
    let count = dice.pick(&[0, 1, 1, 1, 1, 1, 2]);
    let same = options(dice);
    let mount = |dice: &mut Dice| Mount {
        options: if dice.one_in(4) { options(dice) } else { same.clone() },
        privileged: dice.one_in(5),
        sub_path: dice.one_in(3),
        read_only: dice.one_in(3),
    };
    (0..count).map(|_| mount(dice)).collect()
}

fn source(dice: &mut Dice) -> VolumeSource {
    match dice.below(8) {
        0 => VolumeSource::Iscsi,
        1 => VolumeSource::Other,
        2 => VolumeSource::Csi { driver: "other".to_owned() },
        _ => VolumeSource::Csi { driver: "csi".to_owned() },
    }
}

/// Plugins never share volumes: what a volume is says who provides it.
fn id(dice: &mut Dice, source: &VolumeSource) -> VolumeId {
    let handle = dice.pick(&["1", "1", "2"]);
    match source {
        VolumeSource::Csi { driver } => VolumeId::csi(driver, handle),
        VolumeSource::Iscsi | VolumeSource::FibreChannel => VolumeId::new("iscsi", handle),
        VolumeSource::Other => VolumeId::new("nfs", handle),
    }
}

fn pod_volume(dice: &mut Dice) -> PodVolume {
    let source = if dice.one_in(8) {
        let source = dice.pick(&[VolumeSource::Iscsi, VolumeSource::Other]);
        PodVolumeSource::Inline { id: id(dice, &source), source }
    } else if dice.one_in(8) {
        let driver = dice.pick(&["csi", "other"]).to_owned();
        let id = id(dice, &VolumeSource::Csi { driver: driver.clone() });
        let modes = [AccessMode::ReadWriteOnce, AccessMode::ReadOnlyMany, AccessMode::ReadWriteMany];
        PodVolumeSource::Migrated { id, driver, access_modes: vec![dice.pick(&modes)] }
    } else {
        PodVolumeSource::Claim(dice.pick(&["data", "data", "logs"]).to_owned())
    };
    PodVolume { name: dice.pick(&["a", "b"]).to_owned(), source, mounts: mounts(dice) }
}

fn operator(dice: &mut Dice, key: &str) -> Operator {
    match (key, dice.below(4)) {
        ("size", 0) => Operator::Greater(dice.pick(&[1, 2, 3])),
        ("size", 1) => Operator::Less(dice.pick(&[2, 3, 4])),
        ("size", _) | (_, 0) => dice.pick(&[Operator::Exists, Operator::DoesNotExist]),
        (_, 1) => Operator::NotIn([dice.pick(&["x", "y"]).to_owned()].into()),
        _ => Operator::In([dice.pick(&["x", "y"]).to_owned()].into()),
    }
}

fn node_term(dice: &mut Dice) -> NodeTerm {
    let requirement = |dice: &mut Dice| {
        let key = dice.pick(&["zone", "zone", "size"]);
        Requirement { key: key.to_owned(), operator: operator(dice, key) }
    };
    NodeTerm { labels: (0..dice.below(3)).map(|_| requirement(dice)).collect(), fields: vec![] }
}

fn anti_affinity(dice: &mut Dice) -> AntiAffinity {
    let web = || ["web".to_owned()].into();
    let operator = dice.pick(&[Operator::In(web()), Operator::NotIn(web()), Operator::Exists]);
    let selector = vec![Requirement { key: "app".to_owned(), operator }];
    AntiAffinity {
        topology_key: dice.pick(&["kubernetes.io/hostname", "zone", "size"]).to_owned(),
        selector: dice.pick(&[None, Some(vec![]), Some(selector.clone()), Some(selector)]),
        namespaces: dice.pick(&[
            Namespaces::Own,
            Namespaces::All,
            Namespaces::Listed(["bank".to_owned()].into()),
        ]),
    }
}

fn placement(dice: &mut Dice) -> Placement {
    let mut placement = Placement::default();
    if dice.one_in(2) {
        return placement;
    }
    placement.node = match dice.below(6) {
        0 => Node::Pinned("n1".to_owned()),
        1 | 2 => Node::Bound(dice.pick(&["n1", "n2"]).to_owned()),
        _ => Node::Unbound,
    };
    placement.scheduler = dice.pick(&[None, None, None, text("default-scheduler"), text("volcano")]);
    placement.owner_kind =
        dice.pick(&[None, None, text("ReplicaSet"), text("ReplicaSet"), text("DaemonSet"), text("Node")]);
    if dice.one_in(3) {
        placement.node_selector.insert("zone".to_owned(), dice.pick(&["x", "y"]).to_owned());
    }
    if dice.one_in(3) {
        placement.node_terms = Some((0..=dice.below(2)).map(|_| node_term(dice)).collect());
    }
    if dice.one_in(3) {
        placement.anti_affinity = (0..=dice.below(2)).map(|_| anti_affinity(dice)).collect();
    }
    if dice.one_in(2) {
        placement.labels.insert("app".to_owned(), dice.pick(&["web", "db"]).to_owned());
    }
    placement
}

fn pod_key(dice: &mut Dice) -> PodKey {
    PodKey::new(dice.pick(&NAMESPACES), dice.pick(&["p1", "p2", "p3"]))
}

fn uid(dice: &mut Dice) -> Option<String> {
    dice.pick(&[None, text("u1"), text("u1"), text("u2")])
}

pub fn pod(dice: &mut Dice) -> Pod {
    Pod {
        uid: uid(dice),
        life: if dice.one_in(8) { Life::Finished } else { Life::Alive },
        change_policy: dice.pick(&[
            None,
            None,
            Some(ChangePolicy::MountOption),
            Some(ChangePolicy::Recursive),
        ]),
        volumes: (0..dice.pick(&[0, 1, 1, 1, 2])).map(|_| pod_volume(dice)).collect(),
        placement: placement(dice),
        ..Pod::new(pod_key(dice))
    }
}

fn claim_key(dice: &mut Dice) -> ClaimKey {
    ClaimKey::new(dice.pick(&NAMESPACES), dice.pick(&["data", "data", "logs"]))
}

fn volume_name(dice: &mut Dice) -> String {
    dice.pick(&["pv1", "pv2", "pv3"]).to_owned()
}

fn claim(dice: &mut Dice) -> Claim {
    let volume = (!dice.one_in(6)).then(|| volume_name(dice));
    Claim { key: claim_key(dice), uid: uid(dice), volume }
}

fn volume(dice: &mut Dice) -> PersistentVolume {
    let source = source(dice);
    let modes = [AccessMode::ReadWriteMany, AccessMode::ReadWriteOnce, AccessMode::ReadWriteOncePod];
    let owner = dice.one_in(4).then(|| ClaimReference { key: claim_key(dice), uid: uid(dice) });
    PersistentVolume {
        name: volume_name(dice),
        id: id(dice, &source),
        access_modes: if dice.one_in(5) { vec![modes[0], modes[1]] } else { vec![dice.pick(&modes)] },
        source,
        claim: owner,
    }
}

fn driver(dice: &mut Dice) -> CsiDriver {
    CsiDriver { name: dice.pick(&["csi", "csi", "other"]).to_owned(), selinux_mount: !dice.one_in(4) }
}

/// Comings and changes, for the most part of pods.
pub fn coming(dice: &mut Dice) -> Change {
    match dice.below(10) {
        0 | 1 => Change::Claim(claim(dice)),
        2 | 3 => Change::Volume(volume(dice)),
        4 => Change::Driver(driver(dice)),
        _ => Change::Pod(pod(dice)),
    }
}

/// Anything that can happen.
pub fn change(dice: &mut Dice) -> Change {
    if !dice.one_in(5) {
        return coming(dice);
    }
    match dice.below(6) {
        0 => Change::ClaimGone(claim_key(dice)),
        1 => Change::VolumeGone(volume_name(dice)),
        2 => Change::DriverGone(driver(dice).name),
        _ => Change::PodGone(pod_key(dice), uid(dice)),
    }
}

pub fn rules(dice: &mut Dice) -> Rules {
    let gates = match dice.below(8) {
        0 => Gates { read_write_once_pod: false, change_policy: false, mount: false },
        1 => Gates { change_policy: false, ..Gates::default() },
        2 => Gates { mount: false, ..Gates::default() },
        _ => Gates::default(),
    };
    Rules { gates, ..Rules::default() }
}
