//! One question of gRPC's health protocol.

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

const CHECK: &str = "/grpc.health.v1.Health/Check";
const SERVING: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Well if the service says that it serves.
pub(super) async fn check(at: (&str, u16), service: &str) -> Result<(), String> {
    let (host, port) = at;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let place = format!("grpc://{host}:{port}");
    let failed = |words: String| format!("{place}: {words}");
    let endpoint =
        Endpoint::from_shared(format!("http://{host}:{port}")).map_err(|e| failed(e.to_string()))?;
    let channel = endpoint.connect().await.map_err(|e| failed(e.to_string()))?;
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|e| failed(e.to_string()))?;
    let request = Request::new(HealthCheckRequest { service: service.to_owned() });
    let codec: ProstCodec<HealthCheckRequest, HealthCheckResponse> = ProstCodec::default();
    let answer = client.unary(request, PathAndQuery::from_static(CHECK), codec).await;
    match answer.map_err(|status: Status| failed(status.message().to_owned()))?.into_inner().status {
        SERVING => Ok(()),
        other => Err(failed(format!("it does not serve (status {other})"))),
    }
}
