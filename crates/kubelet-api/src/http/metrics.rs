use std::time::Instant;

use telemetry::metrics::{Buckets, CounterVec, Description, Error, GaugeVec, HistogramVec, Registry};

use super::route::label;

const LABELS: [&str; 4] = ["method", "path", "server_type", "long_running"];

/// The port that a request came to: the `server_type` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// Port 10250.
    Secure,
    /// The read-only port.
    ReadOnly,
}

impl Port {
    fn label(self) -> &'static str {
        match self {
            Self::Secure => "readwrite",
            Self::ReadOnly => "readonly",
        }
    }
}

/// The metrics of requests, under the kubelet's names.
#[derive(Debug, Clone)]
pub(crate) struct RequestMetrics {
    requests: CounterVec<4>,
    in_flight: GaugeVec<4>,
    seconds: HistogramVec<4>,
    websockets: CounterVec<1>,
}

impl RequestMetrics {
    /// Registers them, and the name of the node, which dashboards join with.
    ///
    /// # Errors
    /// If the registry has one of the names already.
    pub(crate) fn register(registry: &Registry, node: &str) -> Result<Self, Error> {
        let name = Description::new("kubelet_node_name", "The node's name; the value is always 1");
        registry.gauge(name, ["node"])?.with([node]).set(1.0);
        Ok(Self {
            requests: registry.counter(
                Description::new("kubelet_http_requests_total", "Requests since the start"),
                LABELS,
            )?,
            in_flight: registry.gauge(
                Description::new("kubelet_http_inflight_requests", "Requests that are being answered"),
                LABELS,
            )?,
            seconds: registry.histogram(
                Description::new(
                    "kubelet_http_requests_duration_seconds",
                    "Duration until a request is answered",
                ),
                LABELS,
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
            websockets: registry.counter(
                Description::new(
                    "kubelet_websocket_streaming_requests_total",
                    "Sessions whose WebSocket is bridged to the runtime",
                ),
                ["subresource"],
            )?,
        })
    }

    /// Counts a session whose WebSocket is bridged.
    pub(super) fn websocket(&self, subresource: &str) {
        self.websockets.with([subresource]).increment();
    }

    /// Counts a request until the value is dropped.
    pub(super) fn begin(&self, port: Port, method: &str, path: &str) -> Counted {
        let method = match method {
            "GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "OPTIONS" | "TRACE" | "CONNECT" => method,
            _ => "other",
        };
        let path = label(path);
        let is_long = ["exec", "attach", "portForward"].contains(&path.as_ref());
        let labels = [method.to_owned(), path.into_owned(), port.label().to_owned(), is_long.to_string()];
        let counted = Counted { metrics: self.clone(), labels, begun: Instant::now() };
        self.requests.with(counted.labels()).increment();
        self.in_flight.with(counted.labels()).add(1.0);
        counted
    }
}

/// A request that is being answered.
pub(super) struct Counted {
    metrics: RequestMetrics,
    labels: [String; 4],
    begun: Instant,
}

impl Counted {
    fn labels(&self) -> [&str; 4] {
        self.labels.each_ref().map(String::as_str)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.in_flight.with(self.labels()).add(-1.0);
        self.metrics.seconds.with(self.labels()).observe_duration(self.begun.elapsed());
    }
}
