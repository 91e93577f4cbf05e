//! Whatever the text: it is read or refused, and never anything worse.

use crate::support;

use manifest::{Cluster, Level, lower, read, unsupported, validate, violations};
use plan::{Gates, KubernetesVersion};
use proptest::prelude::*;

/// Everything that can be done with a text.
fn take(bytes: &[u8]) -> usize {
    let reading = read("any", bytes);
    let cluster = Cluster::of(&reading.objects);
    for object in &reading.objects {
        let _ = validate(object, &Gates::default());
        if let Some(pod) = object.pod() {
            let _ = unsupported(&pod);
            let _ = violations(&pod, Level::Restricted, KubernetesVersion::NEWEST);
            let _ = lower(&pod, &cluster);
        }
    }
    for finding in &reading.findings {
        assert!(finding.at.line >= 1 && finding.at.column >= 1, "{finding}");
        assert!(!finding.to_string().contains('\n') || finding.path.contains('\n'), "{finding}");
    }
    reading.objects.len() + reading.findings.len() + reading.skipped.len()
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "apiVersion: v1",
        "kind: Pod",
        "spec:",
        "  hostUsers: false",
        "metadata: {name: a}",
        "---",
        "- ",
        "  ",
        "\n",
        "\t",
        "&a ",
        "*a",
        "<<: *a",
        "{",
        "}",
        "[",
        "]",
        ",",
        ": ",
        "\"",
        "'",
        "|",
        ">",
        "#",
        "!!str ",
        "~",
        "0400",
        "\\",
        "%YAML 1.2",
        "containers:",
        "  - name: c",
        "items:",
        "kind: List",
        "\u{feff}",
        "\r",
        "?",
        "ä",
    ]);
    prop::collection::vec(word, 0..25).prop_map(|words| words.concat())
}

/// So many, or what `PROPTEST_CASES` says.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(10_000), ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        take(&bytes);
    }

    #[test]
    fn any_heap_of_yamls_own_signs_is_read_or_refused(text in words()) {
        take(text.as_bytes());
    }

    /// The text of a good pod with a few characters changed never runs with another wish for isolation
    /// than one that is written in it.
    #[test]
    fn a_changed_pod_is_never_isolated_less_without_its_text_saying_so(
        at in 0_usize..200, cut in 0_usize..4, put in "[a-z :\\n\"{}#-]{0,3}",
    ) {
        let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  hostUsers: false\n  containers:\n  - name: c\n    image: i\n";
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        let changed = format!("{}{put}{}", &text[..at], &text[end..]);
        let reading = read("p.yaml", changed.as_bytes());
        let pods = reading.objects.iter().filter_map(|o| o.pod());
        for pod in pods {
            let line = changed.lines().any(|l| l.trim_start().starts_with("hostUsers") && !l.contains('#'));
            // hostUsers is gone only where it is no key of the text any more, or one without a value.
            let empty = changed.lines().any(|l| l.trim() == "hostUsers:");
            prop_assert!(pod.spec.host_users == Some(false) || !line || empty, "{changed}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2_000), ..ProptestConfig::default() })]

    /// The corpus, each text with one byte changed.
    #[test]
    fn a_manifest_with_a_byte_changed_is_read_or_refused(pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        thread_local!(static CORPUS: Vec<support::Case> = support::corpus());
        CORPUS.with(|corpus| {
            let mut bytes = pick.get(corpus).text.clone().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            take(&bytes);
        });
    }
}
