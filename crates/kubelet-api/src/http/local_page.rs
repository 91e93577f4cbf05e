//! The page of this node on a loopback address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::header::{HOST, IF_NONE_MATCH};
use hyper::{HeaderMap, Method, StatusCode};
use tokio::sync::Semaphore;
use tracing::error;

use super::answer::{Answer, no_path, only_get, text};
use super::document::{document, moved};
use super::handler::{Refused, UsageTurns, turn};
use super::plain::{Asked, Plain, serve_plain};
use super::route::Route;
use crate::page::Page;

/// Serves the page of this node without authentication. The address must be a loopback address.
pub(crate) async fn serve_local_page(address: SocketAddr, page: Arc<dyn Page>) {
    let turns = Semaphore::new(UsageTurns::EACH);
    serve_plain(address, Arc::new(LocalPage { page, turns })).await;
}

struct LocalPage {
    page: Arc<dyn Page>,
    /// How many requests may wait at once.
    turns: Semaphore,
}

impl LocalPage {
    async fn found(&self, path: String, asked: Asked) -> Result<Answer, Refused> {
        let _turn = turn(&self.turns)?;
        let page = Arc::clone(&self.page);
        let found = tokio::task::spawn_blocking(move || page.document(&path, &asked.query)).await;
        let found = found.map_err(|cause| {
            error!("a request for the page ended early: {cause}");
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
        })?;
        let known = asked.headers.get(IF_NONE_MATCH);
        Ok(found.map_or_else(no_path, |found| document(found, known)))
    }
}

impl Plain for LocalPage {
    const NAME: &'static str = "the page of this node";

    async fn answer(&self, asked: Asked) -> Answer {
        if !is_for_this_host(&asked.headers) {
            let words =
                "this page is served to this host alone: open it by a loopback address or as localhost\n";
            return text(StatusCode::MISDIRECTED_REQUEST, words);
        }
        if asked.method != Method::GET {
            return only_get();
        }
        let path = match Route::of(&asked.path, true) {
            Route::Page(rest) => match rest.strip_prefix('/') {
                Some(path) => path.to_owned(),
                None => return moved("wardlet/"),
            },
            _ if asked.path == "/" => return moved("wardlet/"),
            _ => return no_path(),
        };
        self.found(path, asked).await.unwrap_or_else(Refused::answer)
    }
}

/// Whether a browser knows this server by a name of this host. A page of another host whose name leads here (DNS rebinding)
/// could read the answers otherwise: for the browser both are one origin.
fn is_for_this_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let without_port = |host: &str| host.parse::<SocketAddr>().map(|address| address.ip()).ok();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match without_port(host).or_else(|| bare.parse::<IpAddr>().ok()) {
        Some(address) => address.is_loopback(),
        None => {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            name.eq_ignore_ascii_case("localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{ETAG, HeaderValue, LOCATION};

    use super::*;
    use crate::page::Document;

    struct Fixed;

    impl Page for Fixed {
        fn document(&self, path: &str, query: &str) -> Option<Document> {
            let body = format!("{path}?{query}");
            (path != "none").then_some(Document { kind: "text/html; charset=utf-8", body, policy: None })
        }
    }

    async fn answer(method: Method, path: &str, headers: HeaderMap) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let page = LocalPage { page: Arc::new(Fixed), turns: Semaphore::new(1) };
        page.answer(Asked { method, path: path.to_owned(), query: query.to_owned(), headers }).await
    }

    fn of_host(host: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))])
    }

    #[tokio::test]
    async fn only_the_page_is_served_and_a_page_that_is_known_is_not_sent_again() {
        for (path, status) in [
            ("/wardlet/", 200),
            ("/wardlet/data.json?a=b", 200),
            ("/wardlet/none", 404),
            ("/wardlet", 307),
            ("/", 307),
            ("/pods", 404),
            ("/healthz", 404),
        ] {
            let answer = answer(Method::GET, path, of_host("localhost:10280")).await;
            assert_eq!(answer.status().as_u16(), status, "{path}");
            if status == 307 {
                assert_eq!(answer.headers()[LOCATION], "wardlet/");
            }
        }
        let mut headers = of_host("127.0.0.1:10280");
        let first = answer(Method::GET, "/wardlet/", headers.clone()).await;
        headers.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        assert_eq!(answer(Method::GET, "/wardlet/", headers.clone()).await.status(), 304);
        assert_eq!(answer(Method::POST, "/wardlet/", headers).await.status(), 405);
    }

    #[tokio::test]
    async fn a_page_of_another_host_cannot_read_it_by_a_name_that_leads_here() {
        for host in ["localhost", "LOCALHOST:10280", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:10280"] {
            assert_eq!(answer(Method::GET, "/wardlet/", of_host(host)).await.status(), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:10280",
            "10.0.0.1:10280",
            "[fd00::1]",
            "localhost.evil.example",
            "",
        ] {
            assert_eq!(answer(Method::GET, "/wardlet/", of_host(host)).await.status(), 421, "{host}");
        }
        assert_eq!(answer(Method::GET, "/wardlet/", HeaderMap::new()).await.status(), 200);
    }
}
