//! The images of a pod's containers and volumes.

use std::time::Instant;

use cri::{Image, ImageSpec, PodSandboxConfig, PullImageRequest};
use manifest::k8s_openapi::api::core::v1::{Container, SecurityContext};
use tracing::warn;
use types::{ImageName, NotAnImageName, reason};

use crate::cri::calls::{Cri, PullFailure};
use crate::error::{Error, Result};
use crate::images::ImagePulls;
use crate::images::access::{ImageAccess, Verdict};
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

    /// Pulls the image, and records that and with which credential. A pull that is cancelled leaves its intent on disk.
    async fn pull(&self, name: &ImageName, credentials: &[Credential]) -> Result<Image> {
        self.record("recording the intent of an image pull", name, |access, name| {
            access.intend(&name.to_string())
        })
        .await?;
        let text = name.to_string();
        let event = Text::new(format!("Pulling image {text:?}"), format!("pulling {text}"));
        self.event(name, EventType::Normal, reason::PULLING, event);
        let begun = Instant::now();
        let pulling = self.pulling.begin();
        let pulled = match self.pull_in_turn(name, credentials).await {
            Ok(pulled) => pulled,
            Err(failure) => {
                self.failed(name, &failure).await;
                return Err(Error::Pull { image: text, message: failure.message });
            }
        };
        drop(pulling);
        self.metrics.pulled(pulled.image.size, begun.elapsed());
        let (waited, seconds) = (begun.elapsed().as_secs_f64(), pulled.seconds);
        let (id, credential) = (pulled.image.id.clone(), pulled.credential);
        let recorded = self
            .record("recording an image pull", name, move |access, name| {
                access.pulled(name, &id, credential.as_ref())
            })
            .await;
        if let Err(error) = recorded {
            // The intent stays: all pods must prove that they may use the image.
            warn!("the pull of {text} is not recorded: {error}");
        }
        let event = format!(
            "Successfully pulled image {text:?} in {seconds:.3}s ({waited:.3}s including waiting). Image size: {} bytes.",
            pulled.image.size
        );
        let event = Text::new(event, format!("pulled {text} in {waited:.1}s"));
        self.event(name, EventType::Normal, reason::PULLED, event);
        Ok(pulled.image)
    }

    async fn failed(&self, name: &ImageName, failure: &PullFailure) {
        let text = format!("Failed to pull image {:?}: {}", name.to_string(), failure.message);
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
        // An image that the runtime may have counts as pulled until a pull of it is recorded.
        if failure.may_be_pulled {
            return;
        }
        let ended = self.record("removing the intent of an image pull", name, |access, name| {
            access.failed(&name.to_string())
        });
        if let Err(error) = ended.await {
            warn!("the intent of a pull of {name}, which failed, is left: {error}");
        }
    }

    /// Works on the records, if there are any.
    async fn record(
        &self,
        what: &'static str,
        name: &ImageName,
        work: impl FnOnce(&ImageAccess, &ImageName) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let Some(access) = self.pulls.access.clone() else { return Ok(()) };
        let name = name.clone();
        blocking(what, move || work(&access, &name)).await
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

    /// Pulls the image when its turn comes.
    async fn pull_in_turn(
        &self,
        name: &ImageName,
        credentials: &[Credential],
    ) -> std::result::Result<Pulled, PullFailure> {
        let _place = self.pulls.gate.place().await;
        let not_begun = |error: String| PullFailure { message: error, may_be_pulled: false };
        self.pulls.gate.begin().map_err(|error| not_begun(error.to_string()))?;
        let begun = Instant::now();
        let (reference, credential) = self.try_credentials(name, credentials).await?;
        let found = self.cri.image(ImageSpec { image: reference, ..self.spec(name) }).await;
        let pulled = |message| PullFailure { message, may_be_pulled: true };
        let image = found.map_err(|error| pulled(error.to_string()))?;
        let image = image.ok_or_else(|| pulled("the runtime pulled it and does not list it".to_owned()))?;
        Ok(Pulled { image, credential, seconds: begun.elapsed().as_secs_f64() })
    }

    /// Tries one credential after the other until a pull succeeds; without any, an anonymous pull.
    async fn try_credentials(
        &self,
        name: &ImageName,
        credentials: &[Credential],
    ) -> std::result::Result<(String, Option<Credential>), PullFailure> {
        let request = |auth| PullImageRequest {
            image: Some(self.spec(name)),
            auth,
            sandbox_config: Some(self.sandbox.clone()),
        };
        if credentials.is_empty() {
            return self.cri.pull(request(None)).await.map(|reference| (reference, None));
        }
        let mut errors: Vec<String> = Vec::new();
        let mut may_be_pulled = false;
        for credential in credentials {
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
    use cri::Int64Value;

    use super::*;

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
