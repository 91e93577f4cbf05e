//! The kubelet's own configuration: KubeletConfiguration (kubelet.config.k8s.io/v1beta1) of Kubernetes 1.37, its drop-ins,
//! and the kubelet's flags.
//!
//! - [`KubeletConfig::load`]: file, drop-ins and flags, as installers write them, to typed values.
//! - [`FIELDS`]: every field, with its default and what `wardlet agent` does with it; [`FLAGS`]: the same for flags;
//!   [`feature_gates`]: the gates.
//! - [`KubeletFlags`]: flags as they are parsed, one by one.
//! - [`reference_page`]: docs/reference/kubelet-configuration.md, from these tables.

mod classify;
mod config;
mod convert;
mod credential_providers;
mod defaults;
mod error;
mod field;
mod fields;
mod flag;
mod flags;
mod gate_names;
mod gates;
mod load;
mod node_flags;
mod origin;
mod page;
mod schema;
mod threshold;
mod tree;
mod validate;
mod validate_lists;
mod view;

pub use classify::Notice;
pub use config::{
    AnonymousAuthentication, Authentication, Authorization, AuthorizationMode, CgroupDriver,
    CrashLoopBackOff, CredentialsVerificationPolicy, KubeletConfig, ShutdownGracePeriod, Taint, TaintEffect,
    TlsVersion, UserNamespaces, WebhookAuthentication, WebhookAuthorization, X509Authentication,
};
pub use credential_providers::{CredentialProvidersError, TokenAttributes, read_credential_providers};
pub use error::{KubeletConfigError, Problem, ProblemKind};
pub use field::{Class, Field, Kind};
pub use fields::FIELDS;
pub use flag::{FLAGS, Flag, FlagTarget, NodeFlag};
pub use flags::KubeletFlags;
pub use gates::{FeatureGate, HONOURED_GATES, feature_gates, is_honoured_gate};
pub use load::LoadedKubeletConfig;
pub use node_flags::NodeFlags;
pub use origin::Origin;
pub use page::reference_page;
pub use threshold::{EvictionSignal, NotAThreshold, Threshold};
pub use types::{GoDuration, NotADuration};
