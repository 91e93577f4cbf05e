use std::collections::{BTreeMap, BTreeSet};

use cri::{ImageSpec, Int64Value};
use images::Image;
use serde_json::json;

/// An image as CRI shows it.
pub(super) fn image(image: &Image, pinned: &BTreeSet<String>) -> cri::Image {
    let (uid, username) = user(&image.config.user);
    cri::Image {
        id: image.id.to_string(),
        repo_tags: image.names.clone(),
        repo_digests: image.digests.clone(),
        size: image.bytes,
        uid,
        username,
        spec: Some(ImageSpec { image: image.called().to_owned(), ..Default::default() }),
        pinned: image.names.iter().chain(&image.digests).any(|name| pinned.contains(name)),
    }
}

/// The user without its group, as a number or as a name.
fn user(text: &str) -> (Option<Int64Value>, String) {
    let user = text.split(':').next().unwrap_or(text);
    match user.parse::<u32>() {
        Ok(uid) => (Some(Int64Value { value: uid.into() }), String::new()),
        Err(_) => (None, user.to_owned()),
    }
}

/// The `info` map of a verbose status.
pub(super) fn details(image: &Image) -> BTreeMap<String, String> {
    let text = json!({
        "imageSpec": {
            "created": image.created,
            "config": image.config,
        },
        "platform": image.platform,
        "chainID": image.layers.last(),
        "layers": image.layers,
        "users": image.users,
    });
    BTreeMap::from([("info".to_owned(), text.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_an_image_is_a_number_or_a_name() {
        let table = [
            ("", None, ""),
            ("1000", Some(1000), ""),
            ("1000:5", Some(1000), ""),
            ("0:0", Some(0), ""),
            ("www-data", None, "www-data"),
            ("www-data:www", None, "www-data"),
            ("4294967296", None, "4294967296"),
        ];
        for (text, uid, name) in table {
            assert_eq!(user(text), (uid.map(|value| Int64Value { value }), name.to_owned()), "{text:?}");
        }
    }
}
