//! The images of a pod's containers and volumes.

use std::time::Instant;

use cri::{Image, ImageSpec, PodSandboxConfig, PullImageRequest};
use manifest::k8s_openapi::api::core::v1::{Container, SecurityContext};
use types::reason;

use crate::cri::calls::Cri;
use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::pod::keyring::Keyring;
use crate::ports::EventType;
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
    /// Credentials for registries.
    pub(crate) keyring: Keyring,
    /// Records events of the pod.
    pub(crate) events: Recorder<'a>,
    /// The container that needs them.
    pub(crate) container: &'a str,
}

impl Images<'_> {
    /// Returns the image, pulled if the policy requires it.
    ///
    /// # Errors
    /// If the image is not present and must not be pulled, or if its pull failed. With the policy `Always` a
    /// failed pull is an error even if the image is present.
    pub(crate) async fn get(&self, name: &str, policy: PullPolicy) -> Result<Image> {
        let asked = || self.spec(name);
        let here = self.cri.image(asked()).await?;
        match (here, policy) {
            (Some(image), PullPolicy::IfNotPresent | PullPolicy::Never) => {
                let text = format!(
                    "Container image {name:?} already present on machine and can be accessed by the pod"
                );
                self.event(name, EventType::Normal, reason::PULLED, Text::new(text, ""));
                return Ok(image);
            }
            (None, PullPolicy::Never) => {
                let text = format!("Container image {name:?} is not present with pull policy of Never");
                self.event(name, EventType::Warning, reason::ERR_IMAGE_NEVER_PULL, Text::new(text, ""));
                return Err(Error::NeverPull { image: name.to_owned() });
            }
            _ => {}
        }
        let text = Text::new(format!("Pulling image {name:?}"), format!("pulling {name}"));
        self.event(name, EventType::Normal, reason::PULLING, text);
        let begun = Instant::now();
        let failed = |message| Error::Pull { image: name.to_owned(), message };
        let reference = match self.pull(name).await {
            Ok(reference) => reference,
            Err(message) => {
                let text = format!("Failed to pull image {name:?}: {message}");
                self.event(name, EventType::Warning, reason::FAILED, Text::new(text, ""));
                return Err(failed(message));
            }
        };
        let seconds = begun.elapsed().as_secs_f64();
        let pulled = self.cri.image(ImageSpec { image: reference, ..asked() }).await?;
        let pulled = pulled.ok_or_else(|| failed("the runtime pulled it and does not list it".to_owned()))?;
        let text = format!(
            "Successfully pulled image {name:?} in {seconds:.3}s ({seconds:.3}s including waiting). Image size: {} bytes.",
            pulled.size
        );
        let text = Text::new(text, format!("pulled {name} in {seconds:.1}s"));
        self.event(name, EventType::Normal, reason::PULLED, text);
        Ok(pulled)
    }

    fn event(&self, image: &str, kind: EventType, reason: &'static str, text: Text) {
        self.events.image(&ImageOf { container: self.container, image }, kind, reason, text);
    }

    /// The image with the pod's annotations, which a runtime may go by.
    fn spec(&self, name: &str) -> ImageSpec {
        ImageSpec { annotations: self.sandbox.annotations.clone(), ..spec(name, self.handler) }
    }

    /// Tries one credential after the other until a pull succeeds. Returns the last error if none does.
    async fn pull(&self, name: &str) -> std::result::Result<String, String> {
        let mut last = Err("there are no credentials to try".to_owned());
        for auth in self.keyring.for_image(name) {
            let sandbox_config = Some(self.sandbox.clone());
            let image = Some(self.spec(name));
            last = self.cri.pull(PullImageRequest { image, auth, sandbox_config }).await;
            if last.is_ok() {
                break;
            }
        }
        last
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
