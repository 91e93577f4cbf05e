//! A token server: a client with the right name and password gets a signed token for the requested scope, one without
//! credentials a token for nothing.

use std::fs;
use std::io::{self, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use super::http::{self, Head};
use super::{PASSWORD, USER};
use crate::cluster::addresses::TOKEN_SERVER;
use crate::cluster::record::Record;
use crate::{Error, Result};

/// Makes the key that tokens are signed with and the certificate that registries check them by.
pub(super) fn make_key(dir: &Path) -> Result<()> {
    let crypto = Error::crypto("the token key");
    let key = KeyPair::generate().map_err(&crypto)?;
    let certificate = crate::cluster::authority("testbed-tokens")?.self_signed(&key).map_err(&crypto)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).map_err(Error::file("write", path))
    };
    write("token.crt", certificate.pem().as_bytes())?;
    write("token.crt.der", certificate.der())?;
    write("token.key.der", &key.serialize_der())
}

/// What a token is made with.
struct Signer {
    key: EcdsaKeyPair,
    certificate: String,
    random: SystemRandom,
}

/// Serves tokens for the testbed `name` until killed.
///
/// # Errors
/// If the key cannot be read or the address is taken.
pub fn serve(name: &str) -> Result<()> {
    let pki = Record::read(name)?.places.pki();
    let read = |file: &str| fs::read(pki.join(file)).map_err(Error::file("read", pki.join(file)));
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &read("token.key.der")?, &random)
        .map_err(|error| Error::Crypto { what: "the token key".into(), said: error.to_string() })?;
    let signer = Signer { key, certificate: STANDARD.encode(read("token.crt.der")?), random };
    http::serve(TOKEN_SERVER, move |stream| handle(stream, &signer))
        .map_err(Error::file("listen on", TOKEN_SERVER))
}

fn handle(mut stream: BufReader<TcpStream>, signer: &Signer) -> io::Result<()> {
    let head = Head::read(&mut stream)?;
    let asker = match head.method() {
        "POST" => {
            let mut form = String::new();
            stream.by_ref().take(head.length().min(LONGEST_FORM)).read_to_string(&mut form)?;
            by_form(&format!("?{form}"))
        }
        _ => by_header(&head),
    };
    let scopes = match asker {
        Asker::Known(scopes) => scopes,
        Asker::Nobody => Vec::new(),
        Asker::Impostor => return http::answer(stream.get_mut(), "401 Unauthorized", &[], "{}"),
    };
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let token = sign(signer, &claims(&scopes, seconds))
        .map_err(|error| io::Error::other(format!("cannot sign: {error}")))?;
    let body = json!({"token": token, "access_token": token, "expires_in": 300}).to_string();
    http::answer(stream.get_mut(), "200 OK", &[], &body)
}

const LONGEST_FORM: u64 = 64 * 1024;

/// The credentials of a token request.
#[derive(Debug, PartialEq, Eq)]
enum Asker {
    /// With the right password, and for what.
    Known(Vec<String>),
    Nobody,
    Impostor,
}

/// The older way: a query, with a password in the header.
fn by_header(head: &Head) -> Asker {
    match head.field("authorization") {
        None => Asker::Nobody,
        Some(given) if given == credentials() => Asker::Known(http::parameters(head.target(), "scope")),
        Some(_) => Asker::Impostor,
    }
}

/// OAuth's way: everything in a form.
fn by_form(form: &str) -> Asker {
    let first = |name: &str| http::parameters(form, name).into_iter().next().unwrap_or_default();
    match (first("username").as_str(), first("password").as_str()) {
        ("", _) => Asker::Nobody,
        (USER, PASSWORD) => Asker::Known(http::parameters(form, "scope")),
        _ => Asker::Impostor,
    }
}

fn credentials() -> String {
    format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")))
}

fn claims(scopes: &[String], now: u64) -> Value {
    let access: Vec<Value> = scopes.iter().flat_map(|scope| scope.split(' ')).filter_map(access).collect();
    json!({
        "iss": "testbed", "sub": USER, "aud": "testbed", "jti": now.to_string(),
        "iat": now, "nbf": now.saturating_sub(60), "exp": now + 300, "access": access,
    })
}

/// `repository:a/b:pull,push`; the name may hold a port.
fn access(scope: &str) -> Option<Value> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    Some(json!({"type": kind, "name": name, "actions": actions.split(',').collect::<Vec<_>>()}))
}

fn sign(signer: &Signer, claims: &Value) -> Result<String, ring::error::Unspecified> {
    let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [signer.certificate]});
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(claims));
    let signature = signer.key.sign(&signer.random, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_keeps_a_port_in_its_name() {
        let value = access("repository:host:5000/a:pull,push").expect("a scope");
        assert_eq!(value["name"], "host:5000/a");
        assert_eq!(value["actions"], json!(["pull", "push"]));
    }

    #[test]
    fn a_form_is_believed_only_with_the_right_password() {
        assert_eq!(
            by_form("?username=testbed&password=wards&scope=a%3Ab%3Apull"),
            Asker::Known(vec!["a:b:pull".into()])
        );
        assert_eq!(by_form("?username=testbed&password=x"), Asker::Impostor);
        assert_eq!(by_form("?scope=a"), Asker::Nobody);
    }

    #[test]
    fn who_is_not_known_gets_a_token_for_nothing() {
        assert_eq!(claims(&[], 7)["access"], json!([]));
    }
}
