use std::os::fd::OwnedFd;

/// The longest message that the kernel keeps about a filesystem being made fits several times.
const LOG_MESSAGE: usize = 4096;

/// What the kernel wrote about the filesystem being made: one message per read, then ENODATA.
pub(super) fn fs_log(context: &OwnedFd) -> Vec<String> {
    let mut messages = vec![];
    let mut buffer = [0u8; LOG_MESSAGE];
    while let Ok(length) = rustix::io::read(context, &mut buffer) {
        let Some(text) = buffer.get(..length).filter(|text| !text.is_empty()) else { break };
        messages.push(message(&String::from_utf8_lossy(text)));
    }
    messages
}

/// A message without the mark of its severity ("e ", "w " or "i ").
fn message(raw: &str) -> String {
    let text = raw.trim_end();
    let marked = ["e ", "w ", "i "].iter().find_map(|mark| text.strip_prefix(mark));
    marked.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_severity_is_left_out() {
        assert_eq!(message("e overlay: bad\n"), "overlay: bad");
        assert_eq!(message("overlay: bad"), "overlay: bad");
    }
}
