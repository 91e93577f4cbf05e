//! How many requests an API server was asked about pods and what pods need, by its own metrics.

/// The resources that a node asks for on account of pods. Its lease and its own Node it sends without pods, too.
const RESOURCES: [&str; 5] = ["pods", "configmaps", "secrets", "serviceaccounts", "events"];

/// All requests so far, those that failed included. A watch counts when it ends.
pub(super) fn about_pods(metrics: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let wanted =
        |line: &&str| RESOURCES.iter().any(|resource| line.contains(&format!(",resource=\"{resource}\"")));
    lines.filter(wanted).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_about_pods_are_summed_and_others_are_not() {
        let metrics = "# TYPE apiserver_request_total counter\n\
            apiserver_request_total{code=\"200\",resource=\"pods\",subresource=\"status\",verb=\"PATCH\"} 3\n\
            apiserver_request_total{code=\"201\",resource=\"serviceaccounts\",subresource=\"token\",verb=\"POST\"} 2\n\
            apiserver_request_total{code=\"200\",resource=\"leases\",subresource=\"\",verb=\"PUT\"} 50\n\
            apiserver_request_total{code=\"200\",resource=\"nodes\",subresource=\"status\",verb=\"PATCH\"} 70\n\
            apiserver_request_duration_seconds_count{resource=\"pods\"} 90\n";
        assert_eq!(about_pods(metrics), 5.0);
    }
}
