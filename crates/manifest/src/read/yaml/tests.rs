use super::*;

fn one(text: &str) -> Node {
    let mut all = documents(text).unwrap();
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}

fn refused(text: &str) -> Stop {
    documents(text).unwrap_err()
}

fn value(text: &str, key: &str) -> Value {
    one(text).get(key).unwrap().value.clone()
}

#[test]
fn every_value_has_its_place() {
    let node = one("a: 1\nb:\n  - c: x\n");
    let Value::List(items) = &node.get("b").unwrap().value else { panic!() };
    assert_eq!(items[0].at, Position { line: 3, column: 5 });
    assert_eq!(items[0].get("c").unwrap().at, Position { line: 3, column: 8 });
}

#[test]
fn quotes_and_tags_decide_what_a_word_is() {
    assert_eq!(value("a: \"false\"", "a"), Value::Text("false".into()));
    assert_eq!(value("a: 'no'", "a"), Value::Text("no".into()));
    assert_eq!(value("a: no", "a"), Value::Bool(false));
    assert_eq!(value("a: !!str 0400", "a"), Value::Text("0400".into()));
    assert_eq!(value("a: ! 12", "a"), Value::Text("12".into()));
    assert_eq!(value("a: !!int \"12\"", "a"), Value::Int(12));
    assert_eq!(value("a: |\n  0400\n", "a"), Value::Text("0400\n".into()));
    assert_eq!(value("a:", "a"), Value::Null);
    for bad in ["a: !!int x", "a: !!bool 1", "a: !!binary aGk=", "a: !mine x", "a: !!set {x}"] {
        assert!(documents(bad).is_err(), "{bad}");
    }
}

#[test]
fn keys_become_text_as_in_kubernetes() {
    let node = one("on: 1\n010: 2\n1.5: 3\n\"<<\": 4\n");
    for key in ["true", "8", "1.5", "<<"] {
        assert!(node.get(key).is_some(), "{key}");
    }
    assert!(documents("? [a]\n: b").is_err());
    assert!(documents("~: b").is_err());
}

#[test]
fn a_key_that_is_there_twice_is_refused_however_it_is_spelled() {
    for text in ["a: 1\nb: 2\na: 3", "{a: 1, \"a\": 2}", "1: x\n\"1\": y", "x:\n  a: 1\n  a: 1"] {
        assert!(matches!(refused(text).problem, Problem::DuplicateKey { .. }), "{text}");
    }
    let stop = refused("a: 1\nb: 2\na: 3");
    assert_eq!(stop.at.line, 3);
    let many: String = (0..40).map(|i| format!("k{i}: 1\n")).chain(["k7: 2\n".to_owned()]).collect();
    assert_eq!(refused(&many).at.line, 41);
}

#[test]
fn aliases_and_merge_keys_are_resolved() {
    let text = "base: &b {x: 1, w: 2}\nother: &o {w: 3, z: 4}\nuse:\n  <<: [*b, *o]\n  z: 5\nsame: *b\n";
    let node = one(text);
    let used = node.get("use").unwrap();
    let int = |key: &str| used.get(key).unwrap().value.clone();
    assert_eq!((int("x"), int("w"), int("z")), (Value::Int(1), Value::Int(2), Value::Int(5)));
    assert_eq!(node.get("same"), node.get("base"));
    let plain = one("b: &b {x: 1}\nu:\n  <<: *b\n");
    assert_eq!(plain.get("u").unwrap().get("x").unwrap().at, Position { line: 1, column: 11 });
}

#[test]
fn a_merge_key_that_could_be_read_in_two_ways_is_refused() {
    let stop = refused("b: &b {x: 1}\nu:\n  x: 2\n  <<: *b\n");
    assert_eq!((stop.at.line, stop.problem), (3, Problem::MergedOver { key: "x".into() }));
    for bad in ["u:\n  <<: 1", "u:\n  <<: [1]", "b: &b {}\nu:\n  <<: *b\n  <<: *b\n", "u:\n  <<:\n"] {
        assert!(documents(bad).is_err(), "{bad}");
    }
}

#[test]
fn anchors_do_not_reach_past_their_document_or_into_themselves() {
    assert!(documents("a: &x 1\n---\nb: *x\n").is_err());
    assert!(documents("a: &x [*x]\n").is_err());
    assert!(documents("a: *nothing\n").is_err());
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let list = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{list}]\n"));
    }
    assert!(matches!(refused(&text).problem, Problem::TooMuch { limit: MAX_ALIASED, .. }));
}

#[test]
fn deep_values_are_refused_in_either_style_and_through_aliases() {
    assert!(documents(&"[".repeat(5000)).is_err());
    assert!(documents(&"- ".repeat(5000)).is_err());
    assert!(documents(&format!("{}1{}", "[".repeat(99), "]".repeat(99))).is_ok());
    let nested: String = (1..30).map(|i| format!("a{i}: &a{i} [[[[*a{}]]]]\n", i - 1)).collect();
    assert!(matches!(refused(&format!("a0: &a0 1\n{nested}")).problem, Problem::TooMuch { .. }));
}

#[test]
fn documents_are_told_apart() {
    assert_eq!(documents("---\na: 1\n---\n---\nb: 2\n...\n").unwrap().len(), 3);
    assert_eq!(documents("").unwrap().len(), 0);
    assert_eq!(documents("# only words\n").unwrap().len(), 0);
}
