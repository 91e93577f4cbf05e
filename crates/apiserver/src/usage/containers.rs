//! `/metrics/cadvisor`: what the runtime counts for pods and containers under cAdvisor's names, and the machine.

use std::time::Duration;

use cri::client::Client;
use cri::{
    CallError, Code, ListMetricDescriptorsRequest, ListPodSandboxMetricsRequest, PodSandboxMetrics,
    StreamPodSandboxMetricsRequest, within,
};
use telemetry::metrics::{Description, Exposition, Kind, to_f64};
use tokio::sync::mpsc;
use tracing::warn;

use super::families::{Families, Problems};
use crate::node::MachineFacts;
use crate::warned::WarnOnce;

/// How long the runtime may take.
const DEADLINE: Duration = Duration::from_secs(20);
/// As many messages of a stream wait until their metrics are written.
const WAITING: usize = 2;
const STREAM: &str = "StreamPodSandboxMetrics";

/// The metrics of the machine, and those of pods and containers as far as the runtime tells them: like a kubelet's, the answer
/// does not fail with the runtime. That it has is a metric of its own.
///
/// # Errors
/// If the thread that writes them ends early.
pub(super) async fn metrics(
    client: &Client,
    machine: &MachineFacts,
    warned: &WarnOnce,
) -> Result<String, String> {
    let (families, failure) = read(client).await?;
    match &failure {
        Some(error) if is_unimplemented(error) => warned.warn(format!(
            "/metrics/cadvisor has the metrics of the machine alone: {error}; use a version of the runtime that has metrics of pods"
        )),
        Some(error) => warn!("/metrics/cadvisor lacks metrics of containers: {error}"),
        None => {}
    }
    let machine = machine.clone();
    let written = tokio::task::spawn_blocking(move || {
        let mut out = Exposition::default();
        write_own(&mut out, &machine, failure.is_some());
        let problems = families.map(|families| families.write(&mut out));
        (out.text(), problems)
    });
    let (text, problems) = written.await.map_err(|error| error.to_string())?;
    for problem in problems.into_iter().flat_map(Problems::into_texts) {
        warned.warn(format!("metrics of the runtime are not served at /metrics/cadvisor: {problem}"));
    }
    Ok(text)
}

fn write_own(out: &mut Exposition, machine: &MachineFacts, has_failed: bool) {
    let MachineFacts { boot_id, machine_id, system_uuid, cpus, memory, .. } = machine;
    let labels = [("boot_id", &**boot_id), ("machine_id", &**machine_id), ("system_uuid", &**system_uuid)];
    out.family(Description::new("machine_cpu_cores", "Processors of the machine"), Kind::Gauge);
    out.sample(&labels, f64::from(*cpus), None);
    out.family(Description::new("machine_memory_bytes", "Memory of the machine"), Kind::Gauge);
    out.sample(&labels, to_f64(*memory), None);
    let help = "1 if metrics of containers are missing because the runtime did not tell them, otherwise 0";
    out.family(Description::new("container_scrape_error", help), Kind::Gauge);
    out.sample(&[], f64::from(u8::from(has_failed)), None);
}

/// What came, and why not all of it did.
async fn read(client: &Client) -> Result<(Option<Families>, Option<CallError>), String> {
    let mut runtime = client.runtime();
    let known = runtime.list_metric_descriptors(ListMetricDescriptorsRequest {});
    let known = match within(DEADLINE, "ListMetricDescriptors", known).await {
        Ok(known) => known.descriptors,
        Err(error) => return Ok((None, Some(error))),
    };
    let (sender, mut messages) = mpsc::channel::<Vec<PodSandboxMetrics>>(WAITING);
    // Ends with the sender: also if the client has gone.
    let converted = tokio::task::spawn_blocking(move || {
        let mut families = Families::of(known);
        while let Some(pods) = messages.blocking_recv() {
            families.add(&pods);
        }
        families
    });
    let sent = match tokio::time::timeout(DEADLINE, send(client, &sender)).await {
        Ok(sent) => sent,
        Err(_) => Err(CallError::DeadlineExceeded { call: STREAM, seconds: DEADLINE.as_secs() }),
    };
    drop(sender);
    let families = converted.await.map_err(|error| error.to_string())?;
    Ok((Some(families), sent.err()))
}

/// Sends on what the runtime has of all pods: message by message, or all at once if it has no stream. One message has at most
/// [`cri::LONGEST_MESSAGE`] bytes.
async fn send(client: &Client, to: &mpsc::Sender<Vec<PodSandboxMetrics>>) -> Result<(), CallError> {
    let mut has_some = false;
    let streamed: Result<(), cri::Status> = async {
        let mut stream = client
            .runtime()
            .stream_pod_sandbox_metrics(StreamPodSandboxMetricsRequest {})
            .await?
            .into_inner();
        while let Some(message) = stream.message().await? {
            has_some = true;
            if to.send(message.pod_sandbox_metrics).await.is_err() {
                break;
            }
        }
        Ok(())
    }
    .await;
    match streamed.map_err(|status| CallError::refused(STREAM, &status)) {
        Err(error) if is_unimplemented(&error) && !has_some => {}
        streamed => return streamed,
    }
    let all = client.runtime().list_pod_sandbox_metrics(ListPodSandboxMetricsRequest {}).await;
    let all = all.map_err(|status| CallError::refused("ListPodSandboxMetrics", &status))?;
    // Fails only if the thread that receives has ended, which its own result tells.
    let _ = to.send(all.into_inner().pod_metrics).await;
    Ok(())
}

fn is_unimplemented(error: &CallError) -> bool {
    matches!(error, CallError::Refused { code: Code::Unimplemented, .. })
}
