//! The feature gates of this node: the configuration's, with those of the command line over them.

use plan::{GateError, GateRequests, GateSettings, Gates, KubernetesVersion, ResolvedGates};

use crate::Settings;

/// Feature gates that cannot be set so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.0, ToString::to_string))]
pub struct GatesError(pub Vec<GateError>);

impl GatesError {
    /// What to do about each of them.
    #[must_use]
    pub fn hint(&self) -> String {
        list(&self.0, GateError::hint)
    }
}

fn list(errors: &[GateError], of: fn(&GateError) -> String) -> String {
    errors.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// Gates as a command line has them.
#[derive(Debug, Clone, Copy, Default)]
pub struct GateFlags<'a> {
    /// Another version than the configured one. Its gates are at their defaults, unless `requests` names them.
    pub version: Option<KubernetesVersion>,
    /// `A=true,B=false`.
    pub requests: &'a [String],
}

impl Settings {
    /// The gates of this node.
    ///
    /// # Errors
    /// If a name is no feature gate, or if the version does not let a gate be set so.
    pub fn gates(&self, flags: GateFlags<'_>) -> Result<ResolvedGates, GatesError> {
        let version = flags.version.unwrap_or(self.kubernetes_version);
        let mut requests = GateRequests::default();
        if version == self.kubernetes_version {
            let set = self.feature_gates.iter().filter_map(|(name, on)| requests.set(name, *on).err());
            let errors: Vec<GateError> = set.collect();
            if !errors.is_empty() {
                return Err(GatesError(errors));
            }
        }
        let asked = GateRequests::parse(&flags.requests.join(",")).map_err(GatesError)?;
        let requests = requests.overridden_by(asked);
        let disabled = self.policy.disabled_features.clone();
        Gates::resolve(&GateSettings { version, requests, disabled }).map_err(GatesError)
    }
}

#[cfg(test)]
mod tests {
    use plan::Gate;

    use super::*;

    fn on(settings: &Settings, version: Option<&str>, flags: &str) -> Result<Vec<Gate>, GatesError> {
        let version = version.map(|version| version.parse().unwrap());
        let flags = GateFlags { version, requests: &[flags.to_owned()] };
        let gates = settings.gates(flags)?.gates;
        Ok(Gate::ALL.into_iter().filter(|gate| gates.on(*gate)).collect())
    }

    #[test]
    fn flags_win_over_the_configuration_and_its_switch_over_both() {
        let mut settings = Settings { kubernetes_version: "1.35".parse().unwrap(), ..Settings::default() };
        settings.feature_gates.insert("UserNamespacesSupport".to_owned(), false);
        let selinux = [Gate::SelinuxMountReadWriteOncePod, Gate::SelinuxChangePolicy];
        assert_eq!(on(&settings, None, "").unwrap(), selinux);
        assert!(
            on(&settings, None, "UserNamespacesSupport=true").unwrap().contains(&Gate::UserNamespacesSupport)
        );
        assert!(on(&settings, Some("1.34"), "").unwrap().contains(&Gate::UserNamespacesSupport));
        settings.policy.disabled_features.push(Gate::UserNamespacesSupport);
        assert_eq!(on(&settings, None, "").unwrap(), selinux);
        let refused = on(&settings, None, "UserNamespacesSupport=true").unwrap_err();
        assert_eq!(refused.0, [GateError::Disabled(Gate::UserNamespacesSupport)]);
    }
}
