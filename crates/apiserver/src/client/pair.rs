//! A client certificate with its key, and what it says about itself.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::jiff::Timestamp;
use kube::config::AuthInfo;
use serde_json::json;
use x509_parser::pem::Pem;

/// Greater files are no certificates.
const LARGEST: u64 = 4 << 20;

/// A certificate, its issuers, and its private key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    /// PEM; the own certificate first.
    pub(crate) certificates: String,
    /// PEM.
    pub(crate) key: String,
    /// The begin of the own certificate's validity.
    pub(crate) not_before: Timestamp,
    /// The end of the own certificate's validity.
    pub(crate) not_after: Timestamp,
    /// The end of the validity of the first certificate in the chain that ends.
    pub(crate) chain_ends: Timestamp,
}

/// Without the key.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Pair {
    /// The certificates of one PEM text, and the key of another; both may be the same text. The error says what is wrong.
    pub(crate) fn parse(certificates: &str, key: &str) -> Result<Self, String> {
        let certificates = sections(certificates, |label| label == "CERTIFICATE");
        let key = sections(key, |label| label.ends_with("PRIVATE KEY"));
        if key.is_empty() {
            return Err("it has no private key".to_owned());
        }
        let blocks = Pem::iter_from_buffer(certificates.as_bytes()).collect::<Result<Vec<_>, _>>();
        let blocks = blocks.map_err(|error| error.to_string())?;
        let mut ends = Vec::new();
        let mut not_before = None;
        for block in &blocks {
            let parsed = block.parse_x509().map_err(|error| error.to_string())?;
            let time = |seconds: i64| Timestamp::from_second(seconds).map_err(|error| error.to_string());
            ends.push(time(parsed.validity().not_after.timestamp())?);
            not_before.get_or_insert(time(parsed.validity().not_before.timestamp())?);
        }
        match (not_before, ends.first().copied(), ends.iter().min().copied()) {
            (Some(not_before), Some(not_after), Some(chain_ends)) => {
                Ok(Self { certificates, key, not_before, not_after, chain_ends })
            }
            _ => Err("it has no certificate".to_owned()),
        }
    }

    /// A file with both, as a kubelet keeps them; `None` if there is none. It is read once, so that certificate and key
    /// belong together also while another file takes its place.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, String> {
        let Some(text) = read(path)? else { return Ok(None) };
        Self::parse(&text, &text).map(Some).map_err(|cause| format!("{}: {cause}", path.display()))
    }

    /// Whether a certificate of the chain has expired.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.chain_ends <= now
    }

    /// One text with both.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.certificates, self.key)
    }

    /// The credentials of a kubeconfig's user that has this certificate and nothing else.
    pub(crate) fn auth_info(&self) -> Result<AuthInfo, serde_json::Error> {
        serde_json::from_value(json!({
            "client-certificate-data": BASE64_STANDARD.encode(&self.certificates),
            "client-key-data": BASE64_STANDARD.encode(&self.key),
        }))
    }
}

/// The certificate of a kubeconfig's user.
pub(crate) enum Source {
    /// None: the user has a token, or a credential plugin.
    Other,
    /// Inside of the kubeconfig.
    Embedded(Box<Pair>),
    /// In files; `None` if one of them does not exist.
    Files(Option<Box<Pair>>),
}

impl Source {
    /// Reads what the kubeconfig's user names. The error says what cannot be used, with the file.
    pub(crate) fn of(auth: &AuthInfo) -> Result<Self, String> {
        let value = serde_json::to_value(auth).map_err(|error| error.to_string())?;
        let data = |name: &str| value.get(name).and_then(|found| found.as_str()).map(decode).transpose();
        let file = |name: &str| value.get(name).and_then(|found| found.as_str()).map(Path::new);
        let certificate = (data("client-certificate-data")?, file("client-certificate"));
        let key = (data("client-key-data")?, file("client-key"));
        match (certificate, key) {
            ((None, None), (None, None)) => Ok(Self::Other),
            ((None, None), _) => Err("it has a client key and no client certificate".to_owned()),
            (_, (None, None)) => Err("it has a client certificate and no client key".to_owned()),
            ((Some(certificate), _), (Some(key), _)) => {
                Ok(Self::Embedded(Box::new(Pair::parse(&certificate, &key)?)))
            }
            ((None, Some(one)), (None, Some(other))) if one == other => {
                Ok(Self::Files(Pair::read(one)?.map(Box::new)))
            }
            ((certificate, certificate_file), (key, key_file)) => {
                let text = |data: Option<String>, path: Option<&Path>| match (data, path) {
                    (Some(data), _) => Ok(Some(data)),
                    (None, Some(path)) => read(path),
                    (None, None) => Ok(None),
                };
                let both = (text(certificate, certificate_file)?, text(key, key_file)?);
                let (Some(certificate), Some(key)) = both else { return Ok(Self::Files(None)) };
                let named = |cause: String| {
                    let shown = certificate_file.or(key_file).unwrap_or_else(|| Path::new("client-key"));
                    format!("{}: {cause}", shown.display())
                };
                Ok(Self::Files(Some(Box::new(Pair::parse(&certificate, &key).map_err(named)?))))
            }
        }
    }
}

fn decode(data: &str) -> Result<String, String> {
    let bytes = BASE64_STANDARD.decode(data.trim()).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Option<String>, String> {
    let bytes = durable::read(path, LARGEST).map_err(|error| error.to_string())?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|_| format!("{} is no PEM file", path.display()))
}

/// The PEM sections of a text whose label is wanted, unchanged.
fn sections(text: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut wanted = String::new();
    let mut inside = None;
    for line in text.lines().map(str::trim_end) {
        let label = |marker: &str| line.strip_prefix(marker).and_then(|rest| rest.strip_suffix("-----"));
        if let Some(label) = label("-----BEGIN ") {
            inside = is_wanted(label).then(|| label.to_owned());
        }
        if inside.is_some() {
            wanted.push_str(line);
            wanted.push('\n');
        }
        if label("-----END ").is_some() {
            inside = None;
        }
    }
    wanted
}

#[cfg(test)]
pub(crate) mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A self-signed pair that is valid in the years named.
    pub(crate) fn pair(from: i32, to: i32) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        let certificate = params.self_signed(&key).unwrap().pem();
        Pair::parse(&certificate, &key.serialize_pem()).unwrap()
    }

    #[test]
    fn both_are_found_in_one_text_whatever_is_between_them() {
        let made = pair(2020, 2021);
        let text =
            format!("a comment\n{}{}\r\n{}", made.key, "more", made.certificates.replace('\n', "\r\n"));
        assert_eq!(Pair::parse(&text, &text).unwrap(), made);
        assert_eq!(made.not_after, "2021-01-01T00:00:00Z".parse().unwrap());
        assert!(Pair::parse(&made.certificates, &made.certificates).is_err());
        assert!(Pair::parse(&made.key, &made.key).is_err());
    }

    #[test]
    fn a_chain_ends_with_its_first_certificate_that_ends() {
        let (own, issuer) = (pair(2020, 2030), pair(2019, 2025));
        let chain = Pair::parse(&format!("{}{}", own.certificates, issuer.certificates), &own.key).unwrap();
        assert_eq!((chain.not_after, chain.chain_ends), (own.not_after, issuer.not_after));
        assert_eq!(chain.not_before, own.not_before);
        assert!(chain.is_expired("2026-01-01T00:00:00Z".parse().unwrap()));
    }

    #[test]
    fn a_user_has_its_certificate_in_the_kubeconfig_or_in_files_or_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("both.pem");
        let auth = |value: serde_json::Value| serde_json::from_value::<AuthInfo>(value).unwrap();
        let named = auth(json!({"client-certificate": file, "client-key": file}));
        assert!(matches!(Source::of(&named), Ok(Source::Files(None))));
        let made = pair(2020, 2030);
        std::fs::write(&file, made.text()).unwrap();
        assert!(matches!(Source::of(&named), Ok(Source::Files(Some(found))) if *found == made));
        let embedded = made.auth_info().unwrap();
        assert!(matches!(Source::of(&embedded), Ok(Source::Embedded(found)) if *found == made));
        assert!(matches!(Source::of(&auth(json!({"token": "abc"}))), Ok(Source::Other)));
        assert!(Source::of(&auth(json!({"client-certificate": file}))).is_err());
    }
}
