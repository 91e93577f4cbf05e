//! Targets of iSCSI, of a pod's volume or of a persistent one.

use super::report::{Report, shown};
use crate::place::Path;

/// What both kinds of volume have.
pub(super) struct Target<'a> {
    /// The volume's name: with the portal it becomes the name of an interface.
    pub(super) volume: &'a str,
    pub(super) portal: &'a str,
    pub(super) iqn: &'a str,
    pub(super) lun: i32,
    pub(super) initiator: Option<&'a str>,
    pub(super) needs_secret: bool,
    pub(super) has_secret: bool,
}

pub(super) fn target(report: &mut Report<'_>, path: &Path<'_>, target: &Target<'_>) {
    report.present(&path.field("targetPortal"), target.portal);
    report.needs(&path.field("iqn"), target.iqn, name);
    report.ranged(&path.field("lun"), Some(target.lun), 0..=255);
    if target.needs_secret && !target.has_secret {
        report.required(&path.field("secretRef"));
    }
    let Some(initiator) = target.initiator else { return };
    report.needs(&path.field("initiatorName"), initiator, name);
    if target.volume.len() + 1 + target.portal.len() > 64 {
        report.invalid(
            &path.field("targetPortal"),
            shown(target.portal),
            "with the volume's name and ':' it must be at most 64 characters when there is an initiatorName",
        );
    }
}

fn name(text: &str) -> Result<(), &'static str> {
    let holds = is_name(text);
    if holds { Ok(()) } else { Err("must be iqn.YYYY-MM.DOMAIN:NAME, or eui. or naa. and its digits") }
}

/// The three forms of an iSCSI name that the API takes.
fn is_name(name: &str) -> bool {
    let digits = |text: &str, n: usize| text.len() == n && text.chars().all(|c| c.is_ascii_digit());
    let word = |text: &str, n: usize| text.len() == n && text.chars().all(|c| c.is_ascii_alphanumeric());
    let month = |text: &str| text.split_once('-').is_some_and(|(y, m)| digits(y, 4) && digits(m, 2));
    let domain = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
    };
    let target =
        |text: &str| !text.is_empty() && !text.contains(|c: char| ",;*&$|".contains(c) || c.is_whitespace());
    match name.split_once('.') {
        Some(("iqn", rest)) => rest.split_once('.').is_some_and(|(date, rest)| {
            month(date) && rest.split_once(':').is_some_and(|(d, name)| domain(d) && target(name))
        }),
        Some(("eui", id)) => word(id, 16),
        Some(("naa", id)) => word(id, 32),
        _ => false,
    }
}
