//! CNI plugins: Debian's own, and small ones of ours that fail, hang and tell what they were told.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use network::{Error, Kind, Protocol};
use support::*;

const DEBIAN: &str = "/usr/lib/cni";

struct Plugins {
    lab: Lab,
    conf: PathBuf,
    bin: PathBuf,
}

impl Plugins {
    /// No configuration yet, and no plugins but Debian's.
    fn new() -> Self {
        assert!(
            Path::new(DEBIAN).join("host-local").exists(),
            "this test needs CNI plugins: apt-get install containernetworking-plugins"
        );
        let lab = Lab::new();
        let (conf, bin) = (lab.dir.path().join("conf"), lab.dir.path().join("bin"));
        fs::create_dir(&conf).unwrap();
        fs::create_dir(&bin).unwrap();
        Self { lab, conf, bin }
    }

    fn kind(&self) -> Kind {
        Kind::Cni { conf_dir: self.conf.clone(), bin_dirs: vec![self.bin.clone(), DEBIAN.into()] }
    }

    fn configure(&self, text: &str) {
        fs::write(self.conf.join("10-net.conflist"), text).unwrap();
    }

    /// Debian's bridge with addresses from Debian's host-local.
    fn bridge(&self, more: &str) {
        let kept = self.lab.dir.path().join("host-local");
        self.configure(&format!(
            r#"{{"cniVersion":"1.0.0","name":"net","plugins":[{{"type":"bridge","bridge":"cni0","isGateway":true,
                "ipam":{{"type":"host-local","dataDir":"{}","ranges":[[{{"subnet":"10.3.0.0/24"}}]],
                "routes":[{{"dst":"0.0.0.0/0"}}]}}}}{more}]}}"#,
            kept.display()
        ));
    }

    /// A plugin that is a shell script; `$DIR` is the lab's directory.
    fn script(&self, name: &str, body: &str) {
        let path = self.bin.join(name);
        let text = format!("#!/bin/sh\nDIR={}\n{body}\n", self.lab.dir.path().display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn reserved(&self) -> Vec<String> {
        let dir = self.lab.dir.path().join("host-local/net");
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("10.")).collect()
    }

    fn kept(&self) -> Vec<String> {
        let dir = self.lab.dir.path().join("network/cni");
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.lab.dir.path().join(name)).unwrap()
    }
}

#[test]
fn debians_plugins_connect_pods_and_take_it_back() {
    let plugins = Plugins::new();
    let (lab, network) = (&plugins.lab, plugins.lab.open(plugins.kind()));
    let not_ready = lab.runtime.block_on(network.ready()).unwrap_err();
    assert!(not_ready.contains("no CNI configuration"), "{not_ready}");
    plugins.bridge("");
    lab.runtime.block_on(network.ready()).unwrap();
    let (one, two) = (Ward::new("one"), Ward::new("two"));
    let (a, b) = (lab.set_up(&network, &one), lab.set_up(&network, &two));
    assert_eq!([a, b].map(|ip| ip.to_string()), ["10.3.0.2", "10.3.0.3"]);
    let server = listen(&two.ns, "0.0.0.0:80");
    assert_eq!(talk(&one.ns, &server, "10.3.0.3:80"), a);
    assert_eq!(lab.set_up(&network, &one), a, "once is enough");
    assert_eq!(plugins.reserved().len(), 2);
    lab.tear_down(&network, &one);
    lab.tear_down(&network, &one);
    assert_eq!(plugins.reserved(), ["10.3.0.3"]);
    assert_eq!(lab.leases(&network), [two.pod.id.as_str()]);
}

#[test]
fn what_was_made_before_a_restart_is_taken_back_whatever_the_settings_say_by_then() {
    let plugins = Plugins::new();
    plugins.bridge("");
    let lab = &plugins.lab;
    let network = lab.open(plugins.kind());
    let wards = [Ward::new("one"), Ward::new("two")];
    for ward in &wards {
        lab.set_up(&network, ward);
    }
    drop(network);
    plugins.configure("{");
    let network = lab.open(plugins.kind());
    assert_eq!(lab.leases(&network).len(), 2);
    lab.tear_down(&network, &wards[0]);
    drop(network);
    // The network is another's now, and the pod's namespace is gone.
    let network = lab.open(bridge());
    let gone = Path::new("/proc/self/ns/gone");
    lab.runtime.block_on(network.tear_down(&wards[1].pod.id, Some(gone))).unwrap();
    assert_eq!((lab.leases(&network), plugins.reserved(), plugins.kept()), (vec![], vec![], vec![]));
}

#[test]
fn plugins_are_told_what_the_specification_says() {
    let plugins = Plugins::new();
    plugins.bridge(r#",{"type":"teller","capabilities":{"portMappings":true}}"#);
    plugins.script(
        "teller",
        r#"cat > $DIR/$CNI_COMMAND.in
           env | grep ^CNI_ | sort > $DIR/$CNI_COMMAND.env
           test $CNI_COMMAND = DEL && exit 0
           sed 's/.*"prevResult":\({.*}\),"runtimeConfig".*/\1/' $DIR/ADD.in"#,
    );
    let (lab, network) = (&plugins.lab, plugins.lab.open(plugins.kind()));
    let ward = Ward::new("one").with_port(port(Protocol::Udp, 53, 5353));
    lab.set_up(&network, &ward);
    lab.tear_down(&network, &ward);
    for command in ["ADD", "DEL"] {
        let input: serde_json::Value = serde_json::from_str(&plugins.read(&format!("{command}.in"))).unwrap();
        assert_eq!(input["name"], "net");
        assert_eq!(input["cniVersion"], "1.0.0");
        assert_eq!(input["prevResult"]["ips"][0]["address"], "10.3.0.2/24", "{command}: {input}");
        let mapping = &input["runtimeConfig"]["portMappings"][0];
        assert_eq!((&mapping["hostPort"], &mapping["containerPort"]), (&53.into(), &5353.into()));
        assert_eq!(mapping["protocol"], "udp");
        let environment = plugins.read(&format!("{command}.env"));
        for line in [
            format!("CNI_COMMAND={command}"),
            format!("CNI_CONTAINERID={}", ward.pod.id),
            format!("CNI_NETNS={}", ward.pod.netns.display()),
            "CNI_IFNAME=eth0".to_owned(),
            format!("CNI_PATH={}:{DEBIAN}", plugins.bin.display()),
        ] {
            assert!(environment.lines().any(|found| found == line), "{line}: {environment}");
        }
        assert!(environment.contains("K8S_POD_NAMESPACE=default;K8S_POD_NAME=one;"), "{environment}");
    }
}

#[test]
fn a_plugin_that_fails_is_told_in_its_own_words_and_the_others_are_taken_back() {
    let plugins = Plugins::new();
    plugins.bridge(r#",{"type":"failing"}"#);
    plugins.script(
        "failing",
        r#"test $CNI_COMMAND = DEL && exit 0
           printf '%s' '{"code":7,"msg":"out of luck","details":"since\nMonday"}'; exit 1"#,
    );
    let (lab, network) = (&plugins.lab, plugins.lab.open(plugins.kind()));
    let ward = Ward::new("one");
    let error = lab.try_set_up(&network, &ward).unwrap_err();
    assert_eq!(error.to_string(), "the CNI plugin failing failed at ADD: out of luck; since Monday");
    assert_eq!((plugins.reserved(), plugins.kept()), (vec![], vec![]));
    assert_eq!(devices(&ward.ns), ["lo"]);
    plugins.script("failing", "echo bad >&2; echo worse >&2; exit 1");
    let error = lab.try_set_up(&network, &ward).unwrap_err();
    assert_eq!(error.to_string(), "the CNI plugin failing failed at ADD: bad worse");
    assert_eq!(lab.leases(&network), [ward.pod.id.as_str()], "what could not be taken back is kept in mind");
    let error = lab.runtime.block_on(network.tear_down(&ward.pod.id, None)).unwrap_err();
    assert!(error.to_string().contains("at DEL: bad worse"), "{error}");
    plugins.script("failing", "exit 0");
    lab.tear_down(&network, &ward);
    assert_eq!((plugins.reserved(), plugins.kept()), (vec![], vec![]));
}

#[test]
fn a_plugin_that_is_not_there_is_told_by_name() {
    let plugins = Plugins::new();
    plugins.bridge(r#",{"type":"nowhere"}"#);
    let (lab, network) = (&plugins.lab, plugins.lab.open(plugins.kind()));
    let not_ready = lab.runtime.block_on(network.ready()).unwrap_err();
    assert!(not_ready.contains(r#""nowhere""#) && not_ready.contains(DEBIAN), "{not_ready}");
    let error = lab.try_set_up(&network, &Ward::new("one")).unwrap_err();
    assert!(matches!(error, Error::NoCniPlugin { .. }) && error.hint().is_some(), "{error}");
}

/// A caller that stops waiting, as a request that is cancelled does, ends nothing.
#[test]
fn what_nobody_waits_for_any_more_is_over_before_it_is_taken_back() {
    let plugins = Plugins::new();
    plugins.configure(r#"{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"slow"}]}"#);
    plugins.script(
        "slow",
        r#"if test $CNI_COMMAND = ADD; then touch $DIR/begun; n=0; while ! test -e $DIR/go && test $n -lt 1000; do n=$((n+1)); sleep 0.02; done; fi
           echo $CNI_COMMAND >> $DIR/order
           echo '{"cniVersion":"1.0.0","ips":[{"address":"10.3.0.9/24"}]}'"#,
    );
    let lab = &plugins.lab;
    let network = lab.open(plugins.kind());
    let ward = Ward::new("one");
    lab.runtime.block_on(async {
        let begun = async {
            while !lab.dir.path().join("begun").exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::select! { _ = network.set_up(&ward.pod) => panic!("it cannot be done yet"), () = begun => {} }
    });
    let id = ward.pod.id.clone();
    let deleting = lab.runtime.spawn(async move { network.tear_down(&id, None).await });
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!lab.dir.path().join("order").exists(), "DEL came before ADD was over");
    fs::write(lab.dir.path().join("go"), "").unwrap();
    lab.runtime.block_on(deleting).unwrap().unwrap();
    assert_eq!((plugins.read("order").as_str(), plugins.kept()), ("ADD\nDEL\n", vec![]));
}
