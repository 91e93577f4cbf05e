use std::io::{self, Write};

use crate::evidence::Evidence;
use crate::lease::Leased;
use crate::script::OnDisk;
use crate::verdict::Check;

/// What is shown, in the order of the story.
pub(crate) struct Report<'a> {
    pub(crate) leased: Leased,
    pub(crate) seen: &'a Evidence,
    pub(crate) checks: &'a [Check],
}

impl Report<'_> {
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.identity(out)?;
        self.owners(out)?;
        self.told(out)?;
        self.verdict(out)?;
        out.flush()
    }

    fn identity(&self, out: &mut impl Write) -> io::Result<()> {
        let (seen, Leased { uids, gids }) = (self.seen, self.leased);
        let [process, ..] = seen.process;
        writeln!(out, "LEASE")?;
        writeln!(out, "  user IDs   {uids}  ({} IDs)", uids.length())?;
        writeln!(out, "  group IDs  {gids}  ({} IDs)", gids.length())?;
        writeln!(out, "\nUSER NAMESPACE  INSIDE                    OUTSIDE, process {}", seen.pid)?;
        writeln!(out, "  uid_map       {:<25} {}", seen.inside.map("uid_map"), seen.uid_map)?;
        writeln!(out, "  gid_map       {:<25} {}", seen.inside.map("gid_map"), seen.gid_map)?;
        let id = seen.inside.lines("id").first().map_or("", String::as_str);
        writeln!(out, "  runs as       {:<25} {process}", id.split(" groups").next().unwrap_or(id))
    }

    fn owners(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n{:<22} {:<11} {:<22} ON DISK", "OWNERS OF", "INSIDE", "OUTSIDE")?;
        for row in &self.seen.files {
            let place = match row.file.on_disk {
                OnDisk::Volume => "volume",
                OnDisk::NewInVolume => "volume, new",
                OnDisk::Layer => "image layer",
                OnDisk::Upper => "upper layer",
            };
            let (path, inside, outside) = (row.file.path, row.inside, row.through_root);
            writeln!(out, "  {path:<20} {inside:<11} {outside:<22} {:<22} {place}", row.on_disk)?;
        }
        Ok(())
    }

    fn told(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\nTOLD FROM INSIDE")?;
        for (command, section) in [("id", "id"), ("ls -ln / /data", "list")] {
            writeln!(out, "  $ {command}")?;
            for line in self.seen.inside.lines(section) {
                writeln!(out, "{}", format!("  {line}").trim_end())?;
            }
        }
        Ok(())
    }

    fn verdict(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\nVERDICT")?;
        for check in self.checks {
            let mark = if check.holds() { "holds" } else { "WRONG" };
            writeln!(out, "  {mark}  {}", check.claim)?;
            for fault in &check.faults {
                writeln!(out, "         {fault}")?;
            }
        }
        Ok(())
    }
}
