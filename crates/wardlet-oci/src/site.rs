//! One call, and the configuration of the node on which it runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ids::BlockLength;
use node::{Config, WrapperSettings};
use oci_records::Records;

use crate::call::Call;
use crate::error::Result;
use crate::isolation::RuntimeTraits;
use crate::log::Log;
use crate::probe;

/// The environment variable with the path of another configuration file, for more than one wrapper on a host.
pub(crate) const CONFIG_VARIABLE: &str = "WARDLET_CONFIG";

/// One call, and the configuration of the node on which it runs.
pub(crate) struct Site<'a> {
    pub(crate) call: &'a Call,
    /// The name under which this program was called (`argv[0]`).
    pub(crate) called_as: &'a OsStr,
    pub(crate) config: Config,
    pub(crate) runtime: PathBuf,
    pub(crate) records: Records,
    pub(crate) log: Log<'a>,
}

impl<'a> Site<'a> {
    /// Reads the configuration and finds the runtime. Nothing is written.
    pub(crate) fn new(call: &'a Call, called_as: &'a OsStr) -> Result<Self> {
        let named = std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from);
        let config = node::load(named.as_deref(), Path::new(node::FILE))?;
        let search = std::env::var_os("PATH").unwrap_or_default();
        let runtime = node::find_runtime(&config.settings.wrapper, called_as, &search)?;
        let records = Records::new(&config.settings.wrapper.run_dir);
        Ok(Self { call, called_as, config, runtime, records, log: Log::new(&call.globals) })
    }

    pub(crate) fn settings(&self) -> &WrapperSettings {
        &self.config.settings.wrapper
    }

    /// The root directory of the runtime's state (`--root`); the runtime's name if the caller does not give one.
    pub(crate) fn root(&self) -> PathBuf {
        let own = || self.runtime.file_name().map(PathBuf::from).unwrap_or_default();
        self.call.globals.root.clone().unwrap_or_else(own)
    }

    /// The number of IDs of a pod that does not ask for a number.
    pub(crate) fn block_length(&self) -> BlockLength {
        let settings = &self.config.settings;
        if settings.wrapper.spans().is_some() {
            settings.wrapper.range_size
        } else {
            settings.user_namespaces.ids_per_pod
        }
    }

    /// The maximum number of IDs that a pod may ask for.
    pub(crate) fn longest_block(&self) -> BlockLength {
        self.config.settings.user_namespaces.max_ids_per_pod.unwrap_or_else(|| self.block_length())
    }

    pub(crate) fn traits(&self) -> Result<RuntimeTraits> {
        probe::traits(&self.runtime, &self.settings().run_dir)
    }
}
