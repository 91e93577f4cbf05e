/// Texts for people, with one in place of all that say the same of different processes. Without root there is one for
/// each process of the host.
pub fn alike(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for text in texts {
        match groups.iter_mut().find(|(first, _)| cause(first) == cause(&text)) {
            Some((_, more)) => *more = more.saturating_add(1),
            None => groups.push((text, 0)),
        }
    }
    let shown =
        |(first, more)| if more == 0 { first } else { format!("{first} (and {more} more processes)") };
    groups.into_iter().map(shown).collect()
}

/// What a text says, without the process that it is about.
fn cause(text: &str) -> &str {
    let of_process = text.strip_prefix("process ").and_then(|rest| rest.split_once("): "));
    of_process.map_or(text, |(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_stands_for_all_processes_with_the_same_cause() {
        let texts = [
            "process 7 (sh): its maps cannot be read: denied",
            "pod web: no mount was read",
            "process 8 (a: b): its maps cannot be read: denied",
            "process 9 (sh): its root cannot be read: denied",
            "process 10 (sh): its maps cannot be read: denied",
        ];
        let expected = [
            "process 7 (sh): its maps cannot be read: denied (and 2 more processes)",
            "pod web: no mount was read",
            "process 9 (sh): its root cannot be read: denied",
        ];
        assert_eq!(alike(texts.map(str::to_owned)), expected);
    }
}
