//! The images of a pod's containers and volumes.

use std::sync::Arc;
use std::time::Instant;

use cri::{Image, ImageSpec, PodSandboxConfig, PullImageRequest};
use manifest::k8s_openapi::api::core::v1::{Container, SecurityContext};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tracing::{Instrument, warn};
use types::{ImageName, NotAnImageName, reason};

use crate::cri::calls::{Cri, PullFailure};
use crate::error::{Error, Result};
use crate::images::ImagePulls;
use crate::images::access::{ImageAccess, PullEnd, Verdict};
use crate::images::credential::Credential;
use crate::images::providers::Asker;
use crate::metrics::images::ImageMetrics;
use crate::pod::context::PodContext;
use crate::pod::keyring::{self, Keyring};
use crate::pod::starting::PullTime;
use crate::ports::EventType;
use crate::shared::blocking;
use crate::status::events::{ImageOf, Recorder, Text};

/// When an image is pulled: imagePullPolicy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    pub(crate) fn of(name: Option<&str>) -> Self {
        match name {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}

/// An image as the pod names it, for the handler that unpacks it.
pub(crate) fn spec(image: &str, handler: &str) -> ImageSpec {
    ImageSpec { image: image.to_owned(), runtime_handler: handler.to_owned(), ..ImageSpec::default() }
}

/// The images of one pod.
pub(crate) struct Images<'a> {
    pub(crate) cri: &'a Cri,
    pub(crate) handler: &'a str,
    pub(crate) sandbox: PodSandboxConfig,
    /// The credentials in the pod's secrets.
    pub(crate) keyring: Keyring,
    /// The pod, for credential providers.
    pub(crate) asker: Asker,
    /// What the pulls of all pods share.
    pub(crate) pulls: &'a ImagePulls,
    pub(crate) metrics: &'a ImageMetrics,
    /// Measures how long the start of the pod waits for images.
    pub(crate) pulling: &'a PullTime,
    /// Records events of the pod.
    pub(crate) events: Recorder<'a>,
    /// The container that needs them.
    pub(crate) container: &'a str,
}

/// An image that was pulled.
struct Pulled {
    image: Image,
    /// `None` if it was pulled without.
    credential: Option<Credential>,
    /// How long the pull took, without waiting for others.
    seconds: f64,
}

impl Images<'_> {
    /// Returns the image, pulled if the policy requires it, or if the pod must prove that it may use it.
    ///
    /// # Errors
    /// If the image is not present and must not be pulled, or if its pull failed. With the policy `Always`, and for a pod
    /// that has not proven that it may use the image, a failed pull is an error even if the image is present.
    pub(crate) async fn get(&self, text: &str, policy: PullPolicy) -> Result<Image> {
        let name = ImageName::parse(text).map_err(|error| self.invalid_name(text, &error))?;
        let here = match policy {
            PullPolicy::Always => None,
            PullPolicy::IfNotPresent | PullPolicy::Never => self.here(&name).await?,
        };
        let mut credentials = None;
        if let Some(image) = here {
            let mut verdict = self.verdict(&name, &image, &[]).await?;
            // They are searched only if they matter.
            if verdict == Verdict::Pull {
                let of_pod = self.credentials(&name).await;
                verdict = self.verdict(&name, &image, &of_pod).await?;
                credentials = Some(of_pod);
            }
            if verdict == Verdict::Allowed {
                let text = format!(
                    "Container image {text:?} already present on machine and can be accessed by the pod"
                );
                self.event(&name, EventType::Normal, reason::PULLED, Text::new(text, ""));
                return Ok(image);
            }
        }
        if policy == PullPolicy::Never {
            // Also if the image is present: a pod that may not use it does not learn that it is.
            let text = format!("Container image {text:?} is not present with pull policy of Never");
            self.event(&name, EventType::Warning, reason::ERR_IMAGE_NEVER_PULL, Text::new(text, ""));
            return Err(Error::NeverPull { image: name.to_string() });
        }
        let credentials = match credentials {
            Some(credentials) => credentials,
            None => self.credentials(&name).await,
        };
        self.pull(&name, &credentials).await
    }

    fn invalid_name(&self, text: &str, error: &NotAnImageName) -> Error {
        let image = ImageOf { container: self.container, image: text };
        let event = Text::new(format!("Failed to apply default image tag {text:?}: {error}"), "");
        self.events.image(&image, EventType::Warning, reason::INSPECT_FAILED, event);
        Error::ImageName(error.clone())
    }

    /// The image, if the runtime has it.
    async fn here(&self, name: &ImageName) -> Result<Option<Image>> {
        self.cri.image(self.spec(name)).await.inspect_err(|error| {
            let event = Text::new(format!("Failed to inspect image {:?}: {error}", name.to_string()), "");
            self.event(name, EventType::Warning, reason::INSPECT_FAILED, event);
        })
    }

    async fn verdict(&self, name: &ImageName, image: &Image, credentials: &[Credential]) -> Result<Verdict> {
        let Some(access) = self.pulls.access.clone() else { return Ok(Verdict::Allowed) };
        let (name, image, credentials) = (name.clone(), image.clone(), credentials.to_vec());
        blocking("reading records of image pulls", move || Ok(access.verdict(&name, &image, &credentials)))
            .await
    }

    /// The credentials to try for this image: those of the pod's secrets, of the node, and of credential providers.
    async fn credentials(&self, name: &ImageName) -> Vec<Credential> {
        let mut all = self.keyring.for_image(name);
        all.extend(keyring::of_node(self.pulls.node.entries(), name));
        all.extend(self.pulls.providers.credentials(name, &self.asker, self.metrics).await);
        all
    }

    /// Pulls the image, and records that and with which credential.
    async fn pull(&self, name: &ImageName, credentials: &[Credential]) -> Result<Image> {
        let text = name.to_string();
        let event = Text::new(format!("Pulling image {text:?}"), format!("pulling {text}"));
        self.event(name, EventType::Normal, reason::PULLING, event);
        let begun = Instant::now();
        let pulling = self.pulling.begin();
        let pulled = match self.pull_in_turn(name, credentials).await? {
            Ok(pulled) => pulled,
            Err(message) => {
                self.failed(name, &message);
                return Err(Error::Pull { image: text, message });
            }
        };
        drop(pulling);
        self.metrics.pulled(pulled.image.size, begun.elapsed());
        let (waited, seconds) = (begun.elapsed().as_secs_f64(), pulled.seconds);
        let event = format!(
            "Successfully pulled image {text:?} in {seconds:.3}s ({waited:.3}s including waiting). Image size: {} bytes.",
            pulled.image.size
        );
        let event = Text::new(event, format!("pulled {text} in {waited:.1}s"));
        self.event(name, EventType::Normal, reason::PULLED, event);
        Ok(pulled.image)
    }

    fn failed(&self, name: &ImageName, message: &str) {
        let text = format!("Failed to pull image {:?}: {message}", name.to_string());
        self.event(name, EventType::Warning, reason::FAILED, Text::new(text, ""));
        if !self.keyring.missing().is_empty() {
            let secrets = self.keyring.missing().join(", ");
            let text = format!(
                "Unable to retrieve some image pull secrets ({secrets}); attempting to pull the image may not succeed."
            );
            self.events.pod(
                EventType::Warning,
                reason::FAILED_TO_RETRIEVE_IMAGE_PULL_SECRET,
                Text::new(text, ""),
            );
        }
    }

    fn event(&self, image: &ImageName, kind: EventType, reason: &'static str, text: Text) {
        let image = image.to_string();
        self.events.image(&ImageOf { container: self.container, image: &image }, kind, reason, text);
    }

    /// The image with the pod's annotations, which a runtime may go by.
    fn spec(&self, name: &ImageName) -> ImageSpec {
        ImageSpec {
            annotations: self.sandbox.annotations.clone(),
            ..spec(&name.with_default_tag(), self.handler)
        }
    }

    /// Pulls the image when its turn comes. When this is dropped, the next pull may begin, and that of this image is broken off.
    ///
    /// # Errors
    /// If the pull cannot be recorded. If it failed, the inner error says why.
    async fn pull_in_turn(
        &self,
        name: &ImageName,
        credentials: &[Credential],
    ) -> Result<std::result::Result<Pulled, String>> {
        let _place = self.pulls.gate.place().await;
        if let Err(error) = self.pulls.gate.begin() {
            return Ok(Err(error.to_string()));
        }
        self.pulls.settle_overdue(self.cri).await;
        let pull = Pull {
            cri: self.cri.clone(),
            access: self.pulls.access.clone(),
            name: name.clone(),
            image: self.spec(name),
            sandbox: self.sandbox.clone(),
            credentials: credentials.to_vec(),
        };
        pull.run().await
    }
}

/// The pull of an image, once it is its turn.
struct Pull {
    cri: Cri,
    access: Option<Arc<ImageAccess>>,
    name: ImageName,
    image: ImageSpec,
    sandbox: PodSandboxConfig,
    /// To be tried one after the other.
    credentials: Vec<Credential>,
}

impl Pull {
    /// Pulls the image in a task of its own, so that its end is recorded also when this is dropped, which breaks the pull off.
    async fn run(self) -> Result<std::result::Result<Pulled, String>> {
        let (dropped, is_dropped) = oneshot::channel::<()>();
        let done = tokio::spawn(self.recorded(is_dropped).in_current_span()).await;
        drop(dropped);
        done.unwrap_or(Err(Error::BrokeOff { what: "pulling an image" }))
    }

    /// Writes the intent, pulls the image until `is_dropped` is done, and records the end.
    async fn recorded(
        self,
        mut is_dropped: oneshot::Receiver<()>,
    ) -> Result<std::result::Result<Pulled, String>> {
        let present = match &self.access {
            // If the runtime does not say, the image counts as pulled.
            Some(_) => self.cri.image(self.image.clone()).await.ok().flatten().map(|image| image.id),
            None => None,
        };
        let broken_off = || "it was broken off".to_owned();
        if is_dropped.try_recv() == Err(TryRecvError::Closed) {
            return Ok(Err(broken_off()));
        }
        self.record("recording the intent of an image pull", move |access, name| {
            access.intend(&name.to_string(), present)
        })
        .await?;
        let pulled = tokio::select! {
            pulled = self.pulled() => pulled,
            _ = is_dropped => Err(PullFailure { message: broken_off(), may_be_pulled: true }),
        };
        let what = "recording an image pull";
        let recorded = match &pulled {
            Ok(Pulled { image, credential, .. }) => {
                let (image, credential) = (image.clone(), credential.clone());
                self.record(what, move |access, name| access.pulled(name, &image, credential.as_ref())).await
            }
            Err(failure) => {
                let end = if failure.may_be_pulled { PullEnd::Unknown } else { PullEnd::Failed };
                self.record(what, move |access, name| access.ended(&name.to_string(), end)).await
            }
        };
        if let Err(error) = recorded {
            // The intent stays: all pods must prove that they may use the image.
            warn!("the pull of {} is not recorded: {error}", self.name);
        }
        Ok(pulled.map_err(|failure| failure.message))
    }

    /// Works on the records, if there are any.
    async fn record(
        &self,
        what: &'static str,
        work: impl FnOnce(&ImageAccess, &ImageName) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let Some(access) = self.access.clone() else { return Ok(()) };
        let name = self.name.clone();
        blocking(what, move || work(&access, &name)).await
    }

    async fn pulled(&self) -> std::result::Result<Pulled, PullFailure> {
        let begun = Instant::now();
        let (reference, credential) = self.try_credentials().await?;
        let found = self.cri.image(ImageSpec { image: reference, ..self.image.clone() }).await;
        let pulled = |message| PullFailure { message, may_be_pulled: true };
        let image = found.map_err(|error| pulled(error.to_string()))?;
        let image = image.ok_or_else(|| pulled("the runtime pulled it and does not list it".to_owned()))?;
        Ok(Pulled { image, credential, seconds: begun.elapsed().as_secs_f64() })
    }

    /// Tries one credential after the other until a pull succeeds; without any, an anonymous pull.
    async fn try_credentials(&self) -> std::result::Result<(String, Option<Credential>), PullFailure> {
        let request = |auth| PullImageRequest {
            image: Some(self.image.clone()),
            auth,
            sandbox_config: Some(self.sandbox.clone()),
        };
        if self.credentials.is_empty() {
            return self.cri.pull(request(None)).await.map(|reference| (reference, None));
        }
        let mut errors: Vec<String> = Vec::new();
        let mut may_be_pulled = false;
        for credential in &self.credentials {
            match self.cri.pull(request(Some(credential.auth.clone()))).await {
                Ok(reference) => return Ok((reference, Some(credential.clone()))),
                Err(failure) => {
                    may_be_pulled |= failure.may_be_pulled;
                    // The same text says no more the second time.
                    if !errors.contains(&failure.message) {
                        errors.push(failure.message);
                    }
                }
            }
        }
        let message = match errors.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        Err(PullFailure { message, may_be_pulled })
    }
}

/// The user that an image names, with which its containers run unless the pod names one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageUser {
    /// The number, unless the image has a name.
    pub(crate) uid: Option<i64>,
    /// The name in the image's /etc/passwd; empty if the image has a number.
    pub(crate) name: String,
}

impl ImageUser {
    /// The user of this image: root if it names none.
    pub(crate) fn of(image: &Image) -> Self {
        match (image.uid.as_ref().map(|uid| uid.value), image.username.as_str()) {
            (None, "") => Self { uid: Some(0), name: String::new() },
            (Some(uid), _) => Self { uid: Some(uid), name: String::new() },
            (None, name) => Self { uid: None, name: name.to_owned() },
        }
    }
}

/// Checks runAsNonRoot.
///
/// # Errors
/// If the container must not run as root and its user is root, or is a name that may be root's.
pub(crate) fn check_user(context: &PodContext, container: &Container, image: &Image) -> Result<()> {
    let own: SecurityContext = container.security_context.clone().unwrap_or_default();
    let pod = context.security_context();
    if own.run_as_non_root.or(pod.run_as_non_root) != Some(true) {
        return Ok(());
    }
    let field = format!("container {:?}: securityContext.runAsNonRoot", container.name);
    let asked = own.run_as_user.or(pod.run_as_user);
    match (asked, image.uid.as_ref().map(|uid| uid.value), image.username.as_str()) {
        (Some(0), ..) => Err(Error::config(field, "runAsUser is 0")),
        (Some(_), ..) => Ok(()),
        (None, Some(0), _) | (None, None, "") => Err(Error::config(field, "the image runs as root")),
        (None, Some(_), _) => Ok(()),
        (None, None, name) => {
            Err(Error::config(field, format!("whether the image's user {name:?} is root cannot be known")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::Duration;

    use cri::image_service_server::{ImageService, ImageServiceServer};
    use cri::{
        ImageStatusRequest, ImageStatusResponse, Int64Value, PullImageResponse, Request, Response, Status,
    };

    use super::*;
    use crate::images::ImageOptions;
    use crate::images::access::ImageRecords;
    use crate::images::limits::PullLimits;
    use crate::images::verification::CredentialVerification;
    use crate::metrics::Metrics;
    use crate::ports::{Clock, SystemClock};
    use crate::status::events::EventLog;

    /// A runtime that has the image `quay.io/have:1`, and whose pulls from `silent.io` do not end.
    #[derive(Clone, Default)]
    struct Registry {
        /// Of each pull that has begun the image, and whether it was broken off.
        pulls: Arc<Mutex<BTreeMap<String, bool>>>,
    }

    /// Notes that a pull was broken off.
    struct Noted(Registry, String);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.pulls.lock().unwrap().insert(self.1.clone(), true);
        }
    }

    #[tonic::async_trait]
    impl ImageService for Registry {
        async fn image_status(
            &self,
            request: Request<ImageStatusRequest>,
        ) -> std::result::Result<Response<ImageStatusResponse>, Status> {
            let name = request.into_inner().image.unwrap_or_default().image;
            let have =
                Image { id: "sha256:1".into(), repo_tags: vec!["quay.io/have:1".into()], ..Image::default() };
            let image = (name == "quay.io/have:1").then_some(have);
            Ok(Response::new(ImageStatusResponse { image, ..ImageStatusResponse::default() }))
        }

        async fn pull_image(
            &self,
            request: Request<PullImageRequest>,
        ) -> std::result::Result<Response<PullImageResponse>, Status> {
            let name = request.into_inner().image.unwrap_or_default().image;
            self.pulls.lock().unwrap().insert(name.clone(), false);
            let _noted = Noted(self.clone(), name);
            std::future::pending().await
        }
    }

    impl Registry {
        async fn client(&self) -> Cri {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            drop(listener);
            let mut server = tonic::transport::Server::builder();
            tokio::spawn(server.add_service(ImageServiceServer::new(self.clone())).serve(address));
            let mut stream = tokio::net::TcpStream::connect(address).await;
            while stream.is_err() {
                tokio::task::yield_now().await;
                stream = tokio::net::TcpStream::connect(address).await;
            }
            let metrics = metrics().runtime;
            let client = cri::client::Client::over(stream.unwrap()).await.unwrap();
            let owned = crate::owned::Owned::new(crate::instance::InstanceId::for_test("instance-1"), None);
            Cri { client, owned, journal: None, metrics, timeout: Duration::from_secs(5) }
        }

        fn pulls(&self) -> Vec<(String, bool)> {
            self.pulls.lock().unwrap().clone().into_iter().collect()
        }
    }

    fn metrics() -> Metrics {
        Metrics::register(&telemetry::metrics::Registry::default()).unwrap()
    }

    async fn until(is_so: impl Fn() -> bool) {
        let so = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), so).await.expect("it did not come to be so");
    }

    /// A pod whose first container held the only turn for pulls, and whose second one waited for it with a preloaded image,
    /// made that image unusable for all pods when it was deleted.
    #[tokio::test]
    async fn a_pull_that_waits_or_is_broken_off_takes_no_image_from_other_pods() {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let records =
            ImageRecords { dir: dir.path().to_owned(), verification: CredentialVerification::default() };
        let limits = PullLimits { at_once: Some(1), ..PullLimits::default() };
        let options = || ImageOptions { limits, records: Some(records.clone()), ..ImageOptions::default() };
        let pulls = ImagePulls::open(options(), &clock).unwrap();
        let intents = || std::fs::read_dir(dir.path().join("pulling")).unwrap().count();
        let registry = Registry::default();
        let cri = registry.client().await;
        let context = PodContext::for_test(r#"{"containers":[{"name":"a"}]}"#);
        let (metrics, pulling) = (metrics().images, PullTime::default());
        let of = |pulls| Images {
            cri: &cri,
            handler: "",
            sandbox: PodSandboxConfig::default(),
            keyring: Keyring::default(),
            asker: Asker {
                pod: context.reference(),
                service_account: String::new(),
                objects: Arc::new(crate::Objects::default()),
            },
            pulls,
            metrics: &metrics,
            pulling: &pulling,
            events: Recorder { sink: &EventLog, clock: &SystemClock, context: &context },
            container: "a",
        };
        let (images, have, silent) = (of(&pulls), "quay.io/have:1", "silent.io/a:1");
        // The first holds the turn. The second waits, and nothing of it is recorded.
        {
            let first = images.get(silent, PullPolicy::Always);
            let second = async {
                until(|| registry.pulls() == [(silent.to_owned(), false)]).await;
                images.get(have, PullPolicy::Always).await
            };
            let both = async { tokio::join!(first, second) };
            let ended = tokio::time::timeout(Duration::from_secs(1), both).await;
            assert!(ended.is_err(), "a pull has ended");
            assert_eq!((registry.pulls().len(), intents()), (1, 1));
        }
        until(|| registry.pulls() == [(silent.to_owned(), true)]).await;
        assert_eq!(images.get(have, PullPolicy::Never).await.unwrap().id, "sha256:1");
        // A pull of the image that the node has is broken off.
        tokio::select! {
            pulled = images.get(have, PullPolicy::Always) => panic!("{pulled:?}"),
            () = until(|| registry.pulls().contains(&(have.to_owned(), false))) => {}
        }
        until(|| registry.pulls().contains(&(have.to_owned(), true))).await;
        let access = pulls.access.clone().unwrap();
        until(|| access.unsettled() == [have, silent]).await;
        assert_eq!(images.get(have, PullPolicy::Never).await.unwrap().id, "sha256:1");
        assert_eq!(intents(), 2);
        // The node is started again.
        drop((images, access));
        let pulls = ImagePulls::open(options(), &clock).unwrap();
        pulls.settle(&cri).await;
        assert_eq!(of(&pulls).get(have, PullPolicy::Never).await.unwrap().id, "sha256:1");
        assert_eq!(std::fs::read_dir(dir.path().join("pulled")).unwrap().count(), 0);
    }

    #[test]
    fn an_image_without_a_user_runs_as_root() {
        let of = |uid: Option<i64>, name: &str| {
            let uid = uid.map(|value| Int64Value { value });
            let user = ImageUser::of(&Image { uid, username: name.to_owned(), ..Image::default() });
            (user.uid, user.name)
        };
        assert_eq!(of(None, ""), (Some(0), String::new()));
        assert_eq!(of(Some(5), ""), (Some(5), String::new()));
        assert_eq!(of(None, "web"), (None, "web".to_owned()));
    }

    #[test]
    fn a_container_that_must_not_be_root_is_not() {
        let of = |spec: &str, uid: Option<i64>, name: &str| {
            let context = PodContext::for_test(spec);
            let uid = uid.map(|value| Int64Value { value });
            let image = Image { uid, username: name.to_owned(), ..Image::default() };
            check_user(&context, &context.spec.containers[0], &image).is_ok()
        };
        let pod = r#"{"containers":[{"name":"a"}],"securityContext":{"runAsNonRoot":true}}"#;
        let own = r#"{"containers":[{"name":"a","securityContext":{"runAsNonRoot":false}}],"securityContext":{"runAsNonRoot":true}}"#;
        let user = r#"{"containers":[{"name":"a","securityContext":{"runAsUser":0}}],"securityContext":{"runAsNonRoot":true}}"#;
        assert!(!of(pod, None, "") && !of(pod, Some(0), "") && !of(pod, None, "web"));
        assert!(of(pod, Some(5), "") && of(own, None, "") && !of(user, Some(5), ""));
    }
}
