use std::path::PathBuf;

/// An image's file tree, unpacked by the image store. It is always mounted read-only, and no program in it can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageTree {
    /// Its layers' directories, the topmost first. One layer is mounted as it is.
    pub layers: Vec<PathBuf>,
    /// The image's name, for runtimes that have image volumes of their own.
    pub reference: String,
}
