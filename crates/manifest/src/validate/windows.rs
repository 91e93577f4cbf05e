//! Options for Windows, and containers that are processes of a Windows host.

use k8s_openapi::api::core::v1::WindowsSecurityContextOptions;

use super::names;
use super::pod::Pod;
use super::report::{Report, Rule};
use crate::place::Path;

pub(super) fn options(
    report: &mut Report<'_>,
    path: &Path<'_>,
    options: Option<&WindowsSecurityContextOptions>,
) {
    let Some(options) = options else { return };
    let fields: [(&str, Option<&String>, Rule); 3] = [
        ("gmsaCredentialSpecName", options.gmsa_credential_spec_name.as_ref(), names::dns_subdomain),
        ("gmsaCredentialSpec", options.gmsa_credential_spec.as_ref(), credential),
        ("runAsUserName", options.run_as_user_name.as_ref(), user),
    ];
    for (field, value, rule) in fields {
        if let Some(value) = value {
            report.needs(&path.field(field), value, rule);
        }
    }
}

fn credential(text: &str) -> Result<(), &'static str> {
    if text.len() <= 64 * 1024 { Ok(()) } else { Err("must be at most 64 KiB") }
}

/// `USER` or `DOMAIN\USER`.
fn user(text: &str) -> Result<(), &'static str> {
    let (domain, user) = match text.split('\\').collect::<Vec<_>>().as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return Err("must have one backslash at most"),
    };
    let is_dots = !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ');
    let holds = !text.chars().any(|c| c.is_ascii_control())
        && domain.is_none_or(|domain| domain.len() < 256 && (is_netbios(domain) || is_dns(domain)))
        && (1..=104).contains(&user.len())
        && !is_dots
        && !user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c));
    if holds { Ok(()) } else { Err("must be USER or DOMAIN\\USER as Windows takes them") }
}

fn is_netbios(domain: &str) -> bool {
    let count = domain.chars().count();
    (1..=15).contains(&count) && !domain.starts_with('.') && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| names::dns_label(&label.to_ascii_lowercase()).is_ok())
}

/// Either all containers are processes of the host, on its network, or none is.
pub(super) fn host_processes(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    let of_pod = pod.spec.security_context.as_ref().and_then(|c| c.windows_options.as_ref());
    let of_pod = of_pod.and_then(|options| options.host_process);
    let main = pod.spec.containers.iter().map(|c| c.security_context.as_ref());
    let init = pod.spec.init_containers.iter().flatten().map(|c| c.security_context.as_ref());
    let debug = pod.spec.ephemeral_containers.iter().flatten().map(|c| c.security_context.as_ref());
    let own: Vec<Option<bool>> = main
        .chain(init)
        .chain(debug)
        .map(|context| context.and_then(|c| c.windows_options.as_ref()).and_then(|o| o.host_process))
        .collect();
    let context = path.field("securityContext");
    let field = context.field("windowsOptions");
    let field = field.field("hostProcess");
    let contradicts =
        |own: &Option<bool>| matches!((own, of_pod), (Some(own), Some(of_pod)) if *own != of_pod);
    if own.iter().any(contradicts) {
        report.invalid(&field, of_pod.unwrap_or_default(), "a container says something else");
    }
    let on = own.iter().filter(|own| own.or(of_pod) == Some(true)).count();
    if on > 0 && on < own.len() {
        report.invalid(&field, true, "must be so for all containers or for none");
    }
    if on > 0 && pod.spec.host_network != Some(true) {
        report.invalid(&field, true, "only with hostNetwork: true");
    }
}
