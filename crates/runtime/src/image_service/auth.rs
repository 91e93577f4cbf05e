use cri::AuthConfig;
use cri::Status;
use images::Credentials;
use types::{DockerAuth, registry_of};

/// The credentials for `registry`; none if they are for another one, which this one must not see.
pub(super) fn credentials(auth: AuthConfig, registry: &str) -> Result<Option<Credentials>, Status> {
    let AuthConfig { username, password, auth, server_address, identity_token, registry_token } = auth;
    if !server_address.is_empty() && registry_of(&server_address).0 != registry {
        return Ok(None);
    }
    let entry =
        DockerAuth { username, password, auth, identity_token, registry_token, ..DockerAuth::default() };
    Credentials::of(&entry)
        .map_err(|_| Status::invalid_argument("auth.auth: is not the base64 of user:password"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(auth: AuthConfig) -> Result<Option<Credentials>, String> {
        credentials(auth, "docker.io").map_err(|status| status.message().to_owned())
    }

    fn password(user: &str, password: &str) -> Option<Credentials> {
        Some(Credentials::Password { user: user.into(), password: password.into() })
    }

    #[test]
    fn every_way_to_say_who_pulls_is_understood() {
        let none = AuthConfig::default();
        assert_eq!(of(none.clone()), Ok(None));
        let plain = AuthConfig { username: "u".into(), password: "p".into(), ..none.clone() };
        assert_eq!(of(plain), Ok(password("u", "p")));
        // "u:p:q", and the same with a zero byte behind it
        for text in ["dTpwOnE=", "dTpwOnEA"] {
            assert_eq!(of(AuthConfig { auth: text.into(), ..none.clone() }), Ok(password("u", "p:q")));
        }
        let token = AuthConfig { identity_token: "t".into(), ..none.clone() };
        assert_eq!(of(token), Ok(Some(Credentials::IdentityToken("t".into()))));
        let token = AuthConfig { registry_token: "t".into(), ..none };
        assert_eq!(of(token), Ok(Some(Credentials::RegistryToken("t".into()))));
    }

    #[test]
    fn a_secret_is_not_carried_to_another_registry() {
        let auth = |server: &str| AuthConfig {
            username: "u".into(),
            password: "p".into(),
            server_address: server.into(),
            ..AuthConfig::default()
        };
        for server in ["docker.io", "https://index.docker.io/v1/", ""] {
            assert_eq!(of(auth(server)), Ok(password("u", "p")), "{server}");
        }
        for server in ["quay.io", "https://docker.io.example/", "docker.io:5000"] {
            assert_eq!(of(auth(server)), Ok(None), "{server}");
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_without_showing_it() {
        let error = of(AuthConfig { auth: "c2VjcmV0".into(), ..AuthConfig::default() }).unwrap_err();
        assert_eq!(error, "auth.auth: is not the base64 of user:password");
    }
}
