//! What is old, pinned or damaged.

use crate::support;

use support::{Host, names};

#[test]
fn leases_of_earlier_boots_go_only_on_request_and_when_nothing_speaks_for_them() {
    let host = Host::new();
    host.write("srv/db/file", "");
    host.done("ids lease web");
    host.done("ids lease db --place /srv/db");
    host.done("ids lease pod-1 --write-record");
    host.done("ids lease sandbox --until-reboot");
    host.boot("boot-2");
    host.shows(
        "ids gc",
        "web: of an earlier boot, kept
db: of an earlier boot, kept
pod-1: of an earlier boot, kept
HOLDER   UIDS           OUTCOME
sandbox  262144-327679  quarantined: vacant, rests until TIME
~ stderr
note: leases of earlier boots: web (and 2 more); `wardlet ids gc --earlier-boots` releases those that nothing uses
",
    );
    host.shows(
        "ids gc --earlier-boots",
        "web: of an earlier boot, released
db: of an earlier boot, kept: /srv/db still exists
pod-1: of an earlier boot, kept: kubelet record of pod pod-1
HOLDER   UIDS           OUTCOME
web      65536-131071   quarantined: vacant, rests until TIME
sandbox  262144-327679  quarantined: vacant, rests until TIME
",
    );
}

#[test]
fn a_lease_asked_for_again_is_of_this_boot() {
    let host = Host::new();
    host.done("ids lease web");
    host.boot("boot-2");
    host.done("ids lease web");
    host.shows("ids gc --earlier-boots", "nothing to free\n");
}

/// A ledger of which nothing is left but the mark: nobody knows who has the blocks below it.
fn damaged() -> Host {
    let host = Host::new();
    host.done("ids lease web");
    host.done("ids lease db");
    for name in names(&host.state()).iter().filter(|n| *n != "mark") {
        std::fs::remove_file(host.state().join(name)).unwrap();
    }
    host
}

#[test]
fn a_damaged_ledger_is_said_and_its_pinned_blocks_are_listed() {
    damaged().shows(
        "ids list",
        "HOLDER  STATE   UIDS          GIDS  SIZE    SINCE  NOTE
(none)  pinned  65536-720895  same  655360  <1m    [1]
[1] the ledger was damaged (it is missing) and no record names its holder;
    `wardlet ids gc --unpin HOST_ID` frees it once nothing uses it

pool: subuid and subgid entries of user kubelet
  uids and gids 65536-720895
  10 blocks of 65536 IDs, 0 free
leases: 0 leased, 0 draining, 0 quarantined, 5 pinned

user and group IDs, 65536 in each cell:
           0 HPPPPPPPPPP
  H host  - outside the pool  . free  L leased  d draining  q quarantined
  P pinned  x used or claimed by others
~ stderr
warning: the ledger STATE/ledger.db was damaged (it is missing); it was set aside and rebuilt from its copy; 5 blocks are pinned
",
    );
}

#[test]
fn a_pinned_block_is_freed_on_request_the_common_way() {
    let host = damaged();
    host.done("ids list");
    host.shows(
        "ids gc",
        "pinned: 65536-131071 131072-262143 262144-524287 524288-655359 655360-720895
  the ledger was damaged (it is missing) and no record names its holder;
  `wardlet ids gc --unpin HOST_ID` frees it once nothing uses it
",
    );
    for command in ["ids gc --unpin 196608", "ids gc --unpin 196608 --dry-run"] {
        host.shows(
            command,
            "~ stderr
error: no pinned block starts at 196608

hint: `wardlet ids list` shows the pinned blocks
~ exit 1
",
        );
    }
    host.done("ids gc --dry-run --unpin 65536");
    assert_eq!(host.json("ids gc")["pinned"].as_array().unwrap().len(), 5);
    let view = host.json("ids gc --unpin 65536 --unpin 131072");
    assert_eq!(view["verdicts"].as_array().unwrap().len(), 2, "{view}");
    assert_eq!(view["verdicts"][0]["outcome"], "quarantined");
    assert_eq!(view["pinned"].as_array().unwrap().len(), 3);
}
