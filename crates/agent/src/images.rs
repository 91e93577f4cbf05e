//! The images of a pod's containers and volumes.

use manifest::k8s_openapi::api::core::v1::{Container, SecurityContext};
use wire::cri::{Image, ImageSpec, PodSandboxConfig, PullImageRequest};

use crate::cri::Cri;
use crate::error::{Error, Result};
use crate::keyring::Keyring;
use crate::ward::Ward;

/// When an image is fetched.
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

pub(crate) fn spec(image: &str, handler: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
        user_specified_image: image.to_owned(),
        runtime_handler: handler.to_owned(),
        ..ImageSpec::default()
    }
}

/// The images of one pod.
pub(crate) struct Images<'a> {
    pub(crate) cri: &'a Cri,
    pub(crate) handler: &'a str,
    pub(crate) sandbox: PodSandboxConfig,
    /// Who may pull.
    pub(crate) keyring: Keyring,
    /// Is told when one is fetched.
    pub(crate) tell: &'a (dyn Fn(String) + Send + Sync),
}

impl Images<'_> {
    /// The image, fetched if its policy says so. One that is here and cannot be fetched anew is not good
    /// enough where the policy is Always.
    pub(crate) async fn get(&self, name: &str, policy: PullPolicy) -> Result<Image> {
        let asked = || spec(name, self.handler);
        let here = self.cri.image(asked()).await?;
        match (here, policy) {
            (Some(image), PullPolicy::IfNotPresent | PullPolicy::Never) => return Ok(image),
            (None, PullPolicy::Never) => return Err(Error::NeverPull { image: name.to_owned() }),
            _ => {}
        }
        (self.tell)(format!("pulling {name}"));
        let failed = |message| Error::Pull { image: name.to_owned(), message };
        let reference = self.pull(name).await.map_err(failed)?;
        let pulled = self.cri.image(ImageSpec { image: reference, ..asked() }).await?;
        pulled.ok_or_else(|| failed("it was pulled and is not there".to_owned()))
    }

    /// With one credential after the other, until one is let in; the answer to the last if none is.
    async fn pull(&self, name: &str) -> std::result::Result<String, String> {
        let mut last = Err("there is nobody to ask as".to_owned());
        for auth in self.keyring.for_image(name) {
            let sandbox_config = Some(self.sandbox.clone());
            let image = Some(spec(name, self.handler));
            last = self.cri.pull(PullImageRequest { image, auth, sandbox_config }).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }
}

/// Whether a container that must not run as root would.
pub(crate) fn check_user(ward: &Ward, container: &Container, image: &Image) -> Result<()> {
    let own: SecurityContext = container.security_context.clone().unwrap_or_default();
    let pod = ward.context();
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
    use wire::cri::Int64Value;

    use super::*;

    #[test]
    fn a_container_that_must_not_be_root_is_not() {
        let of = |spec: &str, uid: Option<i64>, name: &str| {
            let ward = Ward::for_test(spec);
            let uid = uid.map(|value| Int64Value { value });
            let image = Image { uid, username: name.to_owned(), ..Image::default() };
            check_user(&ward, &ward.spec.containers[0], &image).is_ok()
        };
        let pod = r#"{"containers":[{"name":"a"}],"securityContext":{"runAsNonRoot":true}}"#;
        let own = r#"{"containers":[{"name":"a","securityContext":{"runAsNonRoot":false}}],"securityContext":{"runAsNonRoot":true}}"#;
        let user = r#"{"containers":[{"name":"a","securityContext":{"runAsUser":0}}],"securityContext":{"runAsNonRoot":true}}"#;
        assert!(!of(pod, None, "") && !of(pod, Some(0), "") && !of(pod, None, "web"));
        assert!(of(pod, Some(5), "") && of(own, None, "") && !of(user, Some(5), ""));
    }
}
