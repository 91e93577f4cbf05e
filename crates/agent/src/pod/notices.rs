//! What the log says of a pod's volumes: what is about to take long, and what was found.

use plan::Owners;
use tracing::{Span, info, warn};
use volumes::{About, Notice, Source, Wanted};

/// Says which trees are now given to the pod file by file, before that begins.
pub(crate) fn announce(wanted: &Wanted, span: &Span) {
    for volume in wanted.volumes.iter().filter(|volume| volume.owners == Owners::ChownedOnce) {
        let Source::HostPath(host) = &volume.source else { continue };
        let (volume, path) = (&volume.name, host.path.display());
        info!(parent: span, %volume, "volume {volume}: walking {path} to give each file to the pod's host IDs (chownOnce)");
    }
}

/// Logs notices; owners that the pod's map leaves out are a warning.
pub(crate) fn log(notices: &[Notice], span: &Span) {
    for Notice { volume, about, text } in notices {
        match about {
            About::Owners => warn!(parent: span, %volume, "volume {volume}: {text}"),
            About::Difference | About::Cost => info!(parent: span, %volume, "volume {volume}: {text}"),
        }
    }
}
