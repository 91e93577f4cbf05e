//! A picture of volumes and their users, as SVG. Only presentation attributes: the page allows no style of
//! an element's own.

use std::collections::BTreeSet;

use check::Volume;

use super::graph::{Edge, Node, Picture};
use super::markup::Markup;
use super::words;

const WIDTH: usize = 420;
const ROW: usize = 52;
const BOX: usize = 40;
const MARK: usize = 19;
const VOLUME: Column = Column { x: 1, width: 148, letters: 17 };
const USER: Column = Column { x: 219, width: 200, letters: 22 };

struct Column {
    x: usize,
    width: usize,
    /// How many letters of a name fit.
    letters: usize,
}

/// The colours that the style knows, one for each label; more labels than that begin again, their letters
/// do not.
const COLOURS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];

/// The class of the colour of what is asked for.
pub(super) fn colour(asked: usize) -> &'static str {
    COLOURS.get(asked % COLOURS.len()).copied().unwrap_or("c0")
}

/// A, B, … Z, A1, …
pub(super) fn letter(asked: usize) -> String {
    let letter = u8::try_from(asked % 26).map_or('?', |n| char::from(b'A' + n));
    if asked < 26 { letter.to_string() } else { format!("{letter}{}", asked / 26) }
}

pub(super) fn draw(page: &mut Markup, picture: &Picture<'_>) {
    let rows = picture.volumes.len().max(picture.users.len());
    let height = rows * ROW;
    let view = format!("0 0 {WIDTH} {height}");
    let said = format!(
        "{} used by {}",
        words::count(count(picture.volumes.len()), "volume"),
        words::count(count(picture.users.len()), "workload")
    );
    let attributes = [("viewBox", view.as_str()), ("class", "graph"), ("role", "img"), ("aria-label", &said)];
    page.within("svg", &attributes, |page| {
        let place = Place { height, volumes: picture.volumes.len(), users: picture.users.len() };
        picture.edges.iter().for_each(|edge| line(page, edge, &place));
        for (index, volume) in picture.volumes.iter().enumerate() {
            volume_box(page, volume, place.volume(index));
        }
        for (index, user) in picture.users.iter().enumerate() {
            user_box(page, user, place.user(index));
        }
        (0..picture.users.len()).for_each(|user| marks(page, picture, user, place.user(user)));
    });
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Where things are; each column is spread over the whole height.
struct Place {
    height: usize,
    volumes: usize,
    users: usize,
}

impl Place {
    fn middle(&self, index: usize, of: usize) -> usize {
        let of = of.max(1);
        (2 * index + 1) * self.height / (2 * of)
    }

    fn volume(&self, index: usize) -> usize {
        self.middle(index, self.volumes)
    }

    fn user(&self, index: usize) -> usize {
        self.middle(index, self.users)
    }
}

fn line(page: &mut Markup, edge: &Edge, place: &Place) {
    let (from, to) = (VOLUME.x + VOLUME.width, USER.x);
    let bend = usize::midpoint(from, to);
    let (y, z) = (place.volume(edge.volume), place.user(edge.user));
    let path = format!("M{from} {y}C{bend} {y} {bend} {z} {to} {z}");
    let class = format!("edge {}", colour(edge.asked));
    page.element("path", &[("d", &path), ("class", &class), ("fill", "none")], "");
}

/// The letters of what a user asks for, where its lines arrive.
fn marks(page: &mut Markup, picture: &Picture<'_>, user: usize, middle: usize) {
    let asked: BTreeSet<usize> =
        picture.edges.iter().filter(|edge| edge.user == user).map(|edge| edge.asked).collect();
    let x = (USER.x - 8).to_string();
    let top = (middle + MARK / 2).saturating_sub(asked.len() * MARK / 2);
    for (row, asked) in asked.into_iter().enumerate() {
        let y = top + row * MARK;
        let class = format!("mark {}", colour(asked));
        page.element("circle", &[("cx", &x), ("cy", &y.to_string()), ("r", "9"), ("class", &class)], "");
        let baseline = (y + 4).to_string();
        page.element("text", &[("x", &x), ("y", &baseline), ("class", "letter")], &letter(asked));
    }
}

fn volume_box(page: &mut Markup, volume: &Volume, y: usize) {
    let name = volume.claim.as_ref().or(volume.persistent_volume.as_ref()).unwrap_or(&volume.id);
    let below = volume.driver.clone().unwrap_or_else(|| "volume".to_owned());
    boxed(page, &Shown { column: &VOLUME, class: "volume", name, below: &below, whole: &volume.id }, y);
}

fn user_box(page: &mut Markup, user: &Node, y: usize) {
    let shown =
        Shown { column: &USER, class: "user", name: &user.name, below: &user.below, whole: &user.name };
    boxed(page, &shown, y);
}

struct Shown<'a> {
    column: &'static Column,
    class: &'static str,
    name: &'a str,
    below: &'a str,
    /// What is shown when one points at it.
    whole: &'a str,
}

fn boxed(page: &mut Markup, shown: &Shown<'_>, y: usize) {
    let column = shown.column;
    let text = |n: usize| n.to_string();
    page.within("g", &[("class", shown.class)], |page| {
        page.element("title", &[], shown.whole);
        let top = y - BOX / 2;
        let (x, width) = (text(column.x), text(column.width));
        let (top, height) = (text(top), text(BOX));
        let size = [("x", x.as_str()), ("y", &top), ("width", &width), ("height", &height), ("rx", "7")];
        page.element("rect", &size, "");
        let x = text(column.x + 12);
        page.element(
            "text",
            &[("x", &x), ("y", &text(y - 3)), ("class", "name")],
            &short(shown.name, column.letters),
        );
        page.element(
            "text",
            &[("x", &x), ("y", &text(y + 12)), ("class", "below")],
            &short(shown.below, column.letters + 4),
        );
    });
}

/// The beginning and the end of a name that is too long: both tell names apart.
fn short(name: &str, letters: usize) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= letters {
        return name.to_owned();
    }
    let end = letters / 2;
    let start = letters - end - 1;
    let head = all.iter().take(start);
    let tail = all.iter().skip(all.len() - end);
    head.chain(std::iter::once(&'…')).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_both_of_its_ends() {
        assert_eq!(short("payments/checkout-worker-eu-west", 15), "payment…eu-west");
        assert_eq!(short("a/b", 15), "a/b");
        assert_eq!(short("ä".repeat(40).as_str(), 15).chars().count(), 15);
    }

    #[test]
    fn letters_go_on_after_the_alphabet() {
        assert_eq!([letter(0), letter(25), letter(26)], ["A", "Z", "A1"]);
    }
}
