//! Metrics of the requests to the API server.

use std::time::Instant;

use hyper::{Method, StatusCode, Uri};
use telemetry::metrics::{Buckets, CounterVec, Description, Error, HistogramVec, Registry};

/// Histogram buckets in seconds.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// The `code` of a request without an answer.
const NO_ANSWER: &str = "<error>";

/// Whether a request has one answer, or one without an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Single,
    /// A watch: how long it takes says nothing.
    Watch,
}

/// Counts requests.
#[derive(Debug)]
pub(super) struct RequestMetrics {
    requests: CounterVec<3>,
    seconds: HistogramVec<2>,
    host: String,
}

impl RequestMetrics {
    /// Registers them, for the server of this URL.
    pub(super) fn register(registry: &Registry, server: &str) -> Result<Self, Error> {
        let host = server.parse::<Uri>().ok().and_then(|uri| Some(uri.authority()?.to_string()));
        Ok(Self {
            requests: registry.counter(
                Description::new("rest_client_requests_total", "Requests to the API server, by status code"),
                ["code", "method", "host"],
            )?,
            seconds: registry.histogram(
                Description::new(
                    "rest_client_request_duration_seconds",
                    "Duration until the API server begins to answer a request; watches are not counted",
                ),
                ["verb", "host"],
                Buckets::new(&SECONDS)?,
            )?,
            host: host.unwrap_or_default(),
        })
    }

    /// Counts a request when the value is dropped: without an answer, unless [`Request::answered`] is called.
    pub(super) fn begin(&self, method: &Method, extent: Extent) -> Request<'_> {
        Request { metrics: self, method: method.clone(), extent, begun: Instant::now(), code: None }
    }
}

/// A request that is under way.
pub(super) struct Request<'a> {
    metrics: &'a RequestMetrics,
    method: Method,
    extent: Extent,
    begun: Instant,
    code: Option<StatusCode>,
}

impl Request<'_> {
    pub(super) fn answered(mut self, code: StatusCode) {
        self.code = Some(code);
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let RequestMetrics { requests, seconds, host } = self.metrics;
        let (method, code) = (self.method.as_str(), self.code.as_ref().map_or(NO_ANSWER, StatusCode::as_str));
        requests.with([code, method, host]).increment();
        if self.extent == Extent::Single {
            seconds.with([method, host]).observe_duration(self.begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_also_one_that_is_given_up() {
        let registry = Registry::default();
        let metrics = RequestMetrics::register(&registry, "https://10.0.0.1:6443").unwrap();
        metrics.begin(&Method::GET, Extent::Single).answered(StatusCode::OK);
        metrics.begin(&Method::GET, Extent::Watch).answered(StatusCode::OK);
        drop(metrics.begin(&Method::PATCH, Extent::Single));
        let text = registry.text();
        for line in [
            "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"10.0.0.1:6443\"} 2\n",
            "rest_client_requests_total{code=\"<error>\",method=\"PATCH\",host=\"10.0.0.1:6443\"} 1\n",
            "rest_client_request_duration_seconds_count{verb=\"GET\",host=\"10.0.0.1:6443\"} 1\n",
            "rest_client_request_duration_seconds_count{verb=\"PATCH\",host=\"10.0.0.1:6443\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
