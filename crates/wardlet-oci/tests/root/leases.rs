//! Leases by sandbox, from the first call to the last, with Debian's runc. Needs root.

use crate::asking;
use crate::isolation;
use crate::wrapped;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use asking::{Emptied, RUNC, asking, done, given_back, held, init, leases, root};
use ids::allocator::State;
use isolation::{Host, debians};
use serde_json::{Value, json};
use testkit::{wait_for, wait_until};
use wrapped::{Wrapped, identity, stderr};

fn map(pid: u32) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

#[test]
fn a_pod_has_one_block_from_its_first_container_to_its_last() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let mut pod = host.pod(0);
        let (sandbox, bundle) = asking(host, &pod, None, |_| {});
        let before = identity(&bundle.join("config.json"));
        done(&wrapped.create(&bundle, &sandbox));
        assert_eq!(identity(&bundle.join("config.json")), before, "the caller's file is the caller's");
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &sandbox]));
        let first = init(&bundle);
        let lines = map(first);
        let base = lines[1];
        assert_eq!(lines, [0, base, 65_536]);
        assert!((1_310_720_000..=1_327_431_680).contains(&base), "{base}");
        pod.init = Some(first);

        let (container, inner) = asking(host, &pod, Some(&sandbox), |_| {});
        done(&wrapped.create(&inner, &container));
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &container]));
        let user = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/user")).unwrap();
        assert_eq!(user(init(&inner)), user(first));
        let said =
            wrapped.call(&["--root", &root(&wrapped), "exec", &container, "cat", "/proc/self/uid_map"]);
        let words: Vec<String> =
            String::from_utf8_lossy(&said.stdout).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["0", &base.to_string(), "65536"], "{}", stderr(&said));

        let lease = &leases(&wrapped)[0];
        let name = format!("oci:{}/{sandbox}", root(&wrapped));
        assert_eq!(u64::from(lease.uids.base()), base);
        assert_eq!(lease.holder.as_ref().unwrap().as_str(), name);
        let uppers: Vec<_> = [&bundle, &inner].iter().map(|b| isolation::checks::upper_of(host, b)).collect();
        assert_eq!(lease.places, uppers, "what lies on disk of it");
        assert_eq!(wrapped.records().len(), 2);

        for id in [&container, &sandbox] {
            assert_eq!(held(&wrapped), 1);
            done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", id]));
        }
        assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0));
        assert_eq!(leases(&wrapped)[0].state, State::Draining, "not free before it is seen to be vacant");
    });
}

#[test]
fn a_create_that_fails_gives_back_what_it_took() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let pod = host.pod(0);
        let mounts = host.mounts();
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 3] = [
            (|s| s["process"]["args"] = json!(["/no/such/program"]), "no such file"),
            (|s| s["linux"]["sysctl"] = json!({"net.core.no_such_thing": "1"}), "no_such_thing"),
            (|s| s["root"]["path"] = json!("nowhere"), "nowhere"),
        ];
        for (change, cause) in cases {
            let (id, bundle) = asking(host, &pod, None, change);
            let before = identity(&bundle.join("config.json"));
            let output = wrapped.create(&bundle, &id);
            let log = fs::read_to_string(bundle.join("log.json")).unwrap_or_default();
            assert_eq!(output.status.code(), Some(1), "{cause}: {}", stderr(&output));
            assert!(format!("{log}{}", stderr(&output)).contains(cause), "{cause}: {log}{}", stderr(&output));
            given_back(&wrapped);
            assert_eq!(identity(&bundle.join("config.json")), before);
            rustix::mount::unmount(bundle.join("rootfs"), rustix::mount::UnmountFlags::DETACH).unwrap();
        }
        host.assert_mounts(&mounts, "at the end");
    });
}

/// A runtime that never ends, to be killed in the middle of a create; it says when it runs, and this of what it is to
/// delete, of which it knows nothing.
fn endless(wrapped: &Wrapped, deletes: u8) -> PathBuf {
    let (runtime, running) = (wrapped.path("endless"), wrapped.path("running"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo runc version 1.3.0 && exit 0\n\
         for word; do case $word in delete) exit {deletes};; esac; done\necho $$ > {}\nexec sleep 1000\n",
        running.display()
    );
    fs::write(&runtime, text).unwrap();
    fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    runtime
}

/// A create that an endless runtime is at, and that runtime's number.
fn being_made(wrapped: &Wrapped, bundle: &Path, id: &str) -> (isolation::Killed, u32) {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (root, pid_file, bundle) = (root(wrapped), text(&bundle.join("init.pid")), text(bundle));
    let words = ["--root", &root, "create", "--bundle", &bundle, "--pid-file", &pid_file, id];
    let child = isolation::Killed(wrapped.command(&words).spawn().unwrap());
    loop {
        let said = fs::read_to_string(wrapped.path("running")).ok();
        match said.and_then(|text| text.trim().parse().ok()) {
            Some(pid) => return (child, pid),
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// As containerd deletes a sandbox whose shim has died in the middle of a create: runc knows of none, and is content.
#[test]
fn a_delete_takes_nothing_from_a_sandbox_that_is_still_being_made() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let runtime = endless(&wrapped, 0);
        wrapped.configure(&runtime, "enable_user_namespace_annotation: true", "");
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        let (mut child, _) = being_made(&wrapped, &bundle, &id);
        let delete = || done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &id]));
        delete();
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1));
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        delete();
        assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0));
    });
}

#[test]
fn the_lease_is_there_before_the_runtime_runs_and_a_killed_wrapper_takes_the_runtime_along() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let runtime = endless(&wrapped, 1);
        wrapped.configure(&runtime, "enable_user_namespace_annotation: true", "");
        let pod = host.pod(0);
        let (id, bundle) = asking(host, &pod, None, |_| {});
        let (mut child, running) = being_made(&wrapped, &bundle, &id);
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1));
        let second = wrapped.create(&bundle, &id);
        assert!(stderr(&second).contains("is there already, or is being made"), "{}", stderr(&second));
        assert_eq!(held(&wrapped), 1, "the second call takes nothing from the first");
        assert_eq!(running, child.0.id(), "it has become the runtime");
        child.0.kill().unwrap();
        assert_eq!(child.0.wait().unwrap().signal(), Some(9));
        given_back(&wrapped);
    });
}

/// The wrapper's processes.
fn processes(wrapped: &Wrapped) -> Vec<i32> {
    let config = wrapped.path("config.yaml").display().to_string();
    let is_ours = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        program == Path::new(env!("CARGO_BIN_EXE_wardlet-oci"))
            && String::from_utf8_lossy(&environment).contains(&config)
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
}

/// The cleanup watcher of a create that is under way.
fn watcher(wrapped: &Wrapped) -> i32 {
    wait_for("a cleanup watcher, and nothing else of the wrapper's", || match processes(wrapped)[..] {
        [pid] => Some(pid),
        _ => None,
    })
}

/// Creates a container, and waits until the cleanup watcher of the create has ended.
fn create_and_settle(wrapped: &Wrapped, bundle: &Path, id: &str) {
    done(&wrapped.create(bundle, id));
    wait_until("the cleanup watcher has ended", || processes(wrapped).is_empty());
}

#[test]
fn the_cleanup_watcher_has_nothing_of_its_caller_and_may_be_killed_as_well() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let runtime = endless(&wrapped, 1);
        wrapped.configure(&runtime, "enable_user_namespace_annotation: true", "");
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        let (mut child, running) = being_made(&wrapped, &bundle, &id);
        let children = fs::read_to_string(format!("/proc/{running}/task/{running}/children")).unwrap();
        assert_eq!(children.trim(), "", "a runtime may wait for all children");
        let behind = watcher(&wrapped);
        let link = |name: &str| fs::read_link(format!("/proc/{behind}/{name}")).unwrap();
        let open = || {
            let links = fs::read_dir(format!("/proc/{behind}/fd")).unwrap().flatten();
            links.filter_map(|fd| fs::read_link(fd.path()).ok()).collect::<BTreeSet<_>>()
        };
        let expected = BTreeSet::from(["/dev/null", "anon_inode:[pidfd]"].map(PathBuf::from));
        wait_until("the watcher has nothing open of its caller's", || open() == expected);
        assert_eq!(link("cwd"), Path::new("/"));
        assert_eq!(link("ns/mnt"), fs::read_link("/proc/thread-self/ns/mnt").unwrap());
        assert_ne!(link("ns/mnt"), fs::read_link(format!("/proc/{running}/ns/mnt")).unwrap());

        let behind = rustix::process::Pid::from_raw(behind).unwrap();
        rustix::process::kill_process(behind, rustix::process::Signal::KILL).unwrap();
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1), "nobody is left to give it back");
        // The runtime knows of no such container and fails; there is nothing left of it all the same.
        let deleted = wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &id]);
        assert_eq!(deleted.status.code(), Some(1));
        assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0));
    });
}

#[test]
fn what_a_crash_left_is_given_back_with_the_next_sandbox_that_ends() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let (lost, survivor) = (host.pod(0), host.pod(0));
        let (lost_id, bundle) = asking(host, &lost, None, |_| {});
        let (other_id, other) = asking(host, &survivor, None, |_| {});
        let (last_id, last) = asking(host, &survivor, None, |_| {});
        for (id, bundle) in [(&lost_id, &bundle), (&other_id, &other), (&last_id, &last)] {
            done(&wrapped.create(bundle, id));
        }
        assert_eq!(held(&wrapped), 3);
        assert_ne!(map(init(&bundle)), map(init(&other)));
        // As if shim and containerd had gone: the runtime is never asked through us.
        let gone = std::process::Command::new(RUNC)
            .args(["--root", &root(&wrapped), "delete", "--force", &lost_id])
            .output()
            .unwrap();
        done(&gone);
        assert_eq!(held(&wrapped), 3);
        done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &last_id]));
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1));
        assert_eq!(wrapped.records()[0].container, other_id);
    });
}

#[test]
fn a_delete_that_fails_while_the_pod_runs_keeps_the_lease() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let pod = host.pod(0);
        let (id, bundle) = asking(host, &pod, None, |_| {});
        done(&wrapped.create(&bundle, &id));
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &id]));
        let refused = wrapped.call(&["--root", &root(&wrapped), "delete", &id]);
        assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1));
    });
}

#[test]
fn a_record_that_nobody_can_read_keeps_no_pod_from_being_deleted() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let pod = host.pod(0);
        let (id, bundle) = asking(host, &pod, None, |_| {});
        done(&wrapped.create(&bundle, &id));
        let file = wrapped.path("run/containers");
        let file = fs::read_dir(file).unwrap().next().unwrap().unwrap().path().join(format!("{id}.json"));
        fs::write(&file, "{\"version\":2}").unwrap();
        let exec = wrapped.call(&["--root", &root(&wrapped), "exec", &id, "true"]);
        assert_eq!(exec.status.code(), Some(1), "what is not known is not handed over");
        done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &id]));
        assert_eq!(held(&wrapped), 0);
        assert!(!file.exists());
    });
}

/// As with CRI-O, which names `WARDLET_CONFIG` to the call that creates and not to the one that runs one more process.
#[test]
fn nothing_is_run_in_a_pod_by_a_call_that_does_not_know_of_it() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        done(&wrapped.create(&bundle, &id));
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &id]));
        let network = ["--root", &root(&wrapped), "exec", &id, "readlink", "/proc/self/ns/net"];
        let inside = wrapped.call(&network);
        done(&inside);
        let stdout = |output: &Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let own = fs::read_link(format!("/proc/{}/ns/net", init(&bundle))).unwrap();
        assert_eq!(Path::new(&stdout(&inside)), own);

        let other = wrapped.path("other.yaml");
        fs::write(
            &other,
            format!("wrapper: {{runtime: {RUNC}, runDir: {}}}\n", wrapped.path("elsewhere").display()),
        )
        .unwrap();
        let refused = wrapped.command(&network).env("WARDLET_CONFIG", &other).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
        let said = stderr(&refused);
        assert!(said.contains("there is no record of it in") && said.contains("elsewhere"), "{said}");
        assert!(said.contains("hint: have every call read the configuration"), "{said}");
    });
}

#[test]
fn the_cleanup_watcher_takes_nothing_that_is_anothers_or_still_there() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        create_and_settle(&wrapped, &bundle, &id);
        let maker = wrapped.records()[0].creator;
        let watch = |began: u64| {
            let (pid, began) = (maker.pid().to_string(), began.to_string());
            done(&wrapped.call(&["--root", &root(&wrapped), "wardlet-look-after", &pid, &began, &id]));
            (held(&wrapped), wrapped.records().len())
        };
        assert_eq!(watch(maker.began()), (1, 1), "the pod is there");
        let init = rustix::process::Pid::from_raw(init(&bundle).cast_signed()).unwrap();
        rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
        let stat = format!("/proc/{}/stat", init.as_raw_nonzero());
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(watch(maker.began() + 1), (1, 1), "another one has made it");
        assert_eq!(watch(maker.began()), (0, 0));
        assert_eq!(watch(maker.began()), (0, 0));
    });
}

/// A process that is another's, which youki would take for a container's first one.
struct Stranger(std::process::Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// youki itself is not to be had here: a stand-in says that it is youki, and notes that it was called.
#[test]
fn youki_runs_nothing_in_a_pod_by_a_call_that_does_not_know_of_it() {
    let wrapped = Wrapped::before_a_witness();
    let witness = wrapped.path("witness");
    let text = fs::read_to_string(&witness).unwrap();
    fs::write(&witness, text.replace("echo runc version 1.3.0", "echo youki version: 0.5.0")).unwrap();
    let state = wrapped.path("root/x/state.json");
    fs::create_dir_all(state.parent().unwrap()).unwrap();
    let exec = |words: &[&str], annotations: Value| {
        let stranger = Stranger(std::process::Command::new("unshare").args(words).spawn().unwrap());
        let (pid, name) = (stranger.0.id(), format!("/proc/{}/comm", stranger.0.id()));
        while fs::read_to_string(&name).unwrap() != "sleep\n" {
            std::thread::sleep(Duration::from_millis(1));
        }
        fs::write(&state, json!({"pid": pid, "annotations": annotations}).to_string()).unwrap();
        let output = wrapped.call(&["--root", &root(&wrapped), "exec", "x", "true"]);
        (output.status.code(), wrapped.called().is_some(), stderr(&output))
    };
    let (ours, others) = (json!({"wardlet.dev/block": "1310720000:1310720000:65536"}), json!({}));
    let (own_users, hosts) = (["--user", "--map-root-user", "sleep", "60"], ["--uts", "sleep", "60"]);
    let (code, called, said) = exec(&own_users, ours.clone());
    assert_eq!((code, called), (Some(1), false), "{said}");
    assert!(said.contains("there is no record of it in"), "{said}");
    assert!(exec(&own_users, others).1, "what was made by others is theirs");
    assert!(exec(&hosts, ours).1, "one with the host's users has them already");
}

#[test]
fn a_pod_that_asked_while_the_gate_was_closed_bars_no_way_for_those_that_ask_later() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        wrapped.configure(Path::new(RUNC), "enable_user_namespace_annotation: false", "");
        let (early, bundle) = asking(host, &host.pod(0), None, |_| {});
        done(&wrapped.create(&bundle, &early));
        assert_eq!(wrapped.records().len(), 1, "it is written down");
        wrapped.configure(Path::new(RUNC), "enable_user_namespace_annotation: true", "");
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        done(&wrapped.create(&bundle, &id));
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &id]));
        assert_eq!(map(init(&bundle))[2], 65_536);
        done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &early]));
    });
}

#[test]
fn a_pod_is_deleted_also_where_its_lease_cannot_be_given_back_yet() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        create_and_settle(&wrapped, &bundle, &id);
        let (state, aside) = (wrapped.path("state"), wrapped.path("aside"));
        fs::rename(&state, &aside).unwrap();
        fs::write(&state, "no directory").unwrap();
        done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &id]));
        assert_eq!(wrapped.records().len(), 1, "what is left of it is known");
        fs::remove_file(&state).unwrap();
        fs::rename(&aside, &state).unwrap();
        assert_eq!(held(&wrapped), 1);
        // The next one that ends finds it.
        let (other, bundle) = asking(host, &host.pod(0), None, |_| {});
        done(&wrapped.create(&bundle, &other));
        done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &other]));
        assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0));
    });
}

/// A runtime that keeps the configuration that it was given, and makes nothing.
fn keeper(wrapped: &Wrapped) -> PathBuf {
    let (runtime, dir) = (wrapped.path("keeper"), wrapped.dir.path().display());
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo runc version 1.3.0 && exit 0\n\
         while [ $# -gt 0 ]; do [ \"$1\" = --bundle ] && cp \"$2/config.json\" {dir}/given; shift; done\nexit 1\n"
    );
    fs::write(&runtime, text).unwrap();
    fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    runtime
}

#[test]
fn the_configuration_says_which_block_it_is_and_where_in_its_pool() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let gate = "enable_user_namespace_annotation: true\n  user_namespace_host_uid_base: 1310720000\n  \
                    user_namespace_host_gid_base: 1310720000";
        wrapped.configure(&keeper(&wrapped), gate, "");
        wrapped.allow(131_072);
        let mut slots = Vec::new();
        for length in [None, Some("131072"), None] {
            let (id, bundle) = asking(host, &host.pod(0), None, |spec| {
                if let Some(length) = length {
                    spec["annotations"]["wardlet.dev/ids"] = json!(length);
                }
            });
            assert!(!wrapped.create(&bundle, &id).status.success());
            given_back(&wrapped);
            let given: Value = serde_json::from_slice(&fs::read(wrapped.path("given")).unwrap()).unwrap();
            let line = &given["linux"]["uidMappings"][0];
            let (base, size) = (line["hostID"].as_u64().unwrap(), line["size"].as_u64().unwrap());
            assert_eq!(given["annotations"]["wardlet.dev/block"], format!("{base}:{base}:{size}"));
            let slot: u64 =
                given["annotations"]["dev.gvisor.shim.userns.slot"].as_str().unwrap().parse().unwrap();
            assert_eq!(1_310_720_000 + slot * 65_536, base, "in blocks of the pool's length");
            slots.push((slot, size));
        }
        let [(one, 65_536), (double, 131_072), (two, 65_536)] = slots[..] else { panic!("{slots:?}") };
        assert!(
            one != two && ![one, two].contains(&double) && ![one, two].contains(&(double + 1)),
            "{slots:?}"
        );
    });
}
