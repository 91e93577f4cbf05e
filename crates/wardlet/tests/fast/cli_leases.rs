//! From lease to release, as a person sees it.

use crate::support;

use support::{Host, names};

#[test]
fn a_lease_is_printed_and_asked_again_it_is_the_same() {
    let host = Host::new();
    for _ in 0..2 {
        host.shows(
            "ids lease web --place /srv/web --categories --until-reboot",
            "holder      web
state       leased
uids        65536-131071
gids        65536-131071
size        65536
tenure      until the next boot
place       /srv/web
categories  c0,c1
",
        );
    }
}

#[test]
fn a_list_shows_leases_pool_and_picture_in_eighty_columns() {
    let host = Host::with_subids(
        "alice:196608:65536\nkubelet:65536:655360\n",
        "alice:196608:65536\nkubelet:65536:655360\n",
    );
    host.done("ids lease web");
    host.done("ids lease db --ids 131072");
    host.done("ids lease gone");
    host.done("ids release gone");
    host.shows(
        "ids list",
        "HOLDER  STATE        UIDS           GIDS  SIZE    SINCE  NOTE
web     leased       65536-131071   same  65536   <1m
gone    quarantined  131072-196607  same  65536   <1m
db      leased       262144-393215  same  131072  <1m

pool: subuid and subgid entries of user kubelet
  uids and gids 65536-720895
  10 blocks of 65536 IDs, 6 free
leases: 2 leased, 0 draining, 1 quarantined, 0 pinned

user and group IDs, 65536 in each cell:
           0 HLqxLL.....
  H host  - outside the pool  . free  L leased  d draining  q quarantined
  P pinned  x used or claimed by others
",
    );
}

#[test]
fn a_large_pool_is_drawn_up_to_the_last_thing_of_interest() {
    let host = Host::with_subids("", "");
    host.done("ids lease web");
    host.shows(
        "ids list",
        "HOLDER  STATE   UIDS          GIDS  SIZE   SINCE  NOTE
web     leased  65536-131071  same  65536  <1m

pool: default: everything from 65536 up, nothing else is configured
  uids and gids 65536-4294901759
  65534 blocks of 65536 IDs, 65533 free
leases: 1 leased, 0 draining, 0 quarantined, 0 pinned

user and group IDs, 65536 in each cell:
           0 HL..............................................................
     4194304 free up to 4294901759
  H host  - outside the pool  . free  L leased  d draining  q quarantined
  P pinned  x used or claimed by others
",
    );
}

#[test]
fn lanes_that_differ_are_drawn_apart() {
    let host = Host::with_subids("kubelet:65536:131072\n", "kubelet:131072:131072\n");
    host.done("ids lease web");
    host.shows(
        "ids list",
        "HOLDER  STATE   UIDS          GIDS           SIZE   SINCE  NOTE
web     leased  65536-131071  131072-196607  65536  <1m

pool: subuid and subgid entries of user kubelet
  uids 65536-196607
  gids 131072-262143
  2 blocks of 65536 IDs, 1 free
leases: 1 leased, 0 draining, 0 quarantined, 0 pinned

user IDs, 65536 in each cell:
           0 HL.
group IDs, 65536 in each cell:
           0 H-L.
  H host  - outside the pool  . free  L leased  d draining  q quarantined
  P pinned  x used or claimed by others
",
    );
}

#[test]
fn a_node_without_a_ledger_has_no_leases_and_gets_no_ledger() {
    let host = Host::new();
    host.shows(
        "ids list",
        "no leases

pool: subuid and subgid entries of user kubelet
  uids and gids 65536-720895
  10 blocks of 65536 IDs, 10 free
leases: 0 leased, 0 draining, 0 quarantined, 0 pinned

user and group IDs, 65536 in each cell:
           0 H..........
  H host  - outside the pool  . free  L leased  d draining  q quarantined
  P pinned  x used or claimed by others
",
    );
    host.shows("ids list -o json", "[]\n");
    host.shows("ids release web", "~ stderr\nweb has no lease\n");
    host.shows("ids gc", "~ stderr\nthere is no ledger in STATE\n");
    host.shows(
        "ids audit",
        "no process, record or file on this host uses IDs from 65536 up\n\nOK: no owner has IDs of another\n",
    );
    host.shows("ids owner 70000", "~ stderr\nno owner has, uses or claims 70000\n~ exit 1\n");
    host.shows(
        "ids translate web --uid 1",
        "~ stderr\nerror: web has no lease\n\nhint: `wardlet ids list` shows all leases\n~ exit 2\n",
    );
    host.done("config");
    assert!(!host.state().exists());
    assert_eq!(names(&host.path("..")), ["host"]);
}

#[test]
fn ids_are_translated_both_ways_and_never_guessed() {
    let host = Host::with_subids("kubelet:65536:131072\n", "kubelet:131072:131072\n");
    host.done("ids lease web");
    host.shows("ids translate web --uid 1000 --gid 1000", "uid 1000 -> 66536\ngid 1000 -> 132072\n");
    host.shows(
        "ids translate web --uid 66536 --gid 132072 --reverse",
        "uid 66536 -> 1000\ngid 132072 -> 1000\n",
    );
    for words in ["ids translate web", "ids translate web -o json", "ids translate web --reverse"] {
        let ran = host.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words}: {ran:?}");
        assert!(ran.stderr.contains("<--uid <N>|--gid <N>>"), "{words}: {ran:?}");
    }
    host.shows(
        "ids translate web --uid 5 --gid 65536 -o json",
        "{
  \"uid\": 65541,
  \"gid\": null
}
~ stderr
error: gid 65536 is not mapped in this user namespace

hint: web has 65536 IDs inside, 0-65535: on the host uids 65536-131071, gids 131072-196607
~ exit 1
",
    );
    host.shows(
        "ids translate web --uid 4294967295",
        "~ stderr\nerror: 4294967295 is not an ID: IDs go from 0 to 4294967294\n~ exit 2\n",
    );
}

#[test]
fn the_owner_of_an_id_is_named_for_users_and_groups() {
    let host = Host::new();
    host.write("etc/passwd", "alice:x:70000:70001::/home/alice:/bin/sh\n");
    host.done("ids lease web");
    host.shows(
        "ids owner 131072",
        "KIND  HOLD    IDS            OWNER
uid   leased  131072-196607  lease of web
gid   leased  131072-196607  lease of web
",
    );
    host.shows(
        "ids owner 70000",
        "KIND  HOLD     IDS          OWNER
uid   claimed  70000-70000  user alice (/etc/passwd line 1)
",
    );
    host.shows(
        "ids owner 0",
        "KIND  HOLD     IDS      OWNER
uid   claimed  0-65535  the host itself
gid   claimed  0-65535  the host itself
",
    );
}

#[test]
fn a_released_block_rests_and_is_then_free() {
    let host = Host::new();
    host.config("userNamespaces: {quarantineSeconds: 0}\n");
    host.done("ids lease web");
    host.shows("ids gc", "nothing to free\n");
    host.shows("ids release web", "web  65536-131071  quarantined: vacant, rests until TIME\n");
    host.shows(
        "ids gc --dry-run",
        "HOLDER  UIDS          OUTCOME
web     65536-131071  free
~ stderr
nothing was changed: this was a dry run
",
    );
    host.shows("ids gc", "HOLDER  UIDS          OUTCOME\nweb     65536-131071  free\n");
    host.shows("ids list -o json", "[]\n");
    host.shows("ids release web", "~ stderr\nweb has no lease\n");
}

#[test]
fn a_place_that_still_exists_keeps_the_block() {
    let host = Host::new();
    host.write("srv/web/file", "");
    host.done("ids lease web --place /srv/web");
    host.shows(
        "ids release web",
        "web  65536-131071  draining: /srv/web still exists
~ stderr
`wardlet ids gc` frees it once nothing uses it
",
    );
    std::fs::remove_dir_all(host.path("srv/web")).unwrap();
    host.shows(
        "ids gc",
        "HOLDER  UIDS          OUTCOME\nweb     65536-131071  quarantined: vacant, rests until TIME\n",
    );
    host.shows(
        "ids lease web --place srv/web",
        "~ stderr\nerror: srv/web cannot be recorded with a lease: it is not absolute\n~ exit 2\n",
    );
}

#[test]
fn a_shared_block_drains_after_its_last_member() {
    let host = Host::new();
    host.done("ids lease a --shared batch");
    host.shows(
        "ids lease b --shared batch",
        "holder     batch
state      leased
uids       65536-131071
gids       65536-131071
size       65536
shared by  a b
",
    );
    host.shows(
        "ids release batch",
        "~ stderr
error: the shared lease batch still has 2 members, a among them

hint: release its members first
~ exit 1
",
    );
    host.shows("ids release a", "a has left batch; remaining members: 1\n");
    host.shows("ids release b", "batch  65536-131071  quarantined: vacant, rests until TIME\n");
}

#[test]
fn an_exhausted_pool_and_a_reached_cap_say_so() {
    let host = Host::with_subids("kubelet:65536:65536\n", "kubelet:65536:65536\n");
    host.done("ids lease web");
    host.shows(
        "ids lease db",
        "~ stderr
error: db: no block of 65536 IDs is free: of 1 blocks 1 are leased, 0 draining, 0 quarantined, 0 pinned

hint: give the pool more ranges (userNamespaces.pool, or subuid and subgid), or stop pods
~ exit 1
",
    );
    host.config("userNamespaces: {maxPods: 1, pool: {uids: [\"65536-262143\"]}}\n");
    host.shows(
        "ids lease db",
        "~ stderr
error: db: 1 isolated pods are running and userNamespaces.maxPods allows 1

hint: raise or remove userNamespaces.maxPods
~ exit 1
",
    );
}

#[test]
fn a_lease_outside_a_changed_pool_stays_and_is_noted() {
    let host = Host::new();
    host.done("ids lease web");
    host.write("etc/subuid", "kubelet:131072:131072\n");
    host.write("etc/subgid", "kubelet:131072:131072\n");
    host.shows(
        "ids list",
        "HOLDER  STATE   UIDS          GIDS  SIZE   SINCE  NOTE
web     leased  65536-131071  same  65536  <1m    [1]
[1] lies outside the pool (subuid and subgid entries of user kubelet): stays its
    holder's until released, and is not leased again

pool: subuid and subgid entries of user kubelet
  uids and gids 131072-262143
  2 blocks of 65536 IDs, 2 free
leases: 1 leased, 0 draining, 0 quarantined, 0 pinned

user and group IDs, 65536 in each cell:
           0 HL..
  H host  - outside the pool  . free  L leased  d draining  q quarantined
  P pinned  x used or claimed by others
",
    );
}
