#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;

/// What the parts of a text are, as if it were large: text, line, index and kind of each.
fn parts_of(text: &str) -> Vec<(String, u32, String, String)> {
    let mut found = Vec::new();
    let mut take = |chunk: &ManifestChunk<'_>| {
        let text = String::from_utf8(chunk.bytes.to_vec()).unwrap();
        found.push((text, chunk.at.line, chunk.prefix.clone(), chunk.listed.kind.clone()));
    };
    let mut sink = Sink::new("dump", Origin::Named, &mut take);
    if text.trim_start().starts_with('{') {
        json::parts(text.as_bytes(), &mut sink).unwrap();
    } else {
        yaml::parts(text.as_bytes(), &mut sink).unwrap();
    }
    found
}

#[test]
fn a_list_in_json_comes_item_by_item_and_its_head_without_them() {
    let text = "{\"kind\": \"PodList\", \"apiVersion\": \"v1\",\n \"items\": [\n  {\"a\": \"}]\\\"\"},\n  {\"b\": [1, {}]}],\n \"metadata\": {}}\n{\"kind\": \"Pod\"}";
    let found = parts_of(text);
    assert_eq!(found[0], ("{\"a\": \"}]\\\"\"}".into(), 3, "items[0]".into(), "Pod".into()));
    assert_eq!(found[1], ("{\"b\": [1, {}]}".into(), 4, "items[1]".into(), "Pod".into()));
    assert!(found[2].0.contains("\"items\": [],"), "{found:?}");
    assert!(found[3].0.trim() == "{\"kind\": \"Pod\"}" && found[3].1 == 6, "{found:?}");
}

#[test]
fn a_list_in_json_that_breaks_off_shows_what_there_is() {
    let found = parts_of("{\"items\": [{\"a\": 1}, {\"b\": ");
    assert_eq!(
        found.iter().map(|f| f.0.as_str()).collect::<Vec<_>>(),
        ["{\"a\": 1}", "{\"b\": ", "{\"items\": ["]
    );
}

#[test]
fn documents_in_yaml_come_one_by_one_with_their_lines() {
    let found = parts_of("# one\na: 1\n---\n# nothing\n---\nb: |\n  ---\n  x\n--- # three\nc: 3\n");
    let texts: Vec<_> = found.iter().map(|f| (f.0.as_str(), f.1)).collect();
    assert_eq!(
        texts,
        [("# one\na: 1\n", 1), ("---\n# nothing\n---\nb: |\n  ---\n  x\n", 3), ("--- # three\nc: 3\n", 9)]
    );
}

#[test]
fn a_large_list_in_yaml_comes_item_by_item_whatever_its_indent() {
    for indent in ["", "  "] {
        let filler = "x".repeat(1000);
        let items: String = (0..5000)
            .map(|i| {
                format!("{indent}- kind: Pod\n{indent}  text: |\n{indent}    - {filler}\n{indent}  n: {i}\n")
            })
            .collect();
        let found =
            parts_of(&format!("apiVersion: v1\nkind: PodList\nitems:\n{items}metadata: {{}}\n---\na: 1\n"));
        assert_eq!(found.len(), 5001);
        assert!(
            found[4999].0.ends_with("n: 4999\n") && found[4999].0.starts_with(&format!("{indent}  kind"))
        );
        assert_eq!((found[4999].1, found[4999].2.as_str()), (4 + 4 * 4999, "items[4999]"));
        assert_eq!(found[4999].3, "Pod");
        assert_eq!(found[5000].0, "---\na: 1\n");
    }
}

#[test]
fn what_ends_a_document_in_yaml_ends_it() {
    let found = parts_of("%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n");
    let texts: Vec<_> = found.iter().map(|f| (f.0.as_str(), f.1)).collect();
    assert_eq!(texts, [("%YAML 1.1\n---\na: 1\n...\n", 1), ("%YAML 1.1\n---\nb: 2\n", 5)]);
}

#[test]
fn a_small_list_is_one_part() {
    let mut count = 0;
    let mut take = |chunk: &ManifestChunk<'_>| count += usize::from(chunk.bytes == b"items:\n- a: 1\n");
    parts(&b"items:\n- a: 1\n"[..], &mut Sink::new("f", Origin::Found, &mut take)).unwrap();
    assert_eq!(count, 1);
}
