use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use manifest::{Finding, MAX_BYTES, Object, Reading, Resource};
use plan::Gates;

use crate::failure::Failure;
use crate::words;

const STANDARD_INPUT: &str = "-";
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Everything that the named files hold. A directory stands for the manifests directly in it.
pub(crate) fn read(names: &[PathBuf]) -> Result<Reading, Failure> {
    let mut reading = Reading::default();
    for name in names {
        if name == Path::new(STANDARD_INPUT) {
            let bytes = limited(io::stdin().lock()).map_err(|e| unreadable("standard input", &e))?;
            reading.extend(manifest::read("standard input", &bytes));
            continue;
        }
        for file in files(name)? {
            let shown = file.display().to_string();
            let bytes = std::fs::File::open(&file).and_then(limited).map_err(|e| unreadable(&shown, &e))?;
            reading.extend(manifest::read(&shown, &bytes));
        }
    }
    Ok(reading)
}

/// One byte more than is allowed is enough to be told so.
fn limited(from: impl Read) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    from.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::unknown(format!("cannot read {name}: {error}"))
        .with_hint("name a manifest, a directory of manifests, or - for standard input")
}

fn files(name: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !name.is_dir() {
        return Ok(vec![name.to_owned()]);
    }
    let is_manifest = |path: &PathBuf| {
        let ending = path.extension().and_then(|e| e.to_str());
        ending.is_some_and(|e| ENDINGS.contains(&e)) && path.is_file()
    };
    let entries: io::Result<Vec<PathBuf>> =
        std::fs::read_dir(name).and_then(|dir| dir.map(|entry| entry.map(|e| e.path())).collect());
    let mut files = entries.map_err(|e| unreadable(&name.display().to_string(), &e))?;
    files.retain(is_manifest);
    files.sort();
    Ok(files)
}

/// What keeps the manifests as a whole from being understood: anything wrong with the text, and
/// objects beside the pods that the API does not allow. A pod that it does not allow is that pod's verdict.
pub(crate) fn doubts(reading: &Reading, gates: &Gates) -> Vec<Finding> {
    let beside = reading.objects.iter().filter(|object| !has_pods(object));
    reading.findings.iter().cloned().chain(beside.flat_map(|o| manifest::validate(o, gates))).collect()
}

/// Whether objects of its kind are pods or make pods.
pub(crate) fn has_pods(object: &Object) -> bool {
    !matches!(
        object.resource,
        Resource::ConfigMap(_)
            | Resource::Secret(_)
            | Resource::PersistentVolumeClaim(_)
            | Resource::PersistentVolume(_)
            | Resource::StorageClass(_)
            | Resource::CsiDriver(_)
            | Resource::Node(_)
            | Resource::RuntimeClass(_)
    )
}

/// Says what is wrong, each finding with its place and the way out.
pub(crate) fn say(findings: &[Finding]) {
    for finding in findings {
        let failure = Failure::unknown(finding.to_string());
        words::failure(&match finding.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        });
    }
}

/// Says which objects were not looked at, by kind: a dump of a cluster has thousands.
pub(crate) fn say_skipped(reading: &Reading) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for skipped in &reading.skipped {
        *kinds.entry(&skipped.kind).or_default() += 1;
    }
    if !kinds.is_empty() {
        let list: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        words::note(&format!("passed over, for no pod comes of it: {}", list.join(", ")));
    }
}
