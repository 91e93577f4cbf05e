//! One call, and the node it is made on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ids::BlockLength;
use settings::{Config, WrapperSettings};

use crate::call::{Call, Runtime, find};
use crate::error::Result;
use crate::lease::Records;
use crate::log::Log;
use crate::probe;
use crate::ward::RuntimeTraits;

/// Names another configuration file, for more than one wrapper on a host.
pub(crate) const CONFIG_VARIABLE: &str = "WARDLET_CONFIG";

/// One call, and the node it is made on.
pub(crate) struct Site<'a> {
    pub(crate) call: &'a Call,
    /// What this program was called.
    pub(crate) called_as: &'a OsStr,
    pub(crate) config: Config,
    pub(crate) runtime: Runtime,
    pub(crate) records: Records,
    pub(crate) log: Log<'a>,
}

impl<'a> Site<'a> {
    /// Reads the configuration; nothing else is touched.
    pub(crate) fn new(call: &'a Call, called_as: &'a OsStr) -> Result<Self> {
        let named = std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from);
        let config = settings::load(named.as_deref(), Path::new(settings::FILE))?;
        let search = std::env::var_os("PATH").unwrap_or_default();
        let runtime = find(&config.settings.wrapper, called_as, &search)?;
        let records = Records::new(&config.settings.wrapper.run_dir);
        Ok(Self { call, called_as, config, runtime, records, log: Log::new(&call.globals) })
    }

    pub(crate) fn settings(&self) -> &WrapperSettings {
        &self.config.settings.wrapper
    }

    /// Where the runtime keeps its containers; its own name where the caller left that to it.
    pub(crate) fn root(&self) -> PathBuf {
        let own = || self.runtime.path.file_name().map(PathBuf::from).unwrap_or_default();
        self.call.globals.root.clone().unwrap_or_else(own)
    }

    /// How many IDs a pod has that does not say how many.
    pub(crate) fn block_length(&self) -> BlockLength {
        let settings = &self.config.settings;
        if settings.wrapper.spans().is_some() {
            settings.wrapper.range_size
        } else {
            settings.user_namespaces.ids_per_pod
        }
    }

    /// How many IDs a pod may ask for.
    pub(crate) fn longest_block(&self) -> BlockLength {
        self.config.settings.user_namespaces.max_ids_per_pod.unwrap_or_else(|| self.block_length())
    }

    pub(crate) fn traits(&self) -> Result<RuntimeTraits> {
        probe::traits(&self.runtime.path, &self.settings().run_dir)
    }
}
