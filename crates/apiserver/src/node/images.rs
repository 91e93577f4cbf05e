//! The list of images in the status.

use k8s_openapi::api::core::v1::ContainerImage;

use super::facts::NodeImage;

/// The most names of an image: the kubelet's limit.
const MAX_NAMES: usize = 5;

/// The largest images first; images of one size by name.
pub(super) fn listed(images: &[NodeImage], limit: Option<usize>) -> Vec<ContainerImage> {
    let mut sorted: Vec<(u64, Vec<String>)> = images.iter().map(|image| (image.size, names(image))).collect();
    sorted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    sorted.truncate(limit.unwrap_or(usize::MAX));
    let image = |(size, names): (u64, Vec<String>)| ContainerImage {
        names: Some(names).filter(|names| !names.is_empty()),
        size_bytes: Some(i64::try_from(size).unwrap_or(i64::MAX)).filter(|size| *size > 0),
    };
    sorted.into_iter().map(image).collect()
}

/// Digests, then tags.
fn names(image: &NodeImage) -> Vec<String> {
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    let mut names = sorted(&image.repo_digests);
    names.extend(sorted(&image.repo_tags));
    names.truncate(MAX_NAMES);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(tag: &str, size: u64) -> NodeImage {
        NodeImage {
            repo_digests: vec![format!("{tag}@sha256:00")],
            repo_tags: vec![format!("{tag}:1")],
            size,
        }
    }

    #[test]
    fn images_have_one_order_whatever_order_they_come_in() {
        let (a, b, c) = (image("a", 1), image("b", 3), image("c", 1));
        let one = listed(&[a.clone(), b.clone(), c.clone()], None);
        assert_eq!(one, listed(&[c.clone(), b.clone(), a.clone()], None));
        let first: Vec<_> = one.iter().map(|image| image.names.as_ref().unwrap()[0].clone()).collect();
        assert_eq!(first, ["b@sha256:00", "a@sha256:00", "c@sha256:00"]);
        assert_eq!(listed(&[a, b, c], Some(2)), one[..2]);
    }

    #[test]
    fn an_image_has_at_most_five_names_digests_first() {
        let mut many = image("a", 1);
        many.repo_tags = (0..9).rev().map(|n| format!("a:{n}")).collect();
        let names = listed(&[many], None)[0].names.clone().unwrap();
        assert_eq!(names, ["a@sha256:00", "a:0", "a:1", "a:2", "a:3"]);
    }
}
