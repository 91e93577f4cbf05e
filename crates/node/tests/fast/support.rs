//! Configurations in a directory of their own.

use std::fs;
use std::path::PathBuf;

use node::kubelet::{KubeletConfig, KubeletConfigError, KubeletFlags, LoadedKubeletConfig, Problem};

pub(crate) const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A configuration to be loaded.
pub(crate) struct Files {
    directory: tempfile::TempDir,
    main: Option<PathBuf>,
    drop_ins: Option<PathBuf>,
    pub(crate) flags: KubeletFlags,
}

impl Files {
    /// No file at all.
    pub(crate) fn none() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, main: None, drop_ins: None, flags: KubeletFlags::default() }
    }

    /// A main file with these fields.
    pub(crate) fn with(fields: &str) -> Self {
        Self::whole(&format!("{HEADER}{fields}"))
    }

    /// A main file with this text.
    pub(crate) fn whole(text: &str) -> Self {
        let mut files = Self::none();
        let path = files.directory.path().join("config.yaml");
        fs::write(&path, text).unwrap();
        files.main = Some(path);
        files
    }

    /// A drop-in more, at a path below the directory of drop-ins.
    pub(crate) fn drop_in(mut self, path: &str, text: &str) -> Self {
        let directory = self.directory.path().join("conf.d");
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.drop_ins = Some(directory);
        self
    }

    pub(crate) fn flag(mut self, name: &str, text: &str) -> Self {
        self.flags.set(name, text).unwrap();
        self
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub(crate) fn load(&self) -> Result<LoadedKubeletConfig, KubeletConfigError> {
        KubeletConfig::load(self.main.as_deref(), self.drop_ins.as_deref(), &self.flags)
    }

    pub(crate) fn config(&self) -> KubeletConfig {
        match self.load() {
            Ok(loaded) => loaded.config,
            Err(error) => panic!("{error}"),
        }
    }

    /// The problems, with the directory cut from the file names.
    pub(crate) fn problems(&self) -> Vec<(Problem, String)> {
        let error = self.load().err().unwrap_or_else(|| panic!("it was accepted"));
        let prefix = format!("{}/", self.directory.path().display());
        let shown = |problem: &Problem| (problem.clone(), problem.to_string().replace(&prefix, ""));
        let problems: Vec<_> = error.problems().iter().map(shown).collect();
        assert!(!problems.is_empty(), "{error}");
        problems
    }
}
