//! gRPC probes: one request of the gRPC health checking protocol.

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

/// Checks that the service reports `SERVING`.
///
/// # Errors
/// If the server cannot be reached, or if it reports another status.
pub(super) async fn check(host: &str, port: u16, service: &str) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tonic::body::Body;
    use tonic::codegen::{Service, http};
    use tonic::server::{NamedService, UnaryService};
    use tonic::{Response, transport};

    use super::*;

    /// A health server that reports one service as serving, and no other.
    #[derive(Clone)]
    struct Health;

    impl NamedService for Health {
        const NAME: &'static str = "grpc.health.v1.Health";
    }

    impl UnaryService<HealthCheckRequest> for Health {
        type Response = HealthCheckResponse;
        type Future = Ready<Result<Response<HealthCheckResponse>, Status>>;

        fn call(&mut self, request: Request<HealthCheckRequest>) -> Self::Future {
            let status = if request.into_inner().service == "web" { SERVING } else { 2 };
            ready(Ok(Response::new(HealthCheckResponse { status })))
        }
    }

    impl Service<http::Request<Body>> for Health {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            Box::pin(async {
                let codec: ProstCodec<HealthCheckResponse, HealthCheckRequest> = ProstCodec::default();
                Ok(tonic::server::Grpc::new(codec).unary(Health, request).await)
            })
        }
    }

    #[tokio::test]
    async fn a_service_is_well_when_it_says_that_it_serves() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert!(check("127.0.0.1", address.port(), "web").await.is_err());
        tokio::spawn(transport::Server::builder().add_service(Health).serve(address));
        let mut well = check("127.0.0.1", address.port(), "web").await;
        while well.is_err() {
            tokio::task::yield_now().await;
            well = check("127.0.0.1", address.port(), "web").await;
        }
        let other = check("127.0.0.1", address.port(), "db").await.unwrap_err();
        assert!(other.ends_with("it does not serve (status 2)"), "{other}");
    }
}
