//! Variables from files that a pod writes itself: `fileKeyRef`.
//!
//! A line is `NAME='value'`. A value may span lines and has no escapes; blank lines and lines that begin with `#` are
//! ignored. A name without a quoted value right behind its `=` is an error, unless only white space follows: then it is empty.

use std::path::{Component, Path};

use manifest::k8s_openapi::api::core::v1::FileKeySelector;

use crate::error::{Error, Result};

/// Reads files of a pod's volumes. The pod may have made them: links in them lead nowhere but within the volume.
pub(crate) trait VolumeFiles {
    /// The content of a file; `None` if there is none.
    fn read(&self, volume: &str, path: &Path) -> Result<Option<Vec<u8>>>;
}

/// The value that a reference names; `None` if it is optional and there is none.
///
/// # Errors
/// If the file cannot be read or is not of this form, or if it has no value and the reference is not optional.
pub(crate) fn value(reference: &FileKeySelector, files: &dyn VolumeFiles) -> Result<Option<String>> {
    let FileKeySelector { key, path, volume_name, optional } = reference;
    let is_optional = *optional == Some(true);
    let failed = |cause: String| Error::config("fileKeyRef", cause);
    let file = Path::new(path);
    if !file.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(failed(format!("path {path:?} leads out of the volume")));
    }
    let Some(content) = files.read(volume_name, file)? else {
        let missing = || failed(format!("volume {volume_name:?} has no file {path:?}"));
        return if is_optional { Ok(None) } else { Err(missing()) };
    };
    let invalid = |cause: String| failed(format!("couldn't parse env file {path:?}: {cause}"));
    let content = String::from_utf8(content).map_err(|_| invalid("it is not UTF-8".to_owned()))?;
    match find(&content, key).map_err(invalid)?.filter(|value| !value.is_empty()) {
        None if !is_optional => {
            Err(failed(format!("environment variable key {key:?} not found in file {path:?}")))
        }
        found => Ok(found),
    }
}

/// The value of the last definition of a name. All of the text is read: a file with an error has no values.
fn find(text: &str, name: &str) -> std::result::Result<Option<String>, String> {
    let (mut rest, mut line, mut found) = (text, 1, None);
    while !rest.is_empty() {
        let (begun, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if begun.trim().is_empty() || begun.trim_start().starts_with('#') {
            (rest, line) = (after, line + 1);
            continue;
        }
        let (own, value) = rest.trim_start().split_once('=').ok_or(format!("line {line} has no '='"))?;
        if own.is_empty() || own.contains(char::is_whitespace) {
            return Err(format!("line {line} does not begin with a name and '='"));
        }
        let value = match value.strip_prefix('\'') {
            Some(quoted) => {
                let (value, after) =
                    quoted.split_once('\'').ok_or(format!("the quote of line {line} has no end"))?;
                let (behind, after) = after.split_once('\n').unwrap_or((after, ""));
                line += value.matches('\n').count() + 1;
                rest = after;
                if !(behind.trim().is_empty() || behind.trim_start().starts_with('#')) {
                    return Err(format!("line {} has text behind its value", line - 1));
                }
                value
            }
            None if value.is_empty() || value.starts_with(char::is_whitespace) => {
                (rest, line) = (after, line + 1);
                ""
            }
            None => return Err(format!("the value of line {line} is not in single quotes")),
        };
        if own == name {
            found = Some(value.to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OneFile(&'static str);

    impl VolumeFiles for OneFile {
        fn read(&self, volume: &str, path: &Path) -> Result<Option<Vec<u8>>> {
            let is_it = volume == "work" && path == Path::new("out/env");
            Ok(is_it.then(|| self.0.as_bytes().to_vec()))
        }
    }

    fn read(
        text: &'static str,
        key: &str,
        path: &str,
        is_optional: bool,
    ) -> std::result::Result<Option<String>, String> {
        let reference = FileKeySelector {
            key: key.into(),
            path: path.into(),
            volume_name: "work".into(),
            optional: Some(is_optional),
        };
        value(&reference, &OneFile(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_has_quoted_values_comments_and_values_of_several_lines() {
        let text = "# of the first step\n\nA='1'\n  B='x y' # why\nEMPTY=\nSPACE= 'z'\nLONG='one\ntwo=\n#three'\nA='2'";
        let of = |key| read(text, key, "out/env", true).unwrap();
        assert_eq!((of("A").as_deref(), of("B").as_deref()), (Some("2"), Some("x y")));
        assert_eq!(of("LONG").as_deref(), Some("one\ntwo=\n#three"));
        assert_eq!((of("EMPTY"), of("SPACE"), of("two"), of("NONE")), (None, None, None, None));
    }

    #[test]
    fn what_is_missing_is_an_error_unless_it_is_optional() {
        assert_eq!(read("A='1'", "A", "none", true), Ok(None));
        assert!(read("A='1'", "A", "none", false).unwrap_err().contains("has no file \"none\""));
        for key in ["B", "EMPTY"] {
            let error = read("EMPTY=''", key, "out/env", false).unwrap_err();
            assert!(error.contains(&format!("key {key:?} not found in file")), "{error}");
        }
        assert!(read("A='1'", "A", "../env", true).unwrap_err().contains("leads out"));
        assert!(read("A='1'", "A", "/etc/env", true).unwrap_err().contains("leads out"));
    }

    #[test]
    fn a_file_of_another_form_has_no_values_and_the_line_is_named() {
        for (text, cause) in [
            ("A='1'\nB=2", "the value of line 2 is not in single quotes"),
            ("A='1'\nB=\"2\"", "the value of line 2 is not in single quotes"),
            ("A ='1'", "line 1 does not begin with a name"),
            ("='1'", "line 1 does not begin with a name"),
            ("A='1'\nexport", "line 2 has no '='"),
            ("A='x\ny'\nB='1' 2", "line 3 has text behind its value"),
            ("A='1", "the quote of line 1 has no end"),
        ] {
            let error = read(text, "A", "out/env", true).unwrap_err();
            assert!(error.contains("couldn't parse env file") && error.contains(cause), "{text:?}: {error}");
        }
    }
}
