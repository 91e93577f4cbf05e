//! The certificates of PEM texts.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::pem::Pem;

/// The label of a certificate in PEM.
const CERTIFICATE: &str = "CERTIFICATE";
/// The length of a line of PEM.
const LINE: usize = 64;

/// The certificates of a PEM text, as DER, in its order. Text between them and other blocks are left out.
///
/// # Errors
/// If a block is damaged.
pub(crate) fn certificates(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut all = Vec::new();
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        let block = block.map_err(|error| error.to_string())?;
        if block.label == CERTIFICATE {
            all.push(block.contents);
        }
    }
    Ok(all)
}

/// Certificates as PEM, in this order.
pub(crate) fn pem<'a>(certificates: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at_checked(LINE).unwrap_or((rest, ""));
            text.push_str(line);
            text.push('\n');
            rest = after;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// Certificates of several bundles, each once. Their order is that of their bytes: it says nothing about the bundles, and is
/// the same for the same certificates, so that files do not change without need.
pub(super) fn merged<'a>(bundles: impl IntoIterator<Item = &'a Vec<Vec<u8>>>) -> String {
    let unique: BTreeSet<&[u8]> = bundles.into_iter().flatten().map(Vec::as_slice).collect();
    pem(unique)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_each_certificate_once_without_anything_between() {
        let [one, other] = [vec![7; 100], vec![1, 2, 3]];
        let text =
            format!("# of the first\n{}between\n{}", pem([one.as_slice(), &other]), pem([one.as_slice()]));
        let found = certificates(&text).unwrap();
        assert_eq!(found, [one.clone(), other.clone(), one.clone()]);
        let both = merged([&found, &vec![other.clone()]]);
        assert_eq!(certificates(&both).unwrap(), [other.clone(), one.clone()]);
        assert_eq!(both, merged([&vec![other], &found]), "the order of bundles does not count");
        assert!(both.lines().all(|line| line.len() <= LINE) && both.ends_with("-----END CERTIFICATE-----\n"));
        assert!(!both.contains("between") && merged([]).is_empty());
        assert!(certificates("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_err());
    }
}
