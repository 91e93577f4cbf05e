//! The pages of controller and agent in a real browser, served by a small server of this test's own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use check::{
    Apply, Conflict, ConflictSide, Fix, FixOption, How, ObjectRef, Patch, Property, Severity, Summary,
    Target, User, Volume, When,
};
use report::html;
use report::pages::{
    BlockState, ClusterPage, Document, IdRow, IdSpace, IdUse, LastProof, NodePage, Proof, Watch,
};
use serde_json::json;
use testkit::wait_until;

use crate::browser::{Browser, Screen};

const DESK: Screen = Screen { width: 1180, height: 1500, scheme: "light" };
const DARK: Screen = Screen { width: 1180, height: 1500, scheme: "dark" };
const PHONE: Screen = Screen { width: 360, height: 1400, scheme: "light" };

/// What the server answers: a function of the path below the page and of the query.
type Answers = Arc<dyn Fn(&str, &str) -> Option<Document> + Send + Sync>;

/// A page with its server, and the browser that shows it.
struct Shown {
    browser: Browser,
    address: SocketAddr,
}

fn answer(stream: &TcpStream, answers: &Answers) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    // The headers are not needed, and must be read before the answer.
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
    let target = first.split(' ').nth(1)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let found = path.strip_prefix("/page/").and_then(|path| answers(path, query));
    let mut stream = stream;
    let written = match found {
        Some(Document { kind, body, policy }) => {
            let policy =
                policy.map(|policy| format!("Content-Security-Policy: {policy}\r\n")).unwrap_or_default();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{policy}Content-Length: {}\r\n",
                body.len()
            );
            stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
        }
        None => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    };
    written.ok()
}

impl Shown {
    fn new(answers: Answers, screen: Screen) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // It serves as long as the test runs.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answers = Arc::clone(&answers);
                std::thread::spawn(move || answer(&stream, &answers));
            }
        });
        let browser = Browser::start();
        browser.look_with(screen);
        browser.open_address(&format!("http://{address}/page/"));
        Self { browser, address }
    }

    /// The page of a cluster whose state the test changes.
    fn cluster(state: &Arc<Mutex<ClusterPage>>, screen: Screen) -> Self {
        let state = Arc::clone(state);
        Self::new(
            Arc::new(move |path: &str, query: &str| {
                html::cluster::document(&state.lock().unwrap(), path, query)
            }),
            screen,
        )
    }

    fn seen(&self, selector: &str) -> i64 {
        let script = format!(
            "return [...document.querySelectorAll({})].filter((e) => e.checkVisibility()).length",
            json!(selector)
        );
        self.browser.eval(&script).as_i64().unwrap()
    }

    fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({}).textContent", json!(selector));
        self.browser.eval(&script).as_str().unwrap().to_owned()
    }

    fn quiet(&self) {
        // A browser asks for the icon of every host.
        let said = self.browser.console().into_iter().filter(|line| !line.contains("favicon.ico"));
        assert_eq!(said.collect::<Vec<_>>(), Vec::<String>::new());
    }
}

fn object(name: &str) -> ObjectRef {
    ObjectRef { kind: "Deployment".into(), namespace: "shop".into(), name: name.into() }
}

fn user(name: &str, label: &str) -> User {
    let (label, policy) = (label.to_owned(), "MountOption".to_owned());
    User { workload: object(name), label, policy, nodes: vec!["n1".into()], pods: 1 }
}

fn side(name: &str, value: &str) -> ConflictSide {
    ConflictSide { workload: object(name), value: value.into(), pod: None, pods: 1 }
}

/// A volume whose two users conflict, and what settles that.
fn contested(number: usize) -> (Volume, Conflict, Fix) {
    let (a, b) = (format!("web-{number:04}"), format!("report-{number:04}"));
    let id = format!("kubernetes.io/csi/csi.example^{number:05}");
    let volume = Volume {
        id: id.clone(),
        claim: Some(format!("shop/claim-{number:04}")),
        driver: Some("csi.example".into()),
        users: vec![user(&a, ":::s0:c1,c2"), user(&b, ":::s0:c3,c4")],
        ..Volume::default()
    };
    let conflict = Conflict {
        property: Property::SELinuxLabel,
        volume: id.clone(),
        a: side(&a, ":::s0:c1,c2"),
        b: side(&b, ":::s0:c3,c4"),
        severity: Severity::MayMeet,
        why: "they may meet on one node".into(),
        when: When::AfterUpgrade,
        pairs: 1,
    };
    let patch = Patch {
        target: Target { api_version: "apps/v1".into(), object: object(&b) },
        body: json!({"spec": {"template": {"spec": {"securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}}}}}}),
        fields: 1,
        gives_up: vec![],
        apply: Apply::Patch,
        command: Some(format!("kubectl patch deployment {b} -n shop --patch-file FILE")),
    };
    let what = format!("give Deployment {b} the level s0:c1,c2");
    let option = FixOption { how: How::EqualLabels, what, fields: 1, gives_up: vec![], patches: vec![patch] };
    (volume, conflict, Fix { volume: id, options: vec![option] })
}

fn page(conflicts: usize) -> ClusterPage {
    let mut page = ClusterPage { watch: Watch::Live, revision: 1, ..ClusterPage::default() };
    for number in 0..conflicts {
        let (volume, conflict, fix) = contested(number);
        page.volumes.push(volume);
        page.conflicts.push(conflict);
        page.fixes.push(fix);
    }
    page.summary = Summary { conflicts, ..Summary::default() };
    page
}

fn state(conflicts: usize) -> Arc<Mutex<ClusterPage>> {
    Arc::new(Mutex::new(page(conflicts)))
}

/// The next state of the cluster.
fn set(state: &Arc<Mutex<ClusterPage>>, next: ClusterPage) {
    let mut state = state.lock().unwrap();
    *state = ClusterPage { revision: state.revision + 1, ..next };
}

#[test]
fn a_conflict_appears_and_goes_without_a_reload() {
    let state = state(0);
    let shown = Shown::cluster(&state, DESK);
    assert_eq!(shown.seen(".conflict"), 0);
    shown.browser.eval("window.loaded = true");
    set(&state, page(2));
    wait_until("the conflicts are there", || shown.seen(".conflict") == 2);
    assert!(shown.text("h1").starts_with("2 conflicts"), "{}", shown.text("h1"));
    assert_eq!(shown.text("[data-count=conflict]"), "2");
    set(&state, page(1));
    wait_until("one of them is gone", || shown.seen(".conflict") == 1);
    assert_eq!(shown.browser.eval("return window.loaded"), json!(true));
    shown.quiet();
}

#[test]
fn what_is_open_stays_open_and_shows_the_new_state() {
    let state = state(3);
    let shown = Shown::cluster(&state, DESK);
    shown.browser.click(".conflict summary");
    wait_until("the row is open", || shown.seen(".conflict .pairs") == 1);
    let mut next = page(3);
    next.conflicts[0].why = "they are on one node".into();
    set(&state, next);
    wait_until("the row shows the new state", || shown.text(".conflict .pairs").contains("on one node"));
    assert_eq!(shown.seen(".conflict[open]"), 1);
    shown.quiet();
}

#[test]
fn a_page_without_its_server_says_so_and_pausing_stops_it() {
    let state = state(1);
    let answers = Arc::clone(&state);
    let is_away = Arc::new(Mutex::new(false));
    let away = Arc::clone(&is_away);
    let answer = move |path: &str, query: &str| {
        (!*away.lock().unwrap()).then(|| html::cluster::document(&answers.lock().unwrap(), path, query))?
    };
    let shown = Shown::new(Arc::new(answer), DESK);
    wait_until("it is live", || shown.text("#live").starts_with("Live"));
    *is_away.lock().unwrap() = true;
    wait_until("it is not", || shown.text("#live").starts_with("Not live"));
    *is_away.lock().unwrap() = false;
    wait_until("it is again", || shown.text("#live").starts_with("Live"));
    shown.browser.click("#pause");
    assert_eq!(shown.text("#live"), "Updates are paused");
    set(&state, page(2));
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(shown.seen(".conflict"), 1);
}

#[test]
fn rows_are_searched_filtered_and_opened_by_keys_alone() {
    let state = state(60);
    let shown = Shown::cluster(&state, DESK);
    shown.browser.press(&["/"]);
    shown.browser.press(&["w", "e", "b", "-", "0", "0", "5", "7"]);
    assert_eq!(shown.seen(".conflict"), 1);
    assert_eq!(shown.text("[data-count=conflict]"), "1 of 60");
    // Its content is fetched: it is not among the first rows.
    shown.browser.eval("document.querySelector('.conflict:not([hidden]) summary').focus()");
    shown.browser.press(&["\u{e007}"]);
    wait_until("the content is there", || shown.seen(".conflict:not([hidden]) svg .volume") == 1);
    shown.browser.click("#filters button[type=reset]");
    shown.browser.click("#severity option[value='onOneNode']");
    assert_eq!(shown.seen(".conflict"), 0);
    shown.quiet();
}

#[test]
fn a_patch_is_copied_as_it_is_shown() {
    let shown = Shown::cluster(&state(1), DESK);
    shown.browser.allow_clipboard();
    shown.browser.click(".conflict summary");
    shown.browser.click(".conflict .option.best summary");
    shown.browser.click(".conflict .option.best [data-copy]");
    let copied =
        shown.browser.eval_async("navigator.clipboard.readText().then(done, (e) => done(String(e)))");
    assert!(copied.as_str().unwrap().contains("level: s0:c1,c2"), "{copied}");
    shown.quiet();
}

#[test]
fn a_phone_needs_no_sideways_scrolling_on_either_page() {
    let width = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    let open = "document.querySelectorAll('details').forEach((d) => { d.open = true; })";
    for shown in [Shown::cluster(&state(2), PHONE), Shown::new(node(), PHONE)] {
        shown.browser.eval(open);
        assert_eq!(shown.browser.eval(width), json!(0), "{}", shown.address);
        shown.quiet();
    }
}

#[test]
fn the_pages_are_dark_for_those_who_want_them_dark() {
    let colour = "return getComputedStyle(document.body).backgroundColor";
    let brightness = |shown: &Shown| -> u32 {
        let colour = shown.browser.eval(colour);
        let numbers = colour.as_str().unwrap().split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        numbers.filter_map(Result::ok).take(3).sum()
    };
    assert!(brightness(&Shown::new(node(), DESK)) > 600);
    assert!(brightness(&Shown::new(node(), DARK)) < 150);
}

/// First paint and a filter, on whatever machine the test runs.
#[test]
fn five_thousand_conflicts_stay_usable() {
    let shown = Shown::cluster(&state(5_000), DESK);
    assert_eq!(shown.browser.eval("return document.querySelectorAll('.conflict').length"), json!(5_000));
    let paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1";
    let paint = shown.browser.eval(paint).as_f64().unwrap();
    let filter = "const text = document.getElementById('text'); text.value = 'web-4321'; const begin = performance.now();
        text.dispatchEvent(new Event('input', {bubbles: true})); document.body.offsetHeight;
        return performance.now() - begin";
    let filter = shown.browser.eval(filter).as_f64().unwrap();
    assert_eq!(shown.seen(".conflict"), 1);
    println!("5 000 conflicts: first paint after {paint:.0} ms, a filter takes {filter:.0} ms");
    assert!(paint < 15_000.0 && filter < 2_000.0, "{paint} {filter}");
    shown.quiet();
}

#[test]
fn even_a_script_that_got_in_would_not_run() {
    let shown = Shown::cluster(&state(1), DESK);
    shown.browser.eval(
        "const s = document.createElement('div'); s.innerHTML = '<img src=x onerror=\"window.hit=1\">'; document.body.append(s);",
    );
    assert_eq!(
        shown.browser.eval_async("setTimeout(() => done(window.hit === undefined), 300)"),
        json!(true)
    );
    assert!(shown.browser.console().join("\n").contains("Content Security Policy"));
}

/// The page of a node with four leases and a proof.
fn node() -> Answers {
    let used = |number: u64| IdUse {
        ids: ids::HostSpan::new(number * ids::UNIT, ids::UNIT).unwrap(),
        state: BlockState::Leased,
        holder: format!("uid-{number}"),
        pod: Some(format!("shop/web-{number}")),
        since: Some(0),
        note: None,
    };
    let pool = vec![ids::HostSpan::new(ids::UNIT, 200 * ids::UNIT).unwrap()];
    let page = NodePage {
        node: "n1".into(),
        ids: IdSpace {
            origin: "default".into(),
            block_length: ids::UNIT,
            uids: IdRow { pool, uses: (1..5).map(used).collect() },
            ..IdSpace::default()
        },
        proof: LastProof::Done(Proof { verdict: "holds".into(), ..Proof::default() }),
        ..NodePage::default()
    };
    Arc::new(move |path: &str, query: &str| html::node::document(&page, path, query))
}

#[test]
fn the_page_of_a_node_shows_its_id_space_and_its_proof() {
    let shown = Shown::new(node(), DESK);
    assert!(
        shown.text("h1").contains("n1") && shown.text(".lead").contains("No isolated pod shares a host ID")
    );
    let cells: BTreeMap<String, i64> = ["leased", "free", "host"]
        .into_iter()
        .map(|class| (class.to_owned(), shown.seen(&format!(".space rect.{class}"))))
        .collect();
    assert_eq!((cells["leased"], cells["host"]), (4, 1));
    assert!(cells["free"] > 50, "{cells:?}");
    shown.quiet();
}
