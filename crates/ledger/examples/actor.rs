//! The process under test: does what it is told to one ledger, and says what was acknowledged.
//!
//! `actor STATE_DIR OP…` runs the operations in order. Each acknowledgement is one line in one write,
//! so that what was promised is known even if the next instruction is the last.
//!
//! | operation | acknowledged as |
//! |---|---|
//! | `lease:NAME` | `ack lease NAME HOSTID` |
//! | `leases:PREFIX:N` | the same for `PREFIX-0` to `PREFIX-(N-1)` |
//! | `threads:T:N` | the same for `thread-T-N`, T threads at once |
//! | `labelled:NAME` | `ack lease NAME HOSTID`, with a pair of categories |
//! | `join:SHARED:NAME` | `ack join NAME HOSTID` |
//! | `release:NAME` | `ack release NAME` |
//! | `pair:NAME` | `ack pair NAME LOW HIGH`: a category pair without a block |
//! | `pairs:PREFIX:N` | the same for `PREFIX-0` to `PREFIX-(N-1)` |
//! | `name:NAME:LOW:HIGH` | `ack pair NAME LOW HIGH`: a pair that NAME names |
//! | `unpair:NAME` | `ack unpair NAME` |
//! | `known:NAME,…` | `ack known`: the runtime starts again and knows these, each as named or allocated before |
//! | `settle` | `ack settle` |
//! | `pass:SECONDS` | nothing; moves the clock of `ACTOR_NOW` |
//! | `fold` | nothing; closes the ledger and folds SQLite's log into the database |
//! | `clutch` | `ack clutch`; then keeps the ledger locked until stdin ends |
//! | `exclusive` | nothing; from here on the ledger is opened for each operation, exclusively |
//! | `story` | what the fixture of this version tells |
//!
//! Environment: `ACTOR_POOL=FIRST,COUNT` (in blocks), `ACTOR_QUARANTINE=SECONDS`, `ACTOR_NOW=SECONDS`.

use std::error::Error;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ids::pool::{IdPool, NamedSpan, PoolOrigin, PoolRequest};
use ids::witness::{Sighting, Witness, WitnessError};
use ids::{BlockLength, HostSpan};
use ledger::{
    BootId, Categories, Clock, Holder, Lease, LeaseRequest, Ledger, OpenMode, Options, PairInUse, PairUser,
    SystemClock,
};
use selinux::CategoryPair;

type Outcome = Result<(), Box<dyn Error>>;

const STORY: &[&str] = &[
    "lease:pod-kept",
    "labelled:pod-labelled",
    "join:nfs:pod-a",
    "join:nfs:pod-b",
    "join:nfs:pod-gone",
    "release:pod-gone",
    "lease:pod-resting",
    "lease:pod-freed",
    "release:pod-freed",
    "settle",
    "pass:60",
    "settle",
    "release:pod-resting",
    "settle",
    "lease:pod-draining",
    "release:pod-draining",
    "pair:box-own",
    "name:box-named:7:1023",
    "name:box-named-too:7:1023",
    "pair:box-gone",
    "unpair:box-gone",
    "fold",
];

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: actor STATE_DIR OP…")?);
    let ops: Vec<String> = arguments.collect();
    let mut actor = Actor::new(&dir)?;
    ops.iter().try_for_each(|op| {
        let done = actor.perform(op);
        if actor.mode == OpenMode::Exclusive {
            actor.ledger = None;
        }
        done
    })
}

struct Actor {
    dir: PathBuf,
    /// Opened by the first operation that needs it.
    ledger: Option<Ledger>,
    mode: OpenMode,
    clock: Arc<Hand>,
}

impl Actor {
    fn new(dir: &Path) -> Result<Self, Box<dyn Error>> {
        let now = std::env::var("ACTOR_NOW").ok().map(|s| s.parse()).transpose()?;
        let clock = Arc::new(Hand { set: now, passed: AtomicU64::new(0) });
        Ok(Self { dir: dir.to_owned(), ledger: None, mode: OpenMode::Shared, clock })
    }

    fn perform(&mut self, op: &str) -> Outcome {
        match op.split(':').collect::<Vec<_>>().as_slice() {
            ["lease", name] => self.lease(request(name)?),
            ["leases", prefix, n] => {
                (0..n.parse::<u32>()?).try_for_each(|i| self.lease(request(&format!("{prefix}-{i}"))?))
            }
            ["labelled", name] => self.lease(LeaseRequest { categories: Categories::Pair, ..request(name)? }),
            ["threads", threads, n] => self.threads(threads.parse()?, n.parse()?),
            ["join", shared, name] => {
                let joined = self.ledger()?.join(Holder::new(*shared)?, request(name)?)?;
                acknowledge(&format!("join {name} {}", joined.uids.base()))
            }
            ["release", name] => {
                self.ledger()?.release(Holder::new(*name)?)?;
                acknowledge(&format!("release {name}"))
            }
            ["pair", name] => self.pair(name),
            ["pairs", prefix, n] => {
                (0..n.parse::<u32>()?).try_for_each(|i| self.pair(&format!("{prefix}-{i}")))
            }
            ["name", name, low, high] => {
                let pair = CategoryPair::new(low.parse()?, high.parse()?)?;
                self.ledger()?.reserve_pair(user(name)?, pair)?;
                acknowledge(&format!("pair {name} {low} {high}"))
            }
            ["unpair", name] => {
                self.ledger()?.release_pair(Holder::new(*name)?)?;
                acknowledge(&format!("unpair {name}"))
            }
            ["known", names] => self.known(&names.split(',').collect::<Vec<_>>()),
            ["settle"] => {
                self.ledger()?.settle()?;
                acknowledge("settle")
            }
            ["pass", seconds] => {
                self.clock.passed.fetch_add(seconds.parse()?, Ordering::SeqCst);
                Ok(())
            }
            ["exclusive"] => {
                self.mode = OpenMode::Exclusive;
                Ok(())
            }
            ["fold"] => self.fold(),
            ["clutch"] => self.clutch(),
            ["story"] => STORY.iter().try_for_each(|op| self.perform(op)),
            _ => Err(format!("{op}: no such operation").into()),
        }
    }

    fn ledger(&mut self) -> Result<&Ledger, Box<dyn Error>> {
        if self.ledger.is_none() {
            let options = Options { mode: self.mode, ..options(&self.dir, Arc::clone(&self.clock))? };
            self.ledger = Some(Ledger::open(options)?);
        }
        self.ledger.as_ref().ok_or_else(|| "no ledger".into())
    }

    fn lease(&mut self, request: LeaseRequest) -> Outcome {
        acknowledge_lease(&self.ledger()?.lease(request)?)
    }

    fn pair(&mut self, name: &str) -> Outcome {
        let pair = self.ledger()?.allocate_pair(user(name)?, vec![])?;
        acknowledge(&format!("pair {name} {} {}", pair.low(), pair.high()))
    }

    fn known(&mut self, names: &[&str]) -> Outcome {
        let held = self.ledger()?.pairs()?;
        let known = held.into_iter().filter(|held| names.contains(&held.holder.as_str()));
        let known = known.map(|held| PairInUse {
            user: PairUser { holder: held.holder, place: held.place },
            pair: held.pair,
            origin: held.origin,
        });
        let known = known.collect();
        self.ledger()?.adopt_pairs(PLACES.into(), known)?;
        acknowledge("known")
    }

    fn threads(&mut self, threads: u32, n: u32) -> Outcome {
        let ledger = self.ledger()?;
        let work = |t: u32| -> Result<(), String> {
            (0..n).try_for_each(|i| {
                let request = request(&format!("thread-{t}-{i}")).map_err(|e| e.to_string())?;
                let leased = ledger.lease(request).map_err(|e| e.to_string())?;
                acknowledge_lease(&leased).map_err(|e| e.to_string())
            })
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|t| scope.spawn(move || work(t))).collect();
            running.into_iter().try_for_each(|r| match r.join() {
                Ok(done) => done.map_err(Into::into),
                Err(_) => Err("a thread panicked".into()),
            })
        })
    }

    fn fold(&mut self) -> Outcome {
        self.ledger = None;
        let db = rusqlite::Connection::open(self.dir.join("ledger.db"))?;
        Ok(db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn clutch(&self) -> Outcome {
        let file = std::fs::File::options().write(true).open(self.dir.join("ledger.lock"))?;
        file.lock()?;
        acknowledge("clutch")?;
        std::io::stdin().read_to_end(&mut Vec::new())?;
        Ok(())
    }
}

/// Where sandboxes have their places; none of them exists.
const PLACES: &str = "/nowhere/sandboxes";

fn user(name: &str) -> Result<PairUser, Box<dyn Error>> {
    Ok(PairUser { holder: Holder::new(name)?, place: Path::new(PLACES).join(name) })
}

fn request(name: &str) -> Result<LeaseRequest, Box<dyn Error>> {
    Ok(LeaseRequest::new(Holder::new(name)?))
}

fn acknowledge_lease(lease: &Lease) -> Outcome {
    let name = lease.holder.as_ref().map_or("", Holder::as_str);
    acknowledge(&format!("lease {name} {}", lease.uids.base()))
}

fn acknowledge(what: &str) -> Outcome {
    Ok(std::io::stdout().lock().write_all(format!("ack {what}\n").as_bytes())?)
}

fn options(dir: &Path, clock: Arc<Hand>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options::new(dir, pool()?, BootId("boot-1".to_owned()), Arc::new(Nobody));
    options.clock = clock;
    if let Ok(seconds) = std::env::var("ACTOR_QUARANTINE") {
        options.quarantine = Duration::from_secs(seconds.parse()?);
    }
    Ok(options)
}

fn pool() -> Result<IdPool, Box<dyn Error>> {
    let Ok(text) = std::env::var("ACTOR_POOL") else {
        return Ok(IdPool::default_for(BlockLength::DEFAULT, vec![])?);
    };
    let (first, count) = text.split_once(',').ok_or("ACTOR_POOL=FIRST,COUNT")?;
    let ids = HostSpan::new(first.parse::<u64>()? * ids::UNIT, count.parse::<u64>()? * ids::UNIT)?;
    let span = vec![NamedSpan { ids, origin: "ACTOR_POOL".to_owned() }];
    Ok(IdPool::new(PoolRequest {
        block: BlockLength::DEFAULT,
        uids: span.clone(),
        gids: span,
        excluded: vec![],
        origin: PoolOrigin::Default,
    })?)
}

struct Nobody;

impl Witness for Nobody {
    fn look(&self) -> Result<Sighting, WitnessError> {
        Ok(Sighting::default())
    }

    fn remaining(&self, _: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        Ok(Vec::new())
    }
}

struct Hand {
    set: Option<u64>,
    passed: AtomicU64,
}

impl Clock for Hand {
    fn now(&self) -> u64 {
        self.set.unwrap_or_else(|| SystemClock.now()) + self.passed.load(Ordering::SeqCst)
    }
}
