//! Labels of pods: given where SELinux is on, and nowhere else. Needs root; with SELinux, also the host's contexts file.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use cri::client::Client;
use rustix::fs::lgetxattr;
use support::image::VOLUME;
use support::pods::{create, exec, in_users, pod, remove_pod, run_pod, shell, start};
use support::{House, Options, RunDir};

const FIRST: u32 = 1_376_256_000;
const ENFORCE: &str = "/sys/fs/selinux/enforce";

fn is_on() -> bool {
    Path::new(ENFORCE).exists()
}

fn is_enforced() -> bool {
    fs::read_to_string(ENFORCE).is_ok_and(|text| text == "1")
}

/// The label of a file, without following a link.
fn label(path: &Path) -> Option<String> {
    let mut bytes = [0; 256];
    let length = lgetxattr(path, "security.selinux", &mut bytes[..]).ok()?;
    Some(String::from_utf8(bytes[..length].to_vec()).unwrap().trim_end_matches('\0').to_owned())
}

/// A pod with one container, and what was asked for.
struct Running {
    sandbox: String,
    container: String,
}

impl Running {
    async fn new(client: &Client, config: &cri::PodSandboxConfig, volume: Option<cri::Mount>) -> Self {
        let sandbox = run_pod(client, config).await.unwrap();
        let mut wanted = shell("main", "exec sleep 1000", config);
        wanted.image.as_mut().unwrap().image = VOLUME.into();
        wanted.mounts.extend(volume);
        let container = create(client, &sandbox, &wanted, config).await.unwrap();
        start(client, &container).await.unwrap();
        Self { sandbox, container }
    }

    async fn says(&self, client: &Client, script: &str) -> (i32, String) {
        let answer = exec(client, &self.container, script).await.unwrap();
        let text = [answer.stdout, answer.stderr].concat();
        (answer.exit_code, String::from_utf8(text).unwrap().trim_end_matches(['\0', '\n']).to_owned())
    }

    /// The container's `/` as the host sees it.
    fn root(&self, house: &House) -> PathBuf {
        let path = house.state().join("runtime/containers").join(&self.container).join("started.json");
        let record: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        format!("/proc/{}/root", record["pid"]).into()
    }
}

fn mount(source: &Path, selinux_relabel: bool) -> cri::Mount {
    cri::Mount {
        host_path: source.display().to_string(),
        container_path: "/volume".into(),
        selinux_relabel,
        ..Default::default()
    }
}

fn level_of(label: &str) -> String {
    label.splitn(4, ':').nth(3).unwrap_or_default().to_owned()
}

/// A volume with a link that leads out of it.
fn volume(house: &House) -> (PathBuf, PathBuf) {
    let (volume, outside) = (house.dir.join("volume"), house.dir.join("outside"));
    fs::create_dir(&volume).unwrap();
    fs::write(volume.join("file"), "mine").unwrap();
    fs::write(&outside, "").unwrap();
    std::os::unix::fs::symlink(&outside, volume.join("link")).unwrap();
    for path in [&volume, &volume.join("file")] {
        std::os::unix::fs::chown(path, Some(FIRST), Some(FIRST)).unwrap();
    }
    (volume, outside)
}

async fn nothing_is_labelled(house: &House, client: &Client) {
    let (volume, outside) = volume(house);
    let before = label(&volume);
    let config = in_users(pod(house, "one"), FIRST);
    let one = Running::new(client, &config, Some(mount(&volume, true))).await;
    assert_eq!(one.says(client, "cat /volume/file").await, (0, "mine".to_owned()));
    assert_eq!((label(&volume), label(&outside)), (before, label(&house.dir)));
    remove_pod(client, &one.sandbox).await;
}

async fn every_pod_is_labelled_apart(house: &mut House, client: &Client) {
    let (volume, outside) = volume(house);
    let untouched = label(&outside);
    let config = in_users(pod(house, "one"), FIRST);
    let one = Running::new(client, &config, Some(mount(&volume, true))).await;
    let (_, own) = one.says(client, "cat /proc/self/attr/current").await;
    assert!(own.starts_with("system_u:system_r:container_t:s0:c"), "{own}");
    assert_eq!(one.says(client, "cat /proc/1/attr/current").await.1, own, "the first process as well");
    let of_files = format!("system_u:object_r:container_file_t:{}", level_of(&own));

    let root = one.root(house);
    for path in [
        "",
        "bin/busybox",
        "etc/hosts",
        "dev/shm",
        "dev",
        "data/seed",
        "volume",
        "volume/file",
        "volume/link",
    ] {
        assert_eq!(label(&root.join(path)).as_deref(), Some(of_files.as_str()), "{path}");
    }
    assert_eq!(label(&outside), untouched, "a link leads nowhere");
    let all = "cat /volume/file && echo a > /volume/new && echo a > /etc/new && echo a >> /etc/hosts && \
        echo a > /dev/shm/new && echo a > /data/new && echo a > /dev/null && mkdir /tmp/d && ls /proc/1 > /dev/null";
    assert_eq!(one.says(client, all).await, (0, "mine".to_owned()), "its own files are its own");

    // Another pod, of the same users even, is kept from them by its categories alone.
    let other =
        Running::new(client, &in_users(pod(house, "other"), FIRST), Some(mount(&volume, false))).await;
    let (_, others) = other.says(client, "cat /proc/self/attr/current").await;
    assert_ne!(level_of(&others), level_of(&own));
    let (code, text) = other.says(client, "cat /volume/file").await;
    if is_enforced() {
        assert!(code != 0 && text.contains("Permission denied"), "{code} {text}");
    } else {
        assert_eq!((code, text.as_str()), (0, "mine"));
    }

    let mut given = pod(house, "given");
    given.linux.as_mut().unwrap().security_context.as_mut().unwrap().selinux_options =
        Some(cri::SeLinuxOption { level: "s0:c2,c1".into(), ..Default::default() });
    let given = Running::new(client, &given, None).await;
    assert_eq!(
        given.says(client, "cat /proc/self/attr/current").await.1,
        "system_u:system_r:container_t:s0:c1,c2"
    );

    // What a pod has outlives the server, and the next one does not give it away again.
    house.kill();
    house.start().await;
    let client = &house.client().await;
    assert_eq!(one.says(client, "cat /proc/self/attr/current").await.1, own);
    let next = Running::new(client, &pod(house, "next"), None).await;
    let (_, label) = next.says(client, "cat /proc/self/attr/current").await;
    let levels = [&own, &others].map(|label| level_of(label));
    assert!(!levels.contains(&level_of(&label)) && level_of(&label) != "s0:c1,c2", "{label}");
    for pod in [one, other, given, next] {
        remove_pod(client, &pod.sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_selinux_is_on_every_pod_has_a_label_of_its_own_and_elsewhere_none_has_any() {
    let mut house = House::open(Options { run_dir: RunDir::Memory, ..Options::default() }).await;
    let client = house.client().await;
    if is_on() {
        every_pod_is_labelled_apart(&mut house, &client).await;
    } else {
        nothing_is_labelled(&house, &client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_systems_own_files_are_relabelled_for_nobody() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = pod(&house, "greedy");
    let sandbox = run_pod(&client, &config).await.unwrap();
    let mut wanted = shell("main", "true", &config);
    wanted.mounts.push(mount(Path::new("/sys/kernel"), true));
    let before = label(Path::new("/sys/kernel"));
    let made = create(&client, &sandbox, &wanted, &config).await;
    if is_on() {
        let refusal = made.unwrap_err();
        assert!(
            refusal.message().starts_with("mounts[0].selinux_relabel: /sys/kernel is a system directory"),
            "{refusal}"
        );
    } else {
        made.unwrap();
    }
    assert_eq!(label(Path::new("/sys/kernel")), before);
    remove_pod(&client, &sandbox).await;
}
