use std::io::Read;

use images::{Credentials, Remote, read_credentials};

use crate::cli::PullArgs;
use crate::failure::Failure;

const LONGEST_PASSWORD: u64 = 64 << 10;

/// Gives the registries of `remote` the credentials that were named; those typed in are for `registry`.
pub(crate) fn apply(remote: &mut Remote, args: &PullArgs, registry: &str) -> Result<(), Failure> {
    if let Some(file) = &args.auth_file {
        for (host, credentials) in read_credentials(file)? {
            remote.registries.entry(host).or_default().credentials = Some(credentials);
        }
    }
    if let Some(user) = &args.user {
        let mut password = String::new();
        let read = std::io::stdin().take(LONGEST_PASSWORD).read_to_string(&mut password);
        read.map_err(|e| Failure::unknown(format!("cannot read the password from standard input: {e}")))?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        let credentials = Credentials::Password { user: user.clone(), password };
        remote.registries.entry(registry.to_owned()).or_default().credentials = Some(credentials);
    }
    Ok(())
}
