use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// A network configuration list: its plugins in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct List {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) plugins: Vec<Plugin>,
}

/// One plugin's part of the configuration, unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Plugin {
    /// The program's name.
    pub(super) kind: String,
    pub(super) settings: Map<String, Value>,
}

impl List {
    /// Loads the first file by name with a known extension.
    pub(super) fn load(dir: &Path) -> Result<Self> {
        let none = || Error::NoCniConfiguration { dir: dir.to_owned() };
        let listed = match fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(none()),
            other => other.map_err(Error::io("list", dir))?,
        };
        let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files
            .retain(|path| ending(path).is_some_and(|ending| ["conflist", "conf", "json"].contains(&ending)));
        files.sort();
        let path = files.first().ok_or_else(none)?;
        let text = fs::read(path).map_err(Error::io("read", path))?;
        Self::read(&text).map_err(|why| Error::CniConfiguration { path: path.clone(), why })
    }

    /// A list of plugins, or one plugin alone.
    pub(super) fn read(text: &[u8]) -> std::result::Result<Self, String> {
        let whole: Map<String, Value> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let word = |key: &str| whole.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = word("name").filter(|name| !name.is_empty()).ok_or("there is no name")?;
        let version = word("cniVersion").unwrap_or_else(|| "0.1.0".to_owned());
        let plugins = match whole.get("plugins") {
            None => vec![Plugin::read(&whole)?],
            Some(Value::Array(plugins)) => {
                let objects =
                    plugins.iter().map(|plugin| plugin.as_object().ok_or("a plugin is not an object"));
                objects.map(|object| Plugin::read(object?)).collect::<std::result::Result<_, _>>()?
            }
            Some(_) => return Err("plugins is not a list".to_owned()),
        };
        if plugins.is_empty() {
            return Err("there is no plugin in it".to_owned());
        }
        Ok(Self { name, version, plugins })
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(|plugin| plugin.kind.as_str())
    }

    /// Since CNI 0.4.0, DEL gets the result of ADD (`prevResult`).
    pub(super) fn tells_before_delete(&self) -> bool {
        let mut numbers = self.version.split('.').map(|number| number.parse().unwrap_or(0_u32));
        (numbers.next(), numbers.next()) >= (Some(0), Some(4))
    }
}

impl Plugin {
    fn read(settings: &Map<String, Value>) -> std::result::Result<Self, String> {
        let kind = settings.get("type").and_then(Value::as_str).ok_or("a plugin has no type")?;
        // Only the configured directories are searched.
        if kind.is_empty() || kind.contains('/') || kind.starts_with('.') {
            return Err(format!("{kind:?} is not a valid plugin name"));
        }
        Ok(Self { kind: kind.to_owned(), settings: settings.clone() })
    }

    /// The input of the plugin: its settings, the list's name, runtimeConfig and prevResult.
    pub(super) fn input(
        &self,
        list: &List,
        capabilities: &BTreeMap<String, Value>,
        before: Option<&Value>,
    ) -> Value {
        let mut input = self.settings.clone();
        input.insert("name".to_owned(), json!(list.name));
        input.insert("cniVersion".to_owned(), json!(list.version));
        let has = |key: &str| {
            self.settings.get("capabilities").and_then(|all| all.get(key)).and_then(Value::as_bool)
                == Some(true)
        };
        let asked: Map<String, Value> = capabilities
            .iter()
            .filter(|(key, _)| has(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !asked.is_empty() {
            input.insert("runtimeConfig".to_owned(), Value::Object(asked));
        }
        if let Some(before) = before {
            input.insert("prevResult".to_owned(), before.clone());
        }
        Value::Object(input)
    }
}

fn ending(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"name":"n","cniVersion":"1.0.0","plugins":[
        {"type":"bridge","bridge":"b0"},{"type":"portmap","capabilities":{"portMappings":true,"other":false}}]}"#;

    #[test]
    fn a_list_and_a_single_plugin_are_read() {
        let list = List::read(LIST.as_bytes()).unwrap();
        assert_eq!(list.kinds().collect::<Vec<_>>(), ["bridge", "portmap"]);
        let single = List::read(br#"{"name":"n","type":"ptp","cniVersion":"0.3.1"}"#).unwrap();
        assert_eq!((single.kinds().collect::<Vec<_>>(), single.version.as_str()), (vec!["ptp"], "0.3.1"));
        assert!(list.tells_before_delete() && !single.tells_before_delete());
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_reason() {
        for (text, part) in [
            ("[]", "invalid type"),
            (r#"{"plugins":[]}"#, "no name"),
            (r#"{"name":"n","plugins":[]}"#, "no plugin in it"),
            (r#"{"name":"n","plugins":{}}"#, "not a list"),
            (r#"{"name":"n","plugins":[{}]}"#, "no type"),
            (r#"{"name":"n","plugins":["x"]}"#, "not an object"),
            (r#"{"name":"n","type":"../../bin/sh"}"#, "not a valid plugin name"),
        ] {
            let why = List::read(text.as_bytes()).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn a_plugin_is_told_what_it_is_capable_of_and_nothing_else() {
        let list = List::read(LIST.as_bytes()).unwrap();
        let capabilities: BTreeMap<_, _> =
            [("portMappings".to_owned(), json!([1])), ("other".to_owned(), json!(2))].into();
        let before = json!({ "ips": [] });
        let inputs: Vec<_> =
            list.plugins.iter().map(|plugin| plugin.input(&list, &capabilities, Some(&before))).collect();
        assert_eq!(inputs[0]["runtimeConfig"], Value::Null);
        assert_eq!(inputs[1]["runtimeConfig"], json!({ "portMappings": [1] }));
        for input in &inputs {
            assert_eq!((&input["name"], &input["cniVersion"]), (&json!("n"), &json!("1.0.0")));
            assert_eq!(input["prevResult"], before);
        }
    }

    #[test]
    fn the_first_file_by_name_counts() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(List::load(&dir.path().join("none")), Err(Error::NoCniConfiguration { .. })));
        assert!(matches!(List::load(dir.path()), Err(Error::NoCniConfiguration { .. })));
        fs::write(dir.path().join("00-readme.txt"), "no configuration").unwrap();
        fs::write(dir.path().join("20-b.conflist"), LIST).unwrap();
        fs::write(dir.path().join("10-a.conf"), r#"{"name":"a","type":"ptp"}"#).unwrap();
        assert_eq!(List::load(dir.path()).unwrap().name, "a");
        fs::write(dir.path().join("05-c.json"), "{").unwrap();
        let error = List::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("05-c.json"), "{error}");
    }
}
