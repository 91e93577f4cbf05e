//! The process under test: does one thing to a directory, and can be killed at any system call.
//!
//! | words | what |
//! |---|---|
//! | `write DIR VERSION` | writes that version of a set of files into the volume |
//! | `write-many DIR N` | writes a set of N files into the volume |
//! | `give TREE JOURNAL` | gives the tree to the block |
//! | `back TREE JOURNAL` | takes it back |

use std::error::Error;
use std::path::Path;

use ids::{IdBlock, UserNamespace};
use kernel::{Access, Dir};
use volumes::chown_once::ChownOnce;
use volumes::ownership::{FsGroup, Owners};
use volumes::payload::{Bytes, Mode, Payload, PodFields, Source, Volume};
use volumes::writer::Writer;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["write", dir, version] => write(&Dir::open(Path::new(dir))?, version),
        ["write-many", dir, count] => write_many(&Dir::open(Path::new(dir))?, count.parse()?),
        [what @ ("give" | "back"), tree, journal] => {
            let (tree, ids) = (Dir::open(Path::new(tree))?, block()?);
            let job = ChownOnce { tree: &tree, journal: Path::new(journal), ids: &ids };
            match *what {
                "give" => job.give(&mut |_| {})?,
                _ => job.take_back(&mut |_| {})?,
            };
            Ok(())
        }
        _ => Err(
            "usage: tree_actor write DIR VERSION | write-many DIR N | give TREE JOURNAL | back TREE JOURNAL"
                .into(),
        ),
    }
}

fn block() -> Result<UserNamespace, Box<dyn Error>> {
    let block = IdBlock::new(1_074_790_400, 65_536)?;
    Ok(UserNamespace::Leased { uids: block, gids: block })
}

/// Every version has other content, other modes and one name of its own.
fn write(volume: &Dir, version: &str) -> Result<(), Box<dyn Error>> {
    let odd = version.ends_with(['1', '3', '5', '7', '9']);
    let mode = Mode::new(if odd { 0o600 } else { 0o644 })?;
    let text = format!("version {version}");
    let paths = ["a".to_owned(), "d/b".to_owned(), format!("only-{version}")];
    write_set(volume, paths.iter().map(|path| file(path, &text, mode)).collect())
}

fn write_many(volume: &Dir, count: u32) -> Result<(), Box<dyn Error>> {
    write_set(volume, (0..count).map(|n| file(&format!("f{n}"), "text", Mode::DEFAULT)).collect())
}

fn file(path: &str, content: &str, mode: Mode) -> Source {
    let (path, content) = (path.to_owned(), content.as_bytes().to_vec());
    Source::Bytes(Bytes { what: "file".to_owned(), path, content, mode: Some(mode), owner: None })
}

fn write_set(volume: &Dir, sources: Vec<Source>) -> Result<(), Box<dyn Error>> {
    let wanted = Volume { name: "v".to_owned(), default_mode: Mode::DEFAULT, sources };
    let payload = Payload::of(&wanted, &PodFields::default())?;
    let group = FsGroup { group: ids::ContainerId::try_from(2000)?, access: Access::ReadOnly };
    Writer { volume, owners: &Owners::Translated(block()?), fs_group: Some(group) }.write(&payload)?;
    Ok(())
}
