//! No function takes an anonymous tuple: its parts have no names at the call. Two parameters or a struct have them.

use crate::file_graph::{is_word, tokens};
use crate::words::{files, root};

/// A function and one of its parameters, in which tokens are separated by spaces.
#[derive(Debug, PartialEq, Eq)]
struct Parameter {
    function: String,
    text: String,
}

/// The tuple parameters of the functions in a source. Types of functions and closures, such as `fn((A, B))` and
/// `impl Fn((A, B))`, are not functions.
fn tuple_parameters(source: &str) -> Vec<Parameter> {
    let code = tokens(source);
    let mut found = Vec::new();
    for at in (0..code.len()).filter(|&at| code[at] == "fn") {
        let Some(function) = code.get(at + 1).filter(|name| is_word(name)) else { continue };
        let mut list = &code[at + 2..];
        if list.first().is_some_and(|token| token == "<") {
            list = &list[group(list).len()..];
        }
        if list.first().is_none_or(|token| token != "(") {
            continue;
        }
        let list = group(list);
        let parameters = split(&list[1..list.len() - 1], ",");
        let tuples = parameters.into_iter().filter(|parameter| is_tuple_parameter(parameter));
        found.extend(tuples.map(|p| Parameter { function: function.clone(), text: p.join(" ") }));
    }
    found
}

/// Whether a parameter is `(a, b): AB` or `ab: (A, B)`, also behind references. What a macro takes for a parameter, such
/// as `(a, b) in range`, has no type.
fn is_tuple_parameter(parameter: &[String]) -> bool {
    match split(parameter, ":").as_slice() {
        [pattern, kind] => is_tuple(bound(pattern)) || is_tuple(referent(kind)),
        _ => false,
    }
}

/// A pattern without leading `&` and `mut`.
fn bound(pattern: &[String]) -> &[String] {
    match pattern {
        [mark, rest @ ..] if mark == "&" || mark == "mut" => bound(rest),
        _ => pattern,
    }
}

/// A type without leading references. A lifetime is a word here: it has lost its quote as a token.
fn referent(kind: &[String]) -> &[String] {
    match kind {
        [mark, lifetime, rest @ ..]
            if mark == "&" && is_word(lifetime) && rest.first().is_some_and(|t| t == "(" || t == "mut") =>
        {
            referent(rest)
        }
        [mark, rest @ ..] if mark == "&" || mark == "mut" => referent(rest),
        _ => kind,
    }
}

/// `(dyn A + B)` and `()` are in parentheses without a comma.
fn is_tuple(tokens: &[String]) -> bool {
    let is_group = tokens.first().is_some_and(|token| token == "(") && group(tokens).len() == tokens.len();
    is_group && split(&tokens[1..tokens.len() - 1], ",").len() > 1
}

/// Opening and closing brackets so far. The `>` of an arrow closes nothing.
#[derive(Default)]
struct Depth {
    open: usize,
    is_behind_dash: bool,
}

impl Depth {
    fn after(&mut self, token: &str) -> usize {
        match token {
            "(" | "[" | "{" | "<" => self.open += 1,
            ")" | "]" | "}" => self.open = self.open.saturating_sub(1),
            ">" if !self.is_behind_dash => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        self.is_behind_dash = token == "-" || token == "=";
        self.open
    }
}

/// The tokens from the first, which is an opening bracket, to the one that closes it.
fn group(tokens: &[String]) -> &[String] {
    let mut depth = Depth::default();
    let end = tokens.iter().position(|token| depth.after(token) == 0);
    &tokens[..end.map_or(tokens.len(), |end| end + 1)]
}

/// Splits at marks that are in no brackets.
fn split<'a>(tokens: &'a [String], mark: &str) -> Vec<&'a [String]> {
    let mut depth = Depth::default();
    tokens.split(|token| depth.after(token) == 0 && token == mark).collect()
}

#[test]
fn no_function_takes_an_anonymous_tuple() {
    let root = root();
    let crates =
        std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let folders = crates.chain(["testbed", "benches"].map(|folder| root.join(folder)));
    let sources: Vec<_> = folders.flat_map(|folder| files(&folder, "rs")).collect();
    assert!(sources.len() > 500, "{}", sources.len());
    let mut found = Vec::new();
    for path in sources {
        let source = std::fs::read_to_string(&path).unwrap();
        let file = path.strip_prefix(&root).unwrap().display();
        let parameters = tuple_parameters(&source).into_iter();
        found.extend(parameters.map(|p| format!("{file}: fn {}: {}\n", p.function, p.text)));
    }
    assert!(found.is_empty(), "name the parts, as two parameters or in a struct:\n{}", found.concat());
}

#[test]
fn tuple_parameters_are_found_in_every_form() {
    let source = r#"
        fn pattern((a, b): (A, B)) {}
        fn alias(&self, (a, b): Pair<'_>) {}
        pub(crate) async fn named(mut at: (&Dir, &OsStr), n: u8) -> (A, B) {}
        fn referred<'a>(a: &'a (A, B), b: &'a mut (A, B), &(c, d): &(C, D)) {}
        fn generic<F: Fn(A, B) -> C, T>(f: F, of: (Vec<(A, B)>, impl FnMut(A) -> Result<(), E>)) {}
    "#;
    let found = tuple_parameters(source);
    let found: Vec<_> = found.iter().map(|p| (p.function.as_str(), p.text.as_str())).collect();
    let expected = [
        ("pattern", "( a , b ) : ( A , B )"),
        ("alias", "( a , b ) : Pair < _ >"),
        ("named", "mut at : ( & Dir , & OsStr )"),
        ("referred", "a : & a ( A , B )"),
        ("referred", "b : & a mut ( A , B )"),
        ("referred", "& ( c , d ) : & ( C , D )"),
        ("generic", "of : ( Vec < ( A , B ) > , impl FnMut ( A ) - > Result < ( ) , E > )"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn parentheses_and_types_of_closures_are_no_tuple_parameters() {
    let source = r#"
        fn bounds(error: &(dyn Error + 'static), out: &mut (impl Write + IsTerminal), any: &'a (dyn Fn(A, B) + Send)) {}
        fn closures(f: impl Fn((A, B)) -> C, g: &mut dyn FnMut((A, B)), h: fn((A, B)) -> (A, B), k: Box<dyn Fn(A)>) {}
        fn parts(all: &[(A, B)], one: Option<(A, B)>, [a, b]: [A; 2], Pair { a, b }: Pair, Pair(c, d): Pair, &Pair(e, g): &Pair, (): ()) {}
        fn bounded<T: Into<(A, B)>>(t: T) where T: Fn((A, B)) {}
        proptest! { fn property((low, high) in (0..3, 0..3)) {} }
        // fn comment((a, b): (A, B)) {}
        const TEXT: &str = "fn text((a, b): (A, B)) {}";
    "#;
    assert_eq!(tuple_parameters(source), []);
}
