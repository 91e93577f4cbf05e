//! A headless Chromium, driven through chromedriver's HTTP interface.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each test binary uses what it needs, and a test may panic"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

/// A browser with one page. It ends with this value.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Its profile, fresh every time.
    _profile: tempfile::TempDir,
}

/// What a page is looked at with.
#[derive(Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scheme: &'static str,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            // The browser stays in the driver's group, and ends with it whatever happens.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("chromedriver, which scripts/setup.sh installs: {e}"));
        let port = port(&mut driver);
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        browser.session = browser.new_session();
        browser
    }

    fn new_session(&self) -> String {
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &format!("--user-data-dir={}", self._profile.path().display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        self.request("POST", "/session", &wanted)["sessionId"].as_str().unwrap().to_owned()
    }

    /// A command of the session; panics with the driver's words when it fails.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.request(method, &format!("/session/{}{path}", self.session), body)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = http(self.port, (method, path), &body.to_string());
        assert!(status == 200, "{method} {path}: {status}: {answer}");
        answer["value"].clone()
    }

    /// A command of the browser's own protocol.
    fn devtools(&self, cmd: &str, params: &Value) -> Value {
        self.call("POST", "/goog/cdp/execute", &json!({"cmd": cmd, "params": params}))
    }

    pub(crate) fn look_with(&self, screen: Screen) {
        let Screen { width, height, scheme } = screen;
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    pub(crate) fn open(&self, file: &Path) {
        self.open_address(&format!("file://{}", file.display()));
    }

    pub(crate) fn open_address(&self, address: &str) {
        self.call("POST", "/url", &json!({"url": address}));
    }

    /// What a script's `return` gives.
    pub(crate) fn eval(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a script hands to its callback, which it knows as `done`.
    pub(crate) fn eval_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        self.call("POST", "/execute/async", &json!({"script": script, "args": []}))
    }

    fn element(&self, selector: &str) -> String {
        let found = self.call("POST", "/element", &json!({"using": "css selector", "value": selector}));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    /// Clicks as a person does: what is covered or hidden cannot be clicked.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/click"), &json!({}));
    }

    pub(crate) fn keys(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/value"), &json!({"text": text}));
    }

    /// Keys for whatever has the focus.
    pub(crate) fn press(&self, keys: &[&str]) {
        let strokes = keys.iter().flat_map(|key| {
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        });
        let actions =
            json!({"actions": [{"type": "key", "id": "keys", "actions": strokes.collect::<Vec<_>>()}]});
        self.call("POST", "/actions", &actions);
    }

    /// Lets the page read the clipboard, which the test wants to see.
    pub(crate) fn allow_clipboard(&self) {
        let wanted = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
        self.devtools("Browser.grantPermissions", &wanted);
    }

    /// What the page and the browser complained about since the last call.
    pub(crate) fn console(&self) -> Vec<String> {
        let log = self.call("POST", "/se/log", &json!({"type": "browser"}));
        log.as_array()
            .unwrap()
            .iter()
            .map(|entry| format!("{}: {}", entry["level"], entry["message"]))
            .collect()
    }

    /// The top of the page, as a picture.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let data = self.call("GET", "/screenshot", &Value::Null);
        base64::engine::general_purpose::STANDARD.decode(data.as_str().unwrap()).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // Ends the browser as it should; the end of the group does in any case.
            let _ = send(self.port, ("DELETE", &format!("/session/{}", self.session)), "{}");
        }
        let group = format!("-{}", self.driver.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.driver.wait();
    }
}

/// The port that the driver says it listens on.
fn port(driver: &mut Child) -> u16 {
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let mut said = lines.map_while(Result::ok);
    let line = said.find(|line| line.contains("started successfully on port")).unwrap();
    let number: String = line.chars().filter(char::is_ascii_digit).collect();
    // Its other words are for nobody, but it must not be stopped by a full pipe.
    std::thread::spawn(move || said.for_each(drop));
    number.parse().unwrap()
}

fn http(port: u16, what: (&str, &str), body: &str) -> (u16, Value) {
    let answer = send(port, what, body).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn send(port: u16, (method, path): (&str, &str), body: &str) -> std::io::Result<String> {
    let mut stream = connect(port)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let body = if method == "GET" { "" } else { body };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    answer(&mut BufReader::new(stream))
}

/// The head and as much as it says that follows: the driver keeps connections open.
fn answer(from: &mut impl BufRead) -> std::io::Result<String> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if from.read_line(&mut head)? == 0 || head[start..].trim().is_empty() {
            break;
        }
        let line = head[start..].to_ascii_lowercase();
        if let Some(number) = line.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(head + &String::from_utf8_lossy(&body))
}

/// The driver may need a moment.
fn connect(port: u16) -> std::io::Result<TcpStream> {
    let began = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Err(_) if began.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(50))
            }
            outcome => return outcome,
        }
    }
}
