//! One kind, page by page.

use kube::Client;
use kube::api::ListParams;
use kube::core::request::Request;
use serde::Deserialize;

use super::{Kind, Pages};

/// As many objects as kubectl asks for at once: the server's and our memory stay bounded.
const PAGE: u32 = 500;
/// How often the server may forget the state of one list.
const LAPSES: u32 = 100;

/// One kind of a cluster, or of a namespace of it.
pub(super) struct List<'a> {
    pub(super) client: &'a Client,
    pub(super) kind: &'a Kind,
    pub(super) namespace: Option<&'a str>,
}

/// What a list says of its pages; its items are left to the reader.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

impl List<'_> {
    /// Reads all pages. Those read before an error have been handed on.
    ///
    /// A server that no longer has the state that the first page came from says 410, with a token to go on
    /// from the same place in its newest state. So no object comes twice; one that was made meanwhile at a
    /// place already passed is missed, as it would be had it been made a moment later.
    pub(super) async fn read(&self, sink: &mut Pages<'_>) -> Result<(), kube::Error> {
        let mut next = None;
        let mut lapses = 0;
        loop {
            let text = match self.page(next.take()).await {
                Err(kube::Error::Api(status)) if status.code == 410 && lapses < LAPSES => {
                    lapses += 1;
                    let token = status.metadata.as_ref().and_then(|meta| meta.continue_.clone());
                    next = Some(token.filter(|token| !token.is_empty()).ok_or(kube::Error::Api(status))?);
                    continue;
                }
                answer => answer?,
            };
            sink(self.kind.name, text.as_bytes());
            next = following(&text)?;
            if next.is_none() {
                return Ok(());
            }
        }
    }

    async fn page(&self, continue_token: Option<String>) -> Result<String, kube::Error> {
        let params = ListParams { limit: Some(PAGE), continue_token, ..ListParams::default() };
        let request = Request::new(self.kind.path(self.namespace)).list(&params);
        self.client.request_text(request.map_err(kube::Error::BuildRequest)?).await
    }
}

/// The way to the page after this one.
fn following(text: &str) -> Result<Option<String>, kube::Error> {
    let page: Page = serde_json::from_str(text).map_err(kube::Error::SerdeError)?;
    Ok(page.metadata.next.filter(|token| !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_continue_is_the_end() {
        let next = |text| following(text).unwrap();
        assert_eq!(next(r#"{"metadata":{"continue":"abc"},"items":[]}"#), Some("abc".to_owned()));
        assert_eq!(next(r#"{"metadata":{"continue":""},"items":[]}"#), None);
        assert_eq!(next(r#"{"items":[]}"#), None);
    }
}
