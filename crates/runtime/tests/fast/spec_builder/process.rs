//! Program, environment, directory, user.

use container::{Console, GroupPolicy, Rlimit, WantedUser};
use cri::{Int64Value, KeyValue, SupplementalGroupsPolicy};

use super::{Wish, strings};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[test]
fn a_command_replaces_the_entrypoint_and_the_images_arguments() {
    type Words = &'static [&'static str];
    let table: [(Words, Words, Words, Words, Words); 8] = [
        (&["c"], &["a"], &["e"], &["i"], &["c", "a"]),
        (&["c"], &[], &["e"], &["i"], &["c"]),
        (&[], &["a"], &["e"], &["i"], &["e", "a"]),
        (&[], &[], &["e"], &["i"], &["e", "i"]),
        (&[], &[], &[], &["i"], &["i"]),
        (&[], &["a"], &[], &["i"], &["a"]),
        (&[], &[], &[""], &["i"], &["i"]),
        (&[], &["a"], &[""], &[], &["a"]),
    ];
    for (command, args, entrypoint, cmd, expected) in table {
        let mut wish = Wish::new();
        (wish.config.command, wish.config.args) = (strings(command), strings(args));
        (wish.image.entrypoint, wish.image.cmd) = (strings(entrypoint), strings(cmd));
        assert_eq!(wish.start().process.args, expected, "{command:?} {args:?} {entrypoint:?} {cmd:?}");
    }
}

#[test]
fn nothing_to_run_is_refused() {
    let mut wish = Wish::new();
    wish.config.command.clear();
    assert_eq!(wish.refused("what to run"), "command");
    wish.config.args = strings(&["a\0b"]);
    assert_eq!(wish.refused("zero byte"), "command");
}

#[test]
fn the_environment_is_ours_then_the_images_then_the_containers() {
    let mut wish = Wish::new();
    assert_eq!(wish.start().process.env, [PATH, "HOSTNAME=node1"]);
    wish.sandbox.hostname = "pod".into();
    wish.image.env = strings(&["PATH=/bin", "A=image", "B=image", "EMPTY="]);
    let variable = |key: &str, value: &str| KeyValue { key: key.into(), value: value.as_bytes().to_vec() };
    wish.config.envs = vec![variable("B", "own"), variable("C", "x=y"), variable("B", "later")];
    let env = wish.start().process.env;
    assert_eq!(env, ["PATH=/bin", "HOSTNAME=pod", "A=image", "B=later", "EMPTY=", "C=x=y"]);
    wish.config.tty = true;
    assert_eq!(wish.start().process.env[1], "TERM=xterm");
    wish.config.envs.push(variable("TERM", "vt100"));
    assert_eq!(wish.start().process.env[1], "TERM=vt100");
}

#[test]
fn a_variable_that_is_none_is_refused_without_showing_its_value() {
    for (key, value, field) in [
        ("", b"v".as_slice(), "envs[0].key"),
        ("A=B", b"v", "envs[0].key"),
        ("A", b"secret\xff", "envs[0].value"),
        ("A", b"secret\0", "envs[0].value"),
    ] {
        let mut wish = Wish::new();
        wish.config.envs = vec![KeyValue { key: key.into(), value: value.to_vec() }];
        let refusal = wish.build().unwrap_err();
        assert_eq!(refusal.field, field);
        assert!(!refusal.to_string().contains("secret"), "{refusal}");
    }
}

#[test]
fn the_directory_is_the_containers_else_the_images_else_the_root() {
    for (own, image, expected) in
        [("", "", "/"), ("", "/srv", "/srv"), ("", "srv", "/srv"), ("/a", "/srv", "/a")]
    {
        let mut wish = Wish::new();
        (wish.config.working_dir, wish.image.working_dir) = (own.into(), image.into());
        assert_eq!(wish.start().process.cwd.to_str(), Some(expected));
    }
    let mut wish = Wish::new();
    wish.config.working_dir = "a".into();
    assert_eq!(wish.refused("not absolute"), "working_dir");
}

fn number(value: i64) -> Option<Int64Value> {
    Some(Int64Value { value })
}

#[test]
fn the_user_is_the_containers_else_the_images() {
    let user = |uid: Option<i64>, name: &str, gid: Option<i64>, image: &str| {
        let mut wish = Wish::new().with(|security| {
            security.run_as_user = uid.and_then(number);
            security.run_as_username = name.into();
            security.run_as_group = gid.and_then(number);
        });
        wish.image.user = image.into();
        wish.start().process.user
    };
    let none = WantedUser::default();
    let named = |name: &str| WantedUser { name: Some(name.into()), ..none.clone() };
    assert_eq!(user(None, "", None, ""), none);
    assert_eq!(user(None, "", None, "www:www"), named("www:www"));
    assert_eq!(user(None, "bob", None, "www"), named("bob"));
    assert_eq!(user(Some(0), "", None, "www"), WantedUser { uid: Some(0), ..none.clone() });
    assert_eq!(user(Some(7), "", Some(8), "www"), WantedUser { uid: Some(7), gid: Some(8), ..none.clone() });
    assert_eq!(user(None, "bob", Some(8), ""), WantedUser { gid: Some(8), ..named("bob") });
}

#[test]
fn groups_and_what_becomes_of_the_images() {
    let wish = Wish::new().with(|security| {
        security.supplemental_groups = vec![5, 6];
        security.supplemental_groups_policy = SupplementalGroupsPolicy::Strict.into();
    });
    let user = wish.start().process.user;
    assert_eq!((user.groups, user.policy), (vec![5, 6], GroupPolicy::Strict));
    assert_eq!(Wish::new().start().process.user.policy, GroupPolicy::Merge);
    let wish = wish.with(|security| security.supplemental_groups_policy = 9);
    assert_eq!(wish.refused("no policy"), "linux.security_context.supplemental_groups_policy");
}

#[test]
fn a_user_that_cannot_be_is_refused_by_its_field() {
    type Change = fn(&mut cri::LinuxContainerSecurityContext);
    let table: [(Change, &str, &str); 6] = [
        (|s| s.run_as_user = number(-1), "run_as_user", "no user or group ID"),
        (|s| s.run_as_user = number(4_294_967_295), "run_as_user", "no user or group ID"),
        (|s| s.run_as_group = number(5), "run_as_group", "without run_as_user"),
        (
            |s| (s.run_as_user, s.run_as_username) = (number(5), "bob".into()),
            "run_as_username",
            "together with run_as_user",
        ),
        (|s| s.supplemental_groups = vec![1, -5], "supplemental_groups", "no user or group ID"),
        (
            |s| (s.run_as_user, s.run_as_group) = (number(1), number(1 << 40)),
            "run_as_group",
            "no user or group ID",
        ),
    ];
    for (change, field, cause) in table {
        assert_eq!(Wish::new().with(change).refused(cause), format!("linux.security_context.{field}"));
    }
}

#[test]
fn an_id_that_the_pods_user_namespace_does_not_have_is_refused() {
    let user = |uid| Wish::in_user_namespace().with(|security| security.run_as_user = number(uid));
    assert_eq!(user(65_535).start().process.user.uid, Some(65_535));
    assert_eq!(user(65_536).refused("65536 is not mapped"), "linux.security_context.run_as_user");
    let group = Wish::in_user_namespace().with(|security| security.supplemental_groups = vec![70_000]);
    assert_eq!(group.refused("70000 is not mapped"), "linux.security_context.supplemental_groups");
    let host = Wish::new().with(|security| security.supplemental_groups = vec![70_000]);
    assert_eq!(host.start().process.user.groups, [70_000]);
}

#[test]
fn a_terminal_and_the_nodes_limits_are_handed_on() {
    let mut wish = Wish::new();
    assert_eq!(wish.start().process.console, Console::Pipes);
    wish.config.tty = true;
    assert_eq!(wish.start().process.console, Console::Terminal);
    let limit = Rlimit { kind: "RLIMIT_NOFILE".into(), soft: 1, hard: 2 };
    wish.node.rlimits = vec![limit.clone()];
    assert_eq!(wish.start().process.rlimits, [limit]);
}

#[test]
fn a_container_is_named_and_placed_where_it_was_told() {
    let start = Wish::new().start();
    assert_eq!(start.id, "c0ffee");
    assert_eq!(start.rootfs.upper.to_str(), Some("/state/c0ffee/rw/upper"));
    assert_eq!(start.rootfs.work.to_str(), Some("/state/c0ffee/rw/work"));
    assert_eq!(start.rootfs.lowers.len(), 2);
    assert!(!start.rootfs.read_only);
    assert_eq!(start.annotations["io.kubernetes.cri.sandbox-id"], "5a4db0");
    assert!(Wish::new().with(|security| security.readonly_rootfs = true).start().rootfs.read_only);
}
