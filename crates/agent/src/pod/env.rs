//! Environment variables of a container.

use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector};
use volumes::payload::PodFields;

use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::pod::env_file::{self, VolumeFiles};
use crate::pod::fields;
use crate::ports::{ObjectStore, ServiceLinks};

/// Sources of variables besides the container's definition.
pub(crate) struct Surroundings<'a> {
    pub(crate) context: &'a PodContext,
    pub(crate) objects: &'a dyn ObjectStore,
    /// The pod's addresses.
    pub(crate) ips: &'a [String],
    /// The node's address.
    pub(crate) host_ip: &'a str,
    /// The files of the pod's volumes.
    pub(crate) files: &'a dyn VolumeFiles,
}

/// Maximum size of all variables of a container with their names, and of each text that they are expanded into. Linux refuses
/// to execute a program with more of them: a quarter of the limit of its stack, which is 8 MiB. Without a limit, variables that
/// refer to one another, and a ConfigMap that is named many times, grow to gigabytes.
pub(crate) const LARGEST: usize = 2 << 20;

/// The annotation of a pod by which it is known that it does not come from the API server.
const SOURCE: &str = "kubernetes.io/config.source";

/// The variables of a container: those of services, envFrom, then env, as in the API. A later one overrides an earlier one.
///
/// # Errors
/// If services are not known yet, if a ConfigMap, Secret or key that is not optional does not exist, or a field reference is invalid.
pub(crate) fn of(container: &Container, around: &Surroundings<'_>) -> Result<BTreeMap<String, String>> {
    let mut all = Variables::default();
    all.extend("", of_services(around)?, || "the variables of services".to_owned())?;
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let found = if let Some(map) = &from.config_map_ref {
            let object = around.objects.config_map(&around.context.namespace, &map.name)?;
            needed("configmap", &map.name, object.map(|o| o.data), map.optional)?
        } else if let Some(secret) = &from.secret_ref {
            let object = around.objects.secret(&around.context.namespace, &secret.name)?;
            let data = object.map(|o| o.data.into_iter().map(|(k, v)| (k, text(&v))).collect());
            needed("secret", &secret.name, data, secret.optional)?
        } else {
            BTreeMap::new()
        };
        let name = from.config_map_ref.as_ref().map(|map| &map.name);
        let name = name.or(from.secret_ref.as_ref().map(|secret| &secret.name));
        all.extend(prefix, found, || format!("envFrom {:?}", name.map(String::as_str).unwrap_or_default()))?;
    }
    let fields = fields::of(around.context);
    let resolver = Resolver { container, fields: &fields, around };
    for variable in container.env.iter().flatten() {
        if let Some(value) = resolver.value(variable, &all.values)? {
            all.insert(variable.name.clone(), value, || format!("variable {}", variable.name))?;
        }
    }
    Ok(all.values)
}

/// The variables of a container so far, and how large they are.
#[derive(Default)]
struct Variables {
    values: BTreeMap<String, String>,
    size: usize,
}

impl Variables {
    /// Adds a variable, in the place of an earlier one of its name. `field` is what it comes from, for the error.
    fn insert(&mut self, name: String, value: String, field: impl FnOnce() -> String) -> Result<()> {
        let replaced = self.values.get(&name).map_or(0, |before| name.len() + before.len());
        self.size = self.size - replaced + name.len() + value.len();
        if self.size > LARGEST {
            return Err(too_large(&field()));
        }
        self.values.insert(name, value);
        Ok(())
    }

    /// Adds variables whose names get this prefix.
    fn extend(
        &mut self,
        prefix: &str,
        all: BTreeMap<String, String>,
        field: impl Fn() -> String,
    ) -> Result<()> {
        all.into_iter().try_for_each(|(name, value)| self.insert(format!("{prefix}{name}"), value, &field))
    }
}

/// The variables of services. A static pod does not wait for them: it may run before there is an API server.
fn of_services(around: &Surroundings<'_>) -> Result<BTreeMap<String, String>> {
    let context = around.context;
    let links = match context.spec.enable_service_links {
        Some(false) => ServiceLinks::Disabled,
        _ => ServiceLinks::Enabled,
    };
    let found = around.objects.service_variables(&context.namespace, links);
    let annotations = context.pod.metadata.annotations.as_ref();
    let is_static =
        annotations.and_then(|all| all.get(SOURCE)).is_some_and(|source| source.as_str() != "api");
    if is_static { Ok(found.unwrap_or_default()) } else { found }
}

/// Resolves the `env` entries of one container.
struct Resolver<'a> {
    container: &'a Container,
    fields: &'a PodFields,
    around: &'a Surroundings<'a>,
}

impl Resolver<'_> {
    /// The value of a variable; `None` for an optional one whose source does not exist. `earlier` has the variables
    /// that it may refer to.
    fn value(&self, variable: &EnvVar, earlier: &BTreeMap<String, String>) -> Result<Option<String>> {
        match (&variable.value, &variable.value_from) {
            (_, Some(from)) => self.of_source(from).map_err(|error| match error {
                // The kubelet's words, which name the object.
                Error::NoObject { .. } | Error::NoKey { .. } => error,
                error => Error::config(format!("variable {}", variable.name), error.to_string()),
            }),
            (Some(value), None) => {
                let expanded = expanded(value, earlier);
                expanded.map(Some).map_err(|_| too_large(&format!("variable {}", variable.name)))
            }
            (None, None) => Ok(Some(String::new())),
        }
    }

    fn of_source(&self, from: &EnvVarSource) -> Result<Option<String>> {
        let Self { container, fields, around } = self;
        let namespace = &around.context.namespace;
        if let Some(key) = &from.config_map_key_ref {
            let map = around.objects.config_map(namespace, &key.name)?;
            let of = KeyRef { kinds: ["configmap", "ConfigMap"], namespace, name: &key.name, key: &key.key };
            return of.value(map.map(|map| map.data.get(&key.key).cloned()), key.optional);
        }
        if let Some(key) = &from.secret_key_ref {
            let secret = around.objects.secret(namespace, &key.name)?;
            let of = KeyRef { kinds: ["secret", "Secret"], namespace, name: &key.name, key: &key.key };
            return of.value(secret.map(|secret| secret.data.get(&key.key).map(|v| text(v))), key.optional);
        }
        if let Some(reference) = &from.file_key_ref {
            return env_file::value(reference, around.files);
        }
        if let Some(field) = &from.field_ref {
            return self.of_field(field).map(Some);
        }
        if let Some(resource) = &from.resource_field_ref {
            return fields::text(fields::resource_value(resource, &container.name)?, fields).map(Some);
        }
        let hint = "use configMapKeyRef, secretKeyRef, fileKeyRef, fieldRef or resourceFieldRef";
        Err(admission::Error::NotRun { field: "valueFrom".to_owned(), what: "this source".to_owned(), hint }
            .into())
    }

    fn of_field(&self, field: &ObjectFieldSelector) -> Result<String> {
        let around = self.around;
        let context = around.context;
        Ok(match field.field_path.as_str() {
            "spec.nodeName" => context.node.clone(),
            "spec.serviceAccountName" => context.spec.service_account_name.clone().unwrap_or_default(),
            "status.hostIPs" if !context.node_fields.host_ips.is_empty() => {
                context.node_fields.host_ips.join(",")
            }
            "status.hostIP" | "status.hostIPs" => around.host_ip.to_owned(),
            "status.podIP" => around.ips.first().cloned().unwrap_or_default(),
            "status.podIPs" => around.ips.join(","),
            _ => fields::text(fields::field_value(field)?, self.fields)?,
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn needed<T: Default>(kind: &'static str, name: &str, found: Option<T>, optional: Option<bool>) -> Result<T> {
    match found {
        Some(found) => Ok(found),
        None if optional == Some(true) => Ok(T::default()),
        None => Err(Error::NoObject { kind, name: name.to_owned() }),
    }
}

/// A reference to one key of a ConfigMap or Secret: `configMapKeyRef`, `secretKeyRef`.
struct KeyRef<'a> {
    /// The kind as the kubelet writes it of an object that is missing, and of one without the key.
    kinds: [&'static str; 2],
    namespace: &'a str,
    name: &'a str,
    key: &'a str,
}

impl KeyRef<'_> {
    /// The value of the key, if the object was found and has it; an error if not and the reference is not optional.
    fn value(self, found: Option<Option<String>>, optional: Option<bool>) -> Result<Option<String>> {
        let [kind, with_key] = self.kinds;
        match found {
            Some(Some(value)) => Ok(Some(value)),
            _ if optional == Some(true) => Ok(None),
            None => Err(Error::NoObject { kind, name: self.name.to_owned() }),
            Some(None) => Err(Error::NoKey {
                kind: with_key,
                namespace: self.namespace.to_owned(),
                name: self.name.to_owned(),
                key: self.key.to_owned(),
            }),
        }
    }
}

fn too_large(field: &str) -> Error {
    let cause = format!("it makes more than {LARGEST} bytes of variables: use shorter values, or a file");
    Error::config(field, cause)
}

/// Expands `$(NAME)` to the variable's value, and `$$` to a dollar sign. A reference to an unknown variable
/// is kept.
///
/// # Errors
/// If the result is larger than the variables of a container may be.
pub(crate) fn expanded(text: &str, variables: &BTreeMap<String, String>) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // After the last `)` none is looked for: a text of many `$(` would be searched to its end for each of them.
    let last = text.rfind(')').unwrap_or_default();
    while let Some((before, after)) = rest.split_once('$') {
        if out.len() > LARGEST {
            return Err(too_large("$(NAME)"));
        }
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if text.len() - after.len() < last
            && let Some((name, after)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')'))
        {
            match variables.get(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    Ok(out + rest)
}

/// The words of a command, each expanded.
///
/// # Errors
/// If they are larger than the variables of a container may be.
pub(crate) fn all_expanded(words: &[String], variables: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut size = 0;
    let expanded = words.iter().map(|word| {
        let word = expanded(word, variables)?;
        size += word.len();
        if size > LARGEST { Err(too_large("command and args")) } else { Ok(word) }
    });
    expanded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each variable is ten times the one before: the last would have a hundred gigabytes.
    #[test]
    fn variables_that_refer_to_one_another_do_not_fill_the_memory() {
        let mut env = vec![format!(r#"{{"name":"A0","value":"{}"}}"#, "a".repeat(1000))];
        env.extend((1..9).map(|n| {
            let value = format!("$(A{})", n - 1).repeat(10);
            format!(r#"{{"name":"A{n}","value":"{value}"}}"#)
        }));
        let text = format!(r#"{{"containers":[{{"name":"a","env":[{}]}}]}}"#, env.join(","));
        let context = PodContext::for_test(&text);
        let objects = crate::Objects::default();
        let around =
            Surroundings { context: &context, objects: &objects, ips: &[], host_ip: "", files: &NoFiles };
        let error = of(&context.spec.containers[0], &around).unwrap_err().to_string();
        assert!(error.contains("variable A4") && error.contains("2097152 bytes"), "{error}");
        let variables = [("A".to_owned(), "a".repeat(100_000))].into();
        assert!(all_expanded(&["$(A)".repeat(1_000_000)], &variables).is_err());
        assert!(all_expanded(&vec!["$(A)".to_owned(); 21], &variables).is_err());
    }

    /// A pod of 65 KB took a gigabyte: one ConfigMap, named again and again.
    #[test]
    fn variables_of_services_and_of_env_from_have_the_same_limit() {
        let one = |index: usize| format!(r#"{{"prefix":"P{index}_","configMapRef":{{"name":"x"}}}}"#);
        let of = |count: usize, services: usize, spec: &str| {
            let from: Vec<_> = (0..count).map(one).collect();
            let text = format!(r#"{{"containers":[{{"name":"a",{spec}"envFrom":[{}]}}]}}"#, from.join(","));
            let context = PodContext::for_test(&text);
            let objects = &Large { services };
            let around = Surroundings { context: &context, objects, ips: &[], host_ip: "", files: &NoFiles };
            of(&context.spec.containers[0], &around).map(|all| all.len()).map_err(|error| error.to_string())
        };
        assert_eq!(of(2, 0, ""), Ok(2));
        for (count, services) in [(1200, 0), (2, 300_000)] {
            let error = of(count, services, "").unwrap_err();
            assert!(error.contains("envFrom \"x\"") && error.contains("bytes"), "{error}");
        }
        let error = of(0, LARGEST, "").unwrap_err();
        assert!(error.contains("the variables of services"), "{error}");
        // What it overrides does not count, and names do.
        let own = format!(r#""env":[{{"name":"P0_BIG","value":"{}"}}],"#, "a".repeat(900_000));
        assert_eq!(of(2, 0, &own), Ok(2));
        let own = format!(r#""env":[{{"name":"{}","value":"a"}}],"#, "A".repeat(300_000));
        assert!(of(2, 0, &own).unwrap_err().contains("variable AAA"));
    }

    /// A ConfigMap of 900 KB, and a service whose variables have this many bytes.
    struct Large {
        services: usize,
    }

    impl ObjectStore for Large {
        fn config_map(&self, _: &str, _: &str) -> Result<Option<volumes::payload::ConfigMap>> {
            let data = [("BIG".to_owned(), "b".repeat(900_000))];
            Ok(Some(volumes::payload::ConfigMap { data: data.into(), ..Default::default() }))
        }

        fn secret(&self, _: &str, _: &str) -> Result<Option<volumes::payload::Secret>> {
            Ok(None)
        }

        fn service_variables(&self, _: &str, _: ServiceLinks) -> Result<BTreeMap<String, String>> {
            let value = "s".repeat(self.services);
            Ok(if value.is_empty() { BTreeMap::new() } else { [("S".to_owned(), value)].into() })
        }
    }

    struct NoFiles;

    impl VolumeFiles for NoFiles {
        fn read(&self, _: &str, _: &std::path::Path) -> Result<Option<Vec<u8>>> {
            Ok(None)
        }
    }

    #[test]
    fn a_missing_object_or_key_is_named_as_the_kubelet_names_it() {
        let context = PodContext::for_test(r#"{"containers":[]}"#);
        let around = Surroundings {
            context: &context,
            objects: &Services(true),
            ips: &[],
            host_ip: "",
            files: &NoFiles,
        };
        let error = |source: &str| {
            let text = format!(r#"{{"name":"a","env":[{{"name":"A","valueFrom":{{{source}}}}}]}}"#);
            let container: Container = serde_json::from_str(&text).unwrap();
            let error = of(&container, &around).unwrap_err();
            assert_eq!(error.reason(), "CreateContainerConfigError");
            error.to_string()
        };
        let key = r#"{"name":"x","key":"k"}"#;
        assert_eq!(error(&format!(r#""configMapKeyRef":{key}"#)), "couldn't find key k in ConfigMap shop/x");
        assert_eq!(error(&format!(r#""secretKeyRef":{key}"#)), "secret \"x\" not found");
        let file = r#""fileKeyRef":{"volumeName":"v","path":"p","key":"k"}"#;
        assert_eq!(error(file), "variable A: fileKeyRef: volume \"v\" has no file \"p\"");
    }

    #[test]
    fn what_is_optional_and_missing_is_no_variable() {
        let of = |optional: bool, source: &str| {
            let text = format!(
                r#"{{"containers":[{{"name":"a","env":[{{"name":"A","valueFrom":{{"{source}KeyRef":{{"name":"x","key":"k","optional":{optional}}}}}}}],
                    "envFrom":[{{"{source}Ref":{{"name":"x","optional":{optional}}}}}]}}]}}"#
            );
            let context = PodContext::for_test(&text);
            let around = Surroundings {
                context: &context,
                objects: &crate::Objects::default(),
                ips: &[],
                host_ip: "",
                files: &NoFiles,
            };
            of(&context.spec.containers[0], &around).map_err(|e| e.to_string())
        };
        for source in ["configMap", "secret"] {
            assert_eq!(of(true, source), Ok(BTreeMap::new()));
            let error = of(false, source).unwrap_err();
            assert_eq!(error, format!("{} \"x\" not found", source.to_lowercase()));
        }
    }

    /// Services of a store whose services were read, or were not.
    struct Services(bool);

    impl ObjectStore for Services {
        fn config_map(&self, _: &str, _: &str) -> Result<Option<volumes::payload::ConfigMap>> {
            let data = [("DB_PORT", "of the map"), ("MAP", "m")].map(|(k, v)| (k.to_owned(), v.to_owned()));
            Ok(Some(volumes::payload::ConfigMap { data: data.into(), ..Default::default() }))
        }

        fn secret(&self, _: &str, _: &str) -> Result<Option<volumes::payload::Secret>> {
            Ok(None)
        }

        fn service_variables(
            &self,
            namespace: &str,
            links: ServiceLinks,
        ) -> Result<BTreeMap<String, String>> {
            if !self.0 {
                return Err(Error::Services { cause: "no answer".to_owned() });
            }
            assert_eq!(namespace, "shop");
            let all = [("DB_SERVICE_HOST", "10.0.0.5"), ("DB_PORT", "tcp://"), ("WEB", "w")];
            let all = all.map(|(k, v)| (k.to_owned(), v.to_owned()));
            Ok(if links == ServiceLinks::Enabled { all.into() } else { BTreeMap::new() })
        }
    }

    #[test]
    fn variables_of_services_come_first_and_are_overridden_and_referred_to() {
        let of = |fields: &str, is_read: bool, source: &str| {
            let text = format!(
                r#"{{{fields}"containers":[{{"name":"a","envFrom":[{{"configMapRef":{{"name":"x"}}}}],
                    "env":[{{"name":"WEB","value":"own"}},{{"name":"URL","value":"$(DB_SERVICE_HOST)/$(DB_PORT)"}}]}}]}}"#
            );
            let mut context = PodContext::for_test(&text);
            context.pod.metadata.annotations = Some([(SOURCE.to_owned(), source.to_owned())].into());
            let objects = &Services(is_read);
            of(
                &context.spec.containers[0],
                &Surroundings { context: &context, objects, ips: &[], host_ip: "", files: &NoFiles },
            )
        };
        let shown = |variables: BTreeMap<String, String>| {
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            shown(of("", true, "api").unwrap()),
            "DB_PORT=of the map DB_SERVICE_HOST=10.0.0.5 MAP=m URL=10.0.0.5/of the map WEB=own"
        );
        let without = r#""enableServiceLinks":false,"#;
        assert_eq!(
            shown(of(without, true, "api").unwrap()),
            "DB_PORT=of the map MAP=m URL=$(DB_SERVICE_HOST)/of the map WEB=own"
        );
        let error = of("", false, "api").unwrap_err();
        assert!(matches!(error, Error::Services { .. }), "{error}");
        assert_eq!(error.reason(), "CreateContainerConfigError");
        assert!(of("", false, "file").is_ok(), "a static pod does not wait");
    }

    #[test]
    fn variables_are_expanded_as_upstream_does() {
        let variables =
            BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x y".to_owned())]);
        for (text, expected) in [
            ("plain", "plain"),
            ("$(A)-$(B)", "1-x y"),
            ("$(NONE)", "$(NONE)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("cost$", "cost$"),
            ("$A $(A", "$A $(A"),
        ] {
            assert_eq!(expanded(text, &variables).unwrap(), expected, "{text}");
        }
    }

    /// Each `$(` was looked for to the end of the text: 18 s for one container, on a thread that other pods needed.
    #[test]
    fn a_text_of_references_that_do_not_end_is_expanded_in_linear_time() {
        let text = "$(".repeat(500_000);
        let begun = std::time::Instant::now();
        assert_eq!(expanded(&text, &BTreeMap::new()).unwrap(), text);
        let after = format!("$(A){text}");
        assert_eq!(
            expanded(&after, &BTreeMap::from([("A".into(), "1".into())])).unwrap(),
            format!("1{text}")
        );
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
