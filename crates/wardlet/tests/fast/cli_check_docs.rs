//! What the page about `check` shows is what `check` says.

use crate::support;

use support::Host;

#[test]
fn the_page_about_check_shows_what_check_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/check-before-upgrade.md");
    let text = std::fs::read_to_string(page).unwrap();
    let host = Host::new();
    let mut shown = 0;
    for block in text.split("\n```").skip(1).step_by(2) {
        let (fence, body) = block.split_once('\n').unwrap();
        if let Some((_, file)) = fence.split_once("file=/") {
            host.write(file, body);
        } else if let Some((command, answer)) =
            body.strip_prefix("$ wardlet ").and_then(|b| b.split_once('\n'))
        {
            let ran = host.run(&command.replace(" /", " HOST/"));
            assert_eq!(ran.stdout.trim_end(), answer.trim_end(), "{command}");
            shown += 1;
        }
    }
    assert_eq!(shown, 1);
}
