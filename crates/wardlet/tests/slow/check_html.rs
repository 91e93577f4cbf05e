//! The HTML report in a real browser.
//!
//! `WARDLET_SCREENSHOTS=1` writes the pictures that the docs show.

use crate::browser;
use crate::support;

use std::path::{Path, PathBuf};

use browser::{Browser, Screen};
use serde_json::json;
use support::Host;

const DESK: Screen = Screen { width: 1180, height: 1500, scheme: "light" };
const DARK: Screen = Screen { width: 1180, height: 1500, scheme: "dark" };
const PHONE: Screen = Screen { width: 360, height: 1400, scheme: "light" };

/// A report on the disk, and the browser that shows it.
struct Shown {
    browser: Browser,
    _host: Host,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/check").join(name)
}

fn shown(manifest: &str, screen: Screen) -> Shown {
    let host = Host::new();
    let words = format!("check {} --from 1.36 --to 1.37 -o html", fixture(manifest).display());
    let page = host.run(&words).stdout;
    host.write("report.html", &page);
    let browser = Browser::start();
    browser.look_with(screen);
    browser.open(&host.path("report.html"));
    Shown { browser, _host: host }
}

impl Shown {
    /// How many elements that match can be seen.
    fn seen(&self, selector: &str) -> i64 {
        let script = format!(
            "return [...document.querySelectorAll({})].filter((e) => e.checkVisibility()).length",
            json!(selector)
        );
        self.browser.eval(&script).as_i64().unwrap()
    }

    fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({}).innerText", json!(selector));
        self.browser.eval(&script).as_str().unwrap().to_owned()
    }

    fn choose(&self, select: &str, value: &str) {
        self.browser.click(&format!("#{select} option[value='{value}']"));
    }

    fn quiet(&self) {
        assert_eq!(self.browser.console(), Vec::<String>::new());
    }
}

#[test]
fn a_conflict_shows_with_its_volume_its_users_and_the_way_out() {
    let shown = shown("shop.yaml", DESK);
    assert!(shown.text("h1").contains("breaks"), "{}", shown.text("h1"));
    let card = shown.text(".conflict");
    for words in ["shop/assets", "shop/exports", "s0:c10,c20", "s0:c30,c40", "What settles it"] {
        assert!(card.contains(words), "no {words:?} in {card}");
    }
    assert_eq!(shown.seen(".conflict"), 2);
    assert_eq!(shown.seen(".conflict svg .volume"), 3);
    assert!(shown.seen(".conflict svg path.edge") >= 6);
    shown.quiet();
}

#[test]
fn filters_narrow_the_page_and_can_be_cleared() {
    let shown = shown("shop.yaml", DESK);
    let all = shown.seen(".workload");
    shown.choose("verdict", "blocked");
    assert!((1..all).contains(&shown.seen(".workload")));
    assert_eq!(shown.seen(".workload[data-verdict=ready]"), 0);
    assert!(shown.text("[data-count=workload]").contains(" of "));
    shown.choose("verdict", "");
    shown.choose("namespace", "media");
    assert_eq!(shown.seen(".conflict"), 1);
    assert_eq!(shown.seen(".workload"), 2);
    shown.choose("namespace", "");
    shown.choose("severity", "mustMeet");
    assert_eq!(shown.seen(".conflict"), 1);
    shown.browser.click("#filters button[type=reset]");
    assert_eq!(shown.seen(".workload"), all);
    // By keys alone: a slash leads to the search.
    shown.browser.press(&["/"]);
    shown.browser.press(&["g", "a", "t", "e", "w"]);
    assert_eq!(shown.seen(".workload"), 1);
    assert_eq!(shown.seen(".conflict"), 0);
    shown.quiet();
}

#[test]
fn a_patch_is_copied_as_it_is_shown() {
    let shown = shown("shop.yaml", DESK);
    shown.browser.allow_clipboard();
    shown.browser.click(".conflict .option.best summary");
    shown.browser.click(".conflict .option.best [data-copy]");
    let copied =
        shown.browser.eval_async("navigator.clipboard.readText().then(done, (e) => done(String(e)))");
    assert_eq!(copied, json!(code_of(&shown)));
    assert!(copied.as_str().unwrap().contains("seLinuxOptions"), "{copied}");
    shown.quiet();
}

fn code_of(shown: &Shown) -> String {
    let script = "return document.querySelector('.conflict .option.best code').textContent";
    shown.browser.eval(script).as_str().unwrap().to_owned()
}

#[test]
fn without_a_clipboard_the_patch_is_selected() {
    let shown = shown("shop.yaml", DESK);
    shown.browser.eval("Object.defineProperty(navigator, 'clipboard', {value: undefined})");
    shown.browser.click(".conflict .option.best summary");
    shown.browser.click(".conflict .option.best [data-copy]");
    let selected = shown.browser.eval("return window.getSelection().toString()");
    assert_eq!(selected.as_str().unwrap().trim_end(), code_of(&shown).trim_end());
    shown.quiet();
}

#[test]
fn a_workload_opens_by_keys_alone() {
    let shown = shown("shop.yaml", DESK);
    shown.browser.eval("document.querySelector('.workload summary').focus()");
    shown.browser.press(&["\u{e007}"]);
    assert_eq!(shown.seen(".workload .body"), 1);
    shown.quiet();
}

#[test]
fn a_phone_needs_no_sideways_scrolling() {
    let shown = shown("shop.yaml", PHONE);
    shown.browser.eval("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
    let page = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(shown.browser.eval(page), json!(0));
    shown.quiet();
}

#[test]
fn the_page_is_dark_for_those_who_want_it_dark() {
    let colours =
        "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]";
    let light = shown("shop.yaml", DESK).browser.eval(colours);
    let dark = shown("shop.yaml", DARK).browser.eval(colours);
    let brightness = |colour: &serde_json::Value| -> u32 {
        let numbers = colour.as_str().unwrap().split(|c: char| !c.is_ascii_digit());
        numbers.filter_map(|n| n.parse::<u32>().ok()).take(3).sum()
    };
    assert!(brightness(&light[0]) > 600 && brightness(&light[1]) < 150, "{light}");
    assert!(brightness(&dark[0]) < 150 && brightness(&dark[1]) > 600, "{dark}");
}

#[test]
fn hostile_text_is_shown_and_not_run() {
    let shown = shown("hostile.yaml", DESK);
    assert_eq!(shown.browser.eval("return window.hit === undefined"), json!(true));
    assert_eq!(shown.browser.eval("return document.scripts.length"), json!(1));
    assert_eq!(shown.browser.eval("return document.images.length"), json!(0));
    let text = shown.browser.eval("return document.body.textContent");
    assert!(text.as_str().unwrap().contains("<img src=x onerror"), "the handle is shown");
    shown.quiet();
}

#[test]
fn even_a_script_that_got_in_would_not_run() {
    let shown = shown("shop.yaml", DESK);
    shown.browser.eval(
        "const s = document.createElement('div'); s.innerHTML = '<img src=x onerror=\"window.hit=1\">'; document.body.append(s);",
    );
    assert_eq!(
        shown.browser.eval_async("setTimeout(() => done(window.hit === undefined), 300)"),
        json!(true)
    );
    let said = shown.browser.console().join("\n");
    assert!(said.contains("Content Security Policy"), "{said}");
}

#[test]
fn the_pictures_of_the_docs_can_be_made() {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/images");
    for (name, screen) in [("check-light.png", DESK), ("check-dark.png", DARK), ("check-phone.png", PHONE)] {
        let shown = shown("shop.yaml", screen);
        let picture = shown.browser.screenshot();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000, "{name}: {}", picture.len());
        if std::env::var_os("WARDLET_SCREENSHOTS").is_some() {
            std::fs::create_dir_all(&images).unwrap();
            std::fs::write(images.join(name), picture).unwrap();
        }
    }
}
