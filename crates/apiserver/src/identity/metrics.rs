//! Metrics of this node's certificates.

use k8s_openapi::jiff::Timestamp;
use telemetry::metrics::{Collector, Counter, Description, Error, Family, Kind, to_f64};

use super::store::Store;
use crate::client::ApiClient;

/// Reads when certificates end, and how often their renewal has failed.
pub(crate) struct CertificateMetrics {
    /// Presents the client certificate.
    pub(crate) client: ApiClient,
    pub(crate) client_errors: Counter,
    pub(crate) serving: ServingMetrics,
}

/// The serving certificate, if it is requested of the API server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServingMetrics {
    pub(super) store: Option<Store>,
    pub(super) errors: Counter,
}

impl Collector for CertificateMetrics {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let family = |name, help, kind| Family::new(Description::new(name, help), kind, &[]);
        Ok(vec![
            family(
                "kubelet_certificate_manager_client_ttl_seconds",
                "Seconds until the client certificate expires; +Inf if there is none",
                Kind::Gauge,
            )?,
            family(
                "kubelet_certificate_manager_server_ttl_seconds",
                "Seconds until the serving certificate expires; +Inf unless it is requested of the API server",
                Kind::Gauge,
            )?,
            family(
                "kubelet_certificate_manager_client_expiration_renew_errors",
                "Renewals of the client certificate that failed",
                Kind::Counter,
            )?,
            family(
                "kubelet_server_expiration_renew_errors",
                "Renewals of the serving certificate that failed",
                Kind::Counter,
            )?,
        ])
    }

    fn collect(&self, families: &mut [Family]) {
        let now = Timestamp::now();
        let serving = self.serving.store.as_ref().and_then(Store::current).map(|pair| pair.not_after);
        let values = [
            seconds_until(self.client.certificate_expires(), now),
            seconds_until(serving, now),
            self.client_errors.value(),
            self.serving.errors.value(),
        ];
        for (family, value) in families.iter_mut().zip(values) {
            family.sample(&[], value);
        }
    }
}

/// Whole seconds; negative once the end has passed.
fn seconds_until(end: Option<Timestamp>, now: Timestamp) -> f64 {
    let Some(end) = end else { return f64::INFINITY };
    let left = end.duration_since(now).as_secs();
    let size = to_f64(left.unsigned_abs());
    if left < 0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_has_expired_has_less_than_no_time_left() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = time("2026-01-01T00:00:00Z");
        let left = |end: &str| seconds_until(Some(time(end)), now);
        assert_eq!([left("2026-01-01T00:01:00.9Z"), left("2025-12-31T23:59:00Z")], [60.0, -60.0]);
        assert!(seconds_until(None, now).is_infinite());
    }
}
