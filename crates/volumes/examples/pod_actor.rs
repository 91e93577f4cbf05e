//! Sets up a pod's volumes, and whatever else it is told, for tests that kill it: `pod_actor STATE SRV
//! WORD…`.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use ids::{ContainerId, IdBlock, UserNamespace};
use kernel::Live;
use plan::Owners;
use volumes::kinds::{EmptyDir, HostPath, HostPathType, Medium, Written, WrittenKind};
use volumes::payload::{Mode, Need, Object, Payload, PodFields, Secret, Source as From, Volume};
use volumes::sub_path::SubPath;
use volumes::{ContainerName, PodUid, PodVolumes, Source, VolumeName, Wanted, WantedMount, WantedVolume};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [state, srv, words @ ..] = &*words else { return Err("pod_actor STATE SRV WORD…".into()) };
    let volumes = PodVolumes::open(Path::new(state), Arc::new(Live::new()))?;
    for word in words {
        act(&volumes, Path::new(srv), word)?;
    }
    Ok(())
}

fn act(volumes: &PodVolumes, srv: &Path, word: &str) -> Outcome<()> {
    match word {
        "set-up" => drop(volumes.set_up(&pod(srv, "old")?)?),
        "update" => drop(volumes.update(&pod(srv, "new")?)?),
        "parts" => {
            for (volume, path) in [("scratch", "logs/today"), ("made", "below")] {
                volumes.host_mount(&pod(srv, "old")?, &part(volume, path)?)?;
            }
        }
        "tear-down" => drop(volumes.tear_down(&PodUid::new("pod")?)?),
        other => return Err(format!("{other}: set-up, update, parts or tear-down").into()),
    }
    Ok(())
}

fn pod(srv: &Path, text: &str) -> Outcome<Wanted> {
    let block = IdBlock::new(1_073_807_360, 65_536)?;
    let memory = EmptyDir { medium: Medium::Memory, ..EmptyDir::default() };
    let made = HostPath { path: srv.join("made/deep"), kind: HostPathType::DirectoryOrCreate };
    let volumes = [
        ("scratch", Owners::SharedBlocks, Source::EmptyDir(EmptyDir::default())),
        ("memory", Owners::Idmapped, Source::EmptyDir(memory)),
        ("secret", Owners::Idmapped, secret(text)?),
        ("made", Owners::Idmapped, Source::HostPath(made)),
    ];
    let named = |(name, owners, source)| Ok(WantedVolume { name: VolumeName::new(name)?, owners, source });
    Ok(Wanted {
        pod: PodUid::new("pod")?,
        users: UserNamespace::Leased { uids: block, gids: block },
        fs_group: Some(ContainerId::try_from(2000)?),
        volumes: volumes.into_iter().map(named).collect::<Outcome<_>>()?,
    })
}

fn secret(text: &str) -> Outcome<Source> {
    let data: BTreeMap<_, _> = ["a", "b"].map(|key| (key.to_owned(), text.as_bytes().to_vec())).into();
    let object = Object {
        name: "keys".to_owned(),
        found: Some(Secret { data, ..Secret::default() }),
        items: vec![],
        need: Need::Required,
    };
    let volume = Volume {
        name: "secret".to_owned(),
        default_mode: Mode::DEFAULT,
        sources: vec![From::Secret(object)],
    };
    let payload = Payload::of(&volume, &PodFields::default())?;
    Ok(Source::Written(Written { kind: WrittenKind::Secret, payload }))
}

fn part(volume: &str, path: &str) -> Outcome<WantedMount> {
    Ok(WantedMount {
        container: ContainerName::new("main")?,
        index: 0,
        volume: VolumeName::new(volume)?,
        path: "/data".into(),
        sub_path: SubPath::new(path)?,
        access: volumes::MountAccess::ReadWrite,
        propagation: plan::MountPropagation::None,
        relabel: volumes::Relabel::No,
    })
}
