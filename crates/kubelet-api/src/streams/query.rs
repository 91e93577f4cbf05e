//! The parameters of exec, attach and run.

use super::Wanted;
use crate::http::form;

/// The streams that a query names; an error if there are none. A terminal has no error stream of its own.
pub(crate) fn wanted_streams(query: &str) -> Result<Wanted, &'static str> {
    let pairs = form(query);
    let is_set = |name: &str| {
        pairs.iter().find(|(key, _)| key == name).is_some_and(|(_, value)| value == "1" || value == "true")
    };
    let tty = is_set("tty");
    let wanted = Wanted {
        stdin: is_set("input") || is_set("stdin"),
        stdout: is_set("output") || is_set("stdout"),
        stderr: (is_set("error") || is_set("stderr")) && !tty,
        tty,
    };
    match wanted {
        Wanted { stdin: false, stdout: false, stderr: false, .. } => {
            Err("you must specify at least 1 of stdin, stdout, stderr")
        }
        wanted => Ok(wanted),
    }
}

/// The program and arguments of exec: all values of `command`, in their order.
pub(crate) fn command(query: &str) -> Vec<String> {
    form(query).into_iter().filter(|(key, _)| key == "command").map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_those_that_are_set() {
        let wanted = |stdin, stdout, stderr, tty| Ok(Wanted { stdin, stdout, stderr, tty });
        for (query, expected) in [
            ("input=1&output=1&error=1", wanted(true, true, true, false)),
            ("input=1&output=1&error=1&tty=1", wanted(true, true, false, true)),
            ("stdin=true&stdout=true", wanted(true, true, false, false)),
            ("output=0&error=1", wanted(false, false, true, false)),
            ("output=1&output=0", wanted(false, true, false, false)),
        ] {
            assert_eq!(wanted_streams(query), expected, "{query}");
        }
        for none in ["", "tty=1", "error=1&tty=1", "output=yes"] {
            assert!(wanted_streams(none).is_err(), "{none}");
        }
    }

    #[test]
    fn a_command_is_its_values_in_order() {
        assert_eq!(
            command("command=sh&input=1&command=-c&command=echo+a%20b%26c"),
            ["sh", "-c", "echo a b&c"]
        );
        assert!(command("cmd=ls").is_empty());
    }
}
