use super::*;

fn read(line: &str) -> Call {
    Call::read(line.split_whitespace().map(OsString::from).collect(), Path::new("/here"))
}

fn created(line: &str) -> Create {
    match read(line).command {
        Command::Create(create) => create,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn containerds_call_is_understood() {
    let line = "--root /run/containerd/runc/k8s.io --log /b/log.json --log-format json --systemd-cgroup create \
                --bundle /b --pid-file /b/init.pid --console-socket /s abc";
    let call = read(line);
    assert_eq!(call.globals.root.as_deref(), Some(Path::new("/run/containerd/runc/k8s.io")));
    assert_eq!(call.globals.log.as_deref(), Some(Path::new("/b/log.json")));
    assert_eq!(call.globals.log_format, LogFormat::Json);
    let create = created(line);
    assert_eq!((create.id.as_str(), create.bundle.as_path()), ("abc", Path::new("/b")));
    assert_eq!(create.config, Path::new("/b/config.json"));
    assert_eq!(create.pid_file.as_deref(), Some(Path::new("/b/init.pid")));
}

#[test]
fn gvisors_shim_writes_values_behind_an_equals_sign() {
    let line = "--root=/run/r -log-format=json --log=/b/l --platform=systrap --net-raw create --bundle=/b --pid-file=/p x";
    let create = created(line);
    assert_eq!((create.id.as_str(), create.bundle.as_path()), ("x", Path::new("/b")));
    assert_eq!(read(line).globals.root.as_deref(), Some(Path::new("/run/r")));
}

#[test]
fn unknown_flags_do_not_hide_the_command_or_the_container() {
    assert_eq!(created("--shiny create x").id, "x");
    assert_eq!(created("--shiny value create x").id, "x");
    assert_eq!(created("--shiny=value --other create --shiny thing --bundle /b x").id, "x");
    assert_eq!(created("create x --bundle rel").bundle, Path::new("/here/rel"));
    assert_eq!(created("--log create create -- -x").id, "-x");
    assert_eq!(read("--log create create x").globals.log.as_deref(), Some(Path::new("/here/create")));
}

#[test]
fn without_a_bundle_it_is_where_the_caller_is_and_cruns_config_has_another_name() {
    assert_eq!(created("create x").bundle, Path::new("/here"));
    assert_eq!(created("create -f other.json x").config, Path::new("/here/other.json"));
}

#[test]
fn exec_ends_at_the_container() {
    let call = read("--root /r exec --process /p.json --detach --pid-file /x abc sh -c --process");
    let exec = Exec { id: "abc".into(), process: Some("/p.json".into()), user: None };
    assert_eq!(call.command, Command::Exec(exec));
    let exec = Exec { id: "abc".into(), process: None, user: Some("5:6".into()) };
    assert_eq!(read("exec -t -u 5:6 -e A=B abc id").command, Command::Exec(exec));
}

#[test]
fn the_command_line_of_the_cleanup_watcher_is_parsed_whatever_the_names_are() {
    for line in [
        "create x",
        "--root rel create x",
        "--root /r --log l --log-format json --systemd-cgroup create --bundle /b x",
        "--debug --root=/r run x",
    ] {
        let globals = read(line).globals;
        for id in ["x", "-x", "--", "--root", "create", "a b", "é"] {
            let watcher = CleanupWatcher { id: id.to_owned(), pid: 7, began: u64::MAX };
            let words = watcher.command_line(&globals);
            // From another working directory, in which relative paths do not exist.
            let call = Call::read(words, Path::new("/elsewhere"));
            assert_eq!(call.globals, globals, "{line}");
            assert_eq!(call.command, Command::CleanupWatcher(watcher), "{line} {id}");
        }
    }
    for line in [
        "wardlet-look-after",
        "wardlet-look-after 1 2",
        "wardlet-look-after 1 b x",
        "wardlet-look-after 1 2 x y",
    ] {
        assert_eq!(read(line).command, Command::Other, "{line}");
    }
}

#[test]
fn what_is_not_ours_is_anything_else() {
    for line in
        ["", "--version", "state x", "features", "--root /r kill x 9", "frobnicate", "create", "exec -t"]
    {
        assert_eq!(read(line).command, Command::Other, "{line}");
    }
    assert_eq!(read("delete --force x").command, Command::Delete("x".into()));
    assert_eq!(read("delete -f x").command, Command::Delete("x".into()));
}

#[test]
fn a_flag_is_added_behind_the_command() {
    let call = read("--root /r create --bundle /b x");
    let Command::Create(create) = &call.command else { panic!() };
    let words = call.words_with(&["--pid-file".into(), "/p".into()], create.flags_at);
    let line: Vec<_> = words.iter().filter_map(|w| w.to_str()).collect();
    assert_eq!(line.join(" "), "--root /r create --pid-file /p --bundle /b x");
}
