use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use images::Credentials;
use wire::Status;
use wire::cri::AuthConfig;

/// Who pulls from `registry`; nobody if the secret is for somewhere else, where it stays.
pub(super) fn credentials(auth: AuthConfig, registry: &str) -> Result<Option<Credentials>, Status> {
    if !auth.server_address.is_empty() && host(&auth.server_address) != registry {
        return Ok(None);
    }
    if !auth.username.is_empty() {
        return Ok(Some(Credentials::Password { user: auth.username, password: auth.password }));
    }
    if !auth.identity_token.is_empty() {
        return Ok(Some(Credentials::IdentityToken(auth.identity_token)));
    }
    if !auth.registry_token.is_empty() {
        return Ok(Some(Credentials::RegistryToken(auth.registry_token)));
    }
    if auth.auth.is_empty() {
        return Ok(None);
    }
    let text = STANDARD.decode(auth.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    // Some writers pad the decoded text with zero bytes.
    let pair = text.as_deref().and_then(|text| text.trim_end_matches('\0').split_once(':'));
    match pair {
        Some((user, password)) => {
            Ok(Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() }))
        }
        None => Err(Status::invalid_argument("auth.auth: is not the base64 of user:password")),
    }
}

/// As files of docker's have it: with a scheme, a path, and docker.io's old name.
fn host(address: &str) -> &str {
    let bare = address.strip_prefix("https://").or(address.strip_prefix("http://")).unwrap_or(address);
    match bare.split('/').next().unwrap_or(bare) {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    }
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
