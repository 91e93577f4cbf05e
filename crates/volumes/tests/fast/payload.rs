//! What is in a volume, by what the pod asks for and what was found.

use crate::trees;

use std::collections::BTreeMap;

use proptest::prelude::*;
use trees::mode;
use volumes::payload::downward::{DownwardFile, Field, ResourceField, Value};
use volumes::payload::{
    Bytes, ConfigMap, KeyToPath, Mode, Need, Object, Payload, PodFields, Secret, Source, Volume,
};

fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn config_map(pairs: &[(&str, &str)]) -> Object<ConfigMap> {
    let found = Some(ConfigMap { data: text(pairs), binary_data: BTreeMap::new() });
    Object { name: "settings".to_owned(), found, items: vec![], need: Need::Required }
}

fn secret(pairs: &[(&str, &[u8])]) -> Object<Secret> {
    let data = pairs.iter().map(|(k, v)| ((*k).to_owned(), v.to_vec())).collect();
    Object {
        name: "keys".to_owned(),
        found: Some(Secret { data, ..Secret::default() }),
        items: vec![],
        need: Need::Required,
    }
}

fn item(key: &str, path: &str, mode: Option<Mode>) -> KeyToPath {
    KeyToPath { key: key.to_owned(), path: path.to_owned(), mode }
}

fn volume(sources: Vec<Source>) -> Volume {
    Volume { name: "config".to_owned(), default_mode: mode(0o640), sources }
}

fn files(sources: Vec<Source>) -> Vec<String> {
    let payload = Payload::of(&volume(sources), &PodFields::default()).unwrap();
    let shown = |(path, file): (&volumes::payload::PayloadPath, &volumes::payload::File)| {
        format!("{path} {} {}", file.mode, String::from_utf8_lossy(&file.content))
    };
    payload.files().map(shown).collect()
}

fn refusal(sources: Vec<Source>) -> (String, &'static str) {
    let error = Payload::of(&volume(sources), &PodFields::default()).unwrap_err();
    (error.to_string(), error.hint())
}

#[test]
fn without_items_every_key_is_a_file_of_the_default_mode() {
    let mut object = config_map(&[("a", "1"), ("b.txt", "2")]);
    object.found.as_mut().unwrap().binary_data.insert("c".to_owned(), vec![0xff]);
    assert_eq!(files(vec![Source::ConfigMap(object)]), ["a 0640 1", "b.txt 0640 2", "c 0640 \u{fffd}"]);
}

#[test]
fn items_choose_keys_paths_and_modes() {
    let mut object = secret(&[("user", b"me"), ("password", b"pst"), ("unused", b"x")]);
    object.items = vec![item("user", "login/name", None), item("password", "login//word", Some(mode(0o400)))];
    assert_eq!(files(vec![Source::Secret(object)]), ["login/name 0640 me", "login/word 0400 pst"]);
}

#[test]
fn what_is_missing_is_named_unless_it_is_optional() {
    let missing = |need| Object::<ConfigMap> { found: None, need, ..config_map(&[]) };
    assert_eq!(
        refusal(vec![Source::ConfigMap(missing(Need::Required))]),
        (
            "volume config: configMap settings: it does not exist".to_owned(),
            "create it, or set `optional: true` on the source"
        )
    );
    assert!(files(vec![Source::ConfigMap(missing(Need::Optional))]).is_empty());
    let mut keyless = secret(&[("a", b"1")]);
    keyless.items = vec![item("a", "a", None), item("b", "b", None)];
    let (cause, hint) = refusal(vec![Source::Secret(keyless.clone())]);
    assert_eq!(cause, "volume config: secret keys: it has no key \"b\"");
    assert!(hint.contains("optional"), "{hint}");
    keyless.need = Need::Optional;
    assert_eq!(files(vec![Source::Secret(keyless)]), ["a 0640 1"]);
}

#[test]
fn a_key_with_dots_never_becomes_a_path_that_leads_out() {
    let (cause, hint) = refusal(vec![Source::ConfigMap(config_map(&[("..", "x")]))]);
    assert_eq!(
        cause,
        "volume config: configMap settings: key \"..\" cannot be a file at \"..\": it has a `..` in it"
    );
    assert!(hint.contains("items"), "{hint}");
    for path in ["../x", "/x", "a/../../x", "..data", "./..data_tmp/x"] {
        let mut object = config_map(&[("k", "x")]);
        object.items = vec![item("k", path, None)];
        assert!(refusal(vec![Source::ConfigMap(object)]).0.contains("key \"k\""), "{path}");
    }
}

#[test]
fn in_a_projected_volume_the_later_source_wins() {
    let sources = vec![
        Source::ConfigMap(config_map(&[("a", "map"), ("b", "map")])),
        Source::Secret(secret(&[("b", b"secret")])),
        Source::DownwardApi(vec![DownwardFile {
            path: "c".to_owned(),
            mode: Some(mode(0o444)),
            value: Value::Field(Field::Name),
        }]),
        Source::Bytes(Bytes {
            what: "serviceAccountToken".to_owned(),
            path: "c".to_owned(),
            content: b"token".to_vec(),
            mode: Some(mode(0o600)),
            owner: None,
        }),
    ];
    assert_eq!(files(sources), ["a 0640 map", "b 0640 secret", "c 0600 token"]);
}

#[test]
fn one_path_cannot_be_a_file_and_a_directory() {
    let mut below = secret(&[("k", b"1")]);
    below.items = vec![item("k", "a/b", None)];
    let sources = vec![Source::ConfigMap(config_map(&[("a", "1")])), Source::Secret(below)];
    let (cause, hint) = refusal(sources);
    assert_eq!(
        cause,
        "volume config: configMap settings: \"a\" is a file, and \"a/b\" of secret keys lies in it"
    );
    assert_eq!(hint, "give one of the two another path");
}

#[test]
fn a_container_that_is_not_there_is_named() {
    let value = Value::Resource(ResourceField::parse("app", "limits.cpu").unwrap());
    let file = DownwardFile { path: "cpu".to_owned(), mode: None, value };
    let (cause, _) = refusal(vec![Source::DownwardApi(vec![file])]);
    assert_eq!(cause, "volume config: downwardAPI: container app is not in the pod");
}

/// A key that is named again and again: a ConfigMap of 1 MiB had the agent take gigabytes of memory and disk.
#[test]
fn items_cannot_multiply_a_key_without_limit() {
    let mib = "x".repeat(1 << 20);
    let named = |count: usize| {
        let mut object = config_map(&[("key", &mib)]);
        object.items = (0..count).map(|number| item("key", &format!("f{number}"), None)).collect();
        Source::ConfigMap(object)
    };
    assert_eq!(files(vec![named(64)]).len(), 64);
    let (cause, hint) = refusal(vec![named(65)]);
    assert_eq!(cause, "volume config: configMap settings: with it the volume has more than 64 MiB");
    assert!(hint.contains("fewer keys"), "{hint}");
    let others = || {
        let Source::ConfigMap(object) = named(40) else { unreachable!() };
        Object {
            name: "more".to_owned(),
            items: object
                .items
                .into_iter()
                .map(|one| item("key", &format!("more/{}", one.path), None))
                .collect(),
            ..object
        }
    };
    assert!(refusal(vec![named(40), Source::ConfigMap(others())]).0.contains("configMap more"));
}

#[test]
fn secrets_do_not_show_in_what_is_printed() {
    let source = Source::Secret(secret(&[("word", b"hunter2")]));
    let payload = Payload::of(&volume(vec![source.clone()]), &PodFields::default()).unwrap();
    let printed = format!("{source:?} {payload:?}");
    assert!(printed.contains("word") && !printed.contains("hunter2"), "{printed}");
    let bytes = b"hunter2".map(|b| b.to_string()).join(", ");
    assert!(!printed.contains(&bytes), "{printed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if trees::cases() > 200 { trees::cases() } else { 10_000 }))]

    /// Against the plainest model: a list of writes into a map, refused if one path is two things.
    #[test]
    fn a_payload_is_what_writing_the_sources_one_after_the_other_gives(
        sources in prop::collection::vec(
            (prop::collection::btree_map("[ab]", "[xy]?", 0..3),
             prop::collection::vec(("[abc]", r"(a|b|a/b|a//b|b/a/c|\.\./a|/b)", prop::option::of(0u32..0o1000)), 0..3),
             any::<bool>(), any::<bool>()),
            0..4)
    ) {
        let mut model: BTreeMap<String, (String, u32)> = BTreeMap::new();
        let mut refused = false;
        let mut given = vec![];
        for (data, items, exists, optional) in &sources {
            let found = if *exists { data.clone() } else { BTreeMap::new() };
            refused |= !exists && !optional;
            let all: Vec<_> = found.keys().map(|k| (k.clone(), k.clone(), None)).collect();
            for (key, path, mode) in if items.is_empty() { &all } else { items } {
                match found.get(key) {
                    None => refused |= !optional,
                    Some(_) if path.starts_with("../") || path.starts_with('/') => refused = true,
                    Some(value) => {
                        model.insert(path.replace("//", "/"), (value.clone(), mode.unwrap_or(0o640)));
                    }
                }
            }
            given.push(Source::ConfigMap(Object {
                name: "m".to_owned(),
                found: exists.then(|| ConfigMap { data: data.clone(), binary_data: BTreeMap::new() }),
                items: items.iter().map(|(k, p, m)| item(k, p, m.map(mode))).collect(),
                need: if *optional { Need::Optional } else { Need::Required },
            }));
        }
        let inside = |a: &String| model.keys().any(|b| a.starts_with(&format!("{b}/")));
        refused |= model.keys().any(inside);
        let made = Payload::of(&volume(given), &PodFields::default());
        prop_assert_eq!(made.is_err(), refused, "{:?}", made);
        if let Ok(payload) = made {
            let shown: BTreeMap<String, (String, u32)> = payload
                .files()
                .map(|(p, f)| (p.to_string(), (String::from_utf8(f.content.clone()).unwrap(), f.mode.bits())))
                .collect();
            prop_assert_eq!(shown, model);
        }
    }
}
