//! The user and the group that files which the node writes for a pod belong to.

use ids::ContainerId;

use crate::pod::context::PodContext;

/// The pod's fsGroup.
pub(crate) fn fs_group(context: &PodContext) -> Option<ContainerId> {
    context.security_context().fs_group.and_then(id)
}

/// The user that all containers run as by the pod's definition: a token belongs to it. `None` if a container leaves the user
/// to its image, or if two differ.
pub(crate) fn common_user(context: &PodContext) -> Option<ContainerId> {
    let of_pod = context.security_context().run_as_user;
    let mut users = context.containers().map(|container| {
        let own = container.security_context.as_ref().and_then(|security| security.run_as_user);
        own.or(of_pod)
    });
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first).and_then(id)
}

fn id(number: i64) -> Option<ContainerId> {
    u64::try_from(number).ok().and_then(|number| ContainerId::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_a_common_user_if_every_container_names_the_same() {
        let user = |pod: &str, init: &str, container: &str| {
            let text = format!(
                r#"{{"securityContext":{{{pod}}},"initContainers":[{{"name":"i","securityContext":{{{init}}}}}],
                "containers":[{{"name":"a","securityContext":{{{container}}}}},{{"name":"b","securityContext":{{{container}}}}}]}}"#
            );
            common_user(&PodContext::for_test(&text)).map(ContainerId::get)
        };
        let (one, two) = (r#""runAsUser":1000"#, r#""runAsUser":2000"#);
        assert_eq!(user("", "", ""), None);
        assert_eq!(user(one, "", ""), Some(1000));
        assert_eq!(user("", one, one), Some(1000));
        assert_eq!(user(two, one, one), Some(1000));
        assert_eq!(user("", "", one), None, "the init container's image names its user");
        assert_eq!(user(two, "", one), None);
        assert_eq!(user(r#""runAsUser":0"#, "", ""), Some(0));
    }
}
