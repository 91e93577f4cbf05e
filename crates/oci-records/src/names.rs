//! Names of containers as holders in the ledger and as file names. Two runtimes may have containers with the same ID,
//! each under a root directory of its own; these names include the root, and so are unique on a node.

use std::path::Path;

use ledger::{BadHolder, Holder};

/// The holder of a sandbox's lease, `oci:ROOT/ID`. It is an error if the name is not valid for a holder, for example
/// too long.
pub fn holder(root: &Path, sandbox: &str) -> Result<Holder, BadHolder> {
    let root = escaped(&root.to_string_lossy(), "._-/");
    Holder::new(format!("oci:{root}/{}", escaped(sandbox, "._-")))
}

/// The name as a file name: without `/`, and without a leading dot.
pub(crate) fn file_name(name: &str) -> String {
    let escaped = escaped(name, "._-");
    match escaped.strip_prefix('.') {
        Some(rest) => format!("@2e{rest}"),
        None => escaped,
    }
}

/// Keeps ASCII letters, digits and the characters in `kept`; any other byte becomes `@` and two hexadecimal digits.
fn escaped(text: &str, kept: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("@{byte:02x}") };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_containers_have_one_name() {
        let names = [
            ("/r", "a/b"),
            ("/r/a", "b"),
            ("/r", "a@2fb"),
            ("/r", "a"),
            ("/s", "a"),
            ("/r", ".a"),
            ("/r", "ä"),
        ];
        let holders: std::collections::BTreeSet<_> =
            names.iter().map(|(root, id)| holder(Path::new(root), id).unwrap().to_string()).collect();
        assert_eq!(holders.len(), names.len());
        assert_eq!(holder(Path::new("/run/runc"), "abc").unwrap().as_str(), "oci:/run/runc/abc");
    }

    #[test]
    fn a_file_name_stays_in_its_directory() {
        assert_eq!(file_name(".."), "@2e.");
        assert_eq!(file_name("a/../b"), "a@2f..@2fb");
        assert_eq!(file_name("plain-id_1.x"), "plain-id_1.x");
    }
}
