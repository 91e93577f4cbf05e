//! Texts that people read use the words of Kubernetes, Linux, OCI, SQLite and nftables: docs pages, comments and
//! messages. docs/glossary.md has the few words that are wardlet's own; [`RULES`] has those that it must not use.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A phrase that is not allowed, and the term of the field.
struct Rule {
    /// Words in lower case. Alternatives of one word are separated by `|`.
    phrase: &'static str,
    instead: &'static str,
}

const fn rule(phrase: &'static str, instead: &'static str) -> Rule {
    Rule { phrase, instead }
}

const RULES: &[Rule] = &[
    rule("who|whom|whoever|whomever", "the name of the process, component or caller"),
    rule("nobody|noone", "\"no process\", \"no caller\", \"no pod\""),
    rule("somebody|someone|anybody|everybody", "the name of the process, component or caller"),
    rule("what is left", "\"the rest\", \"the remaining ...\""),
    rule("look|looks|looked|looking after", "manage, supervise, clean up"),
    rule("stay|stays|stayed|staying behind", "a detached watcher process"),
    rule("carry|carries|carried|carrying out", "execute"),
    rule("carry|carries|carried|carrying it|them out", "execute"),
    rule("bury|buries|buried|burying", "reap"),
    rule("told", "given, notified, reported (and by which component)"),
    rule("tend|tends|tended|tending", "manage, supervise, adopt"),
    rule("chore|chores", "action"),
    rule("bell|bells|rings|rang|rung", "pod notifier; notify"),
    rule("ward|wards", "pod, user namespace, isolation"),
    rule("fold|folds|folded|folding in|into", "checkpoint (of the WAL), merge"),
    rule("fold|folds|folded|folding the log", "checkpoint (of the WAL)"),
    rule("heard|unheard", "received, responded"),
    rule("passed|passes|passing over", "ignored, skipped"),
    rule("condemn|condemns|condemned|condemning", "mark for kill"),
    rule("sentenced", "marked for kill"),
    rule("stray|strays", "orphan"),
    rule("farewell", "detach timeout"),
    rule("lull", "idle timeout"),
    rule("shelf|shelves", "index, directory"),
    rule("spared", "oom_score_adj; excluded"),
    rule("let|lets|letting go", "release, drop, close"),
    rule("two things at a time|once", "concurrently; thread"),
    rule("hurry|hurries|hurried", "kill, skip the grace period"),
    rule("rooms", "crates"),
    rule("the house", "the workspace"),
    rule("lookers|looker", "host scan worker"),
    rule("testify|testifies|testified", "report"),
    rule("by heart", "in memory"),
];

/// "people who" and the like are plain English.
const PEOPLE: &[&str] = &[
    "people",
    "users",
    "user",
    "operators",
    "operator",
    "administrators",
    "administrator",
    "readers",
    "authors",
];

/// Pages on which a ward is explained: it is the image behind the product's name.
const WARD_PAGES: &[&str] = &["README.md", "docs/glossary.md"];

#[derive(Debug)]
struct Finding {
    file: PathBuf,
    line: usize,
    words: String,
    instead: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: \"{}\": use {}", self.file.display(), self.line, self.words, self.instead)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    line: usize,
    /// In lower case. Empty where a phrase cannot go on: at punctuation and at code.
    text: String,
}

/// A comment, a string literal or a page, with the line that each character is on.
#[derive(Clone, Debug, Default)]
struct Passage {
    lines: Vec<(usize, String)>,
}

impl Passage {
    fn push(&mut self, line: usize, c: char) {
        match self.lines.last_mut() {
            Some((last, text)) if *last == line => text.push(c),
            _ => self.lines.push((line, c.to_string())),
        }
    }

    /// Words outside of `code` and of fenced blocks.
    fn words(&self) -> Vec<Word> {
        let mut words = Vec::new();
        let mut fenced = false;
        let mut code = false;
        for (line, text) in &self.lines {
            if text.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            code &= !text.trim().is_empty();
            if fenced {
                continue;
            }
            for (nth, part) in text.split('`').enumerate() {
                if nth > 0 {
                    code = !code;
                    words.push(Word { line: *line, text: String::new() });
                }
                if !code {
                    words.extend(part.split_whitespace().flat_map(|token| word(*line, token)));
                }
            }
        }
        words
    }
}

/// A token without its punctuation. A path, an identifier or a placeholder is no word.
fn word(line: usize, token: &str) -> Vec<Word> {
    let boundary = || Word { line, text: String::new() };
    let bare = token.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '{' && c != '}');
    if bare.is_empty() || bare.contains(|c: char| !c.is_ascii_alphabetic() && c != '\'' && c != '-') {
        return vec![boundary()];
    }
    let mut found = vec![Word { line, text: bare.trim_end_matches("'s").to_ascii_lowercase() }];
    if token.starts_with(['(', '"', '[']) {
        found.insert(0, boundary());
    }
    if token.ends_with(|c: char| c.is_ascii_punctuation()) {
        found.push(boundary());
    }
    found
}

/// A word of a phrase: its alternatives.
type Alternatives = Vec<&'static str>;

/// Rules with their phrases, by the first word.
type RulesByWord = BTreeMap<&'static str, Vec<(Vec<Alternatives>, &'static Rule)>>;

fn rules() -> &'static RulesByWord {
    static BY_WORD: OnceLock<RulesByWord> = OnceLock::new();
    BY_WORD.get_or_init(|| {
        let mut by_word = RulesByWord::new();
        for rule in RULES {
            let phrase: Vec<Alternatives> = rule.phrase.split(' ').map(|p| p.split('|').collect()).collect();
            for first in &phrase[0] {
                by_word.entry(*first).or_default().push((phrase.clone(), rule));
            }
        }
        by_word
    })
}

fn findings(file: &Path, passage: &Passage) -> Vec<Finding> {
    let words = passage.words();
    let mut found = Vec::new();
    for (start, first) in words.iter().enumerate() {
        for (phrase, rule) in rules().get(first.text.as_str()).into_iter().flatten() {
            let Some(here) = words.get(start..start + phrase.len()) else { continue };
            let same = phrase.iter().zip(here).all(|(p, w)| p.contains(&w.text.as_str()));
            let before = start.checked_sub(1).and_then(|n| words.get(n)).map_or("", |w| w.text.as_str());
            let of_people = first.text == "who" && PEOPLE.contains(&before);
            let of_product =
                rule.phrase.starts_with("ward") && WARD_PAGES.iter().any(|p| file == Path::new(p));
            if same && !of_people && !of_product {
                let words: Vec<&str> = here.iter().map(|w| w.text.as_str()).collect();
                let (line, words) = (first.line, words.join(" "));
                found.push(Finding { file: file.to_owned(), line, words, instead: rule.instead });
            }
        }
    }
    found
}

/// Comments and those string literals that have more than one word: a single word is a key or a name.
fn passages_of_rust(source: &str) -> Vec<Passage> {
    let mut reader = Reader { rest: source.chars().collect::<Vec<_>>().into_iter().peekable(), line: 1 };
    let mut passages: Vec<Passage> = Vec::new();
    let mut previous = ' ';
    // A line comment goes on with the comment of the line above.
    let mut commented = 0;
    while let Some(c) = reader.next() {
        match (c, reader.rest.peek().copied()) {
            ('/', Some('/')) => {
                let line = reader.line;
                let comment = reader.line_comment();
                match passages.last_mut() {
                    Some(last) if commented + 1 == line => last.lines.extend(comment.lines),
                    _ => passages.push(comment),
                }
                commented = line;
            }
            ('/', Some('*')) => passages.push(reader.until("*/", false)),
            ('"', _) => passages.extend(Some(reader.until("\"", true)).filter(has_words)),
            ('r', Some('"' | '#')) if !previous.is_alphanumeric() && previous != '_' => {
                passages.extend(reader.raw().filter(has_words));
            }
            ('\'', _) => reader.character(),
            _ => {}
        }
        previous = c;
    }
    passages
}

fn has_words(passage: &Passage) -> bool {
    passage.lines.iter().any(|(_, text)| text.trim().contains(' '))
}

struct Reader {
    rest: std::iter::Peekable<std::vec::IntoIter<char>>,
    line: usize,
}

impl Reader {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn line_comment(&mut self) -> Passage {
        let mut passage = Passage { lines: vec![(self.line, String::new())] };
        while self.rest.next_if(|c| *c == '/' || *c == '!').is_some() {}
        while let Some(c) = self.rest.next_if(|c| *c != '\n') {
            passage.push(self.line, c);
        }
        passage
    }

    /// Up to `end`. In a string with escapes a backslash and what follows it are a space.
    fn until(&mut self, end: &str, escapes: bool) -> Passage {
        let mut passage = Passage::default();
        let mut tail = String::new();
        while let Some(c) = self.next() {
            if escapes && c == '\\' {
                self.next();
                passage.push(self.line, ' ');
                continue;
            }
            tail.push(c);
            if tail.ends_with(end) {
                break;
            }
            passage.push(self.line, if c == '\n' { ' ' } else { c });
        }
        passage
    }

    fn raw(&mut self) -> Option<Passage> {
        let mut end = String::from("\"");
        while self.rest.next_if_eq(&'#').is_some() {
            end.push('#');
        }
        self.rest.next_if_eq(&'"')?;
        Some(self.until(&end, false))
    }

    /// A character literal, so that '"' does not open a string. A lifetime has no second quote.
    fn character(&mut self) {
        match self.rest.peek() {
            Some('\\') => {
                self.next();
                self.next();
                while self.rest.next_if(|c| *c != '\'' && *c != '\n').is_some() {}
                self.rest.next_if_eq(&'\'');
            }
            Some('"') => {
                self.next();
            }
            _ => {}
        }
    }
}

/// A page without its indented code: lines that are indented by four or more after an empty line or after code.
fn passage_of_page(page: &str) -> Passage {
    let mut passage = Passage::default();
    let mut may_be_code = true;
    for (n, text) in page.lines().enumerate() {
        let code = may_be_code && text.starts_with("    ");
        may_be_code = code || text.trim().is_empty();
        passage.lines.push((n + 1, if code { String::new() } else { text.to_owned() }));
    }
    passage
}

/// What is not released yet: history keeps its words.
fn unreleased(changelog: &str) -> String {
    let mut headings = 0;
    let lines = changelog.lines().take_while(|line| {
        headings += usize::from(line.starts_with("## "));
        headings < 2
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

pub(crate) fn files(below: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(below) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|e| e.unwrap().path()) {
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Name and folder of each package whose sources are read.
fn packages() -> Vec<PathBuf> {
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().path());
    let others = ["testbed", "testbed/testkit", "testbed/vm", "benches"].map(|p| root().join(p));
    let mut all: Vec<PathBuf> = crates.chain(others).filter(|p| p.join("Cargo.toml").exists()).collect();
    all.sort();
    all
}

fn findings_of_package(folder: &Path) -> Vec<Finding> {
    let mut found = Vec::new();
    for path in files(&folder.join("src"), "rs") {
        let source = std::fs::read_to_string(&path).unwrap();
        let file = path.strip_prefix(root()).unwrap_or(&path).to_owned();
        found.extend(passages_of_rust(&source).iter().flat_map(|p| findings(&file, p)));
    }
    found
}

fn show(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).map(|line| line + "\n").collect()
}

#[test]
fn pages_use_the_words_of_the_field() {
    let root = root();
    let mut pages = vec![root.join("README.md"), root.join("SPEC.md"), root.join("CHANGELOG.md")];
    for folder in ["docs", "crates", "testbed", "examples", "benches"] {
        pages.extend(files(&root.join(folder), "md"));
    }
    assert!(pages.len() > 60, "{pages:?}");
    let mut found = Vec::new();
    for path in pages {
        let mut page = std::fs::read_to_string(&path).unwrap();
        if path.ends_with("CHANGELOG.md") {
            page = unreleased(&page);
        }
        let file = path.strip_prefix(&root).unwrap().to_owned();
        found.extend(findings(&file, &passage_of_page(&page)));
    }
    assert!(found.is_empty(), "\n{}", show(&found));
}

#[test]
fn comments_and_messages_use_the_words_of_the_field() {
    let packages = packages();
    assert!(packages.len() > 20, "{packages:?}");
    let found: Vec<Finding> = packages.iter().flat_map(|folder| findings_of_package(folder)).collect();
    assert!(found.is_empty(), "\n{}", show(&found));
}

/// Findings of a source as `line: words`.
fn found_in(source: &str) -> Vec<String> {
    let passages = passages_of_rust(source);
    let found = passages.iter().flat_map(|p| findings(Path::new("src/lib.rs"), p));
    found.map(|f| format!("{}: {}", f.line, f.words)).collect()
}

#[test]
fn dialect_is_found_in_comments_messages_and_help_texts() {
    let source = r##"//! Nobody asks.
/// The process that looks
/// after a create.
enum Error {
    #[error("{0}: somebody holds it")]
    Held(String),
}
// Whoever waits
/* is told */
#[arg(long, help = r#"end all "wards" now"#)]
const HINT: &str = "ask \
    who holds it";
"##;
    let expected =
        ["1: nobody", "2: looks after", "5: somebody", "8: whoever", "9: told", "10: wards", "12: who"];
    assert_eq!(found_in(source), expected);
    let file = Path::new("docs/page.md");
    let page = findings(file, &passage_of_page("# Title\n\nIt carries out\nthe plan.\n"));
    assert_eq!(show(&page), "docs/page.md:3: \"carries out\": use execute\n");
    let page = passage_of_page("1. A list\n   with nobody.\n\n       handler: ward\n\n   And somebody.\n");
    let lines: Vec<usize> = findings(file, &page).iter().map(|f| f.line).collect();
    assert_eq!(lines, [2, 6]);
    assert_eq!(
        show(&findings(file, &passage_of_page(&unreleased("## 2\na ward\n## 1\na ward\n")))).lines().count(),
        1
    );
}

#[test]
fn names_code_and_people_are_not_dialect() {
    let source = r##"/// Users who run pods; `nobody` is a user name.
/// ```
/// let who = somebody(told);
/// ```
/// See docs/who/nobody.md and [`Ward`](crate::told). It looks. After that it ends.
fn told<'a>(who: &'a str) -> char {
    let nobody = "nobody"; // ward_of
    '"'
}
"##;
    assert_eq!(found_in(source), Vec::<String>::new());
}
