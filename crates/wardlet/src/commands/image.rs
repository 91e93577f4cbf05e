use images::{Image, Images, Reference, Registries, Usage};
use report::images as images_view;
use serde::Serialize;

use super::Session;
use crate::cli::{ImageArgs, ImageCommand, PullArgs};
use crate::failure::{Answer, Failure};
use crate::image::auth;
use crate::image::progress::Teller;
use crate::words;

const REGISTRIES: &str = "/etc/wardlet/registries.yaml";

#[derive(Serialize)]
struct GcView {
    #[serde(flatten)]
    collected: images::Collected,
    left: Usage,
}

pub(super) fn run(session: &Session, args: &ImageArgs) -> Result<Answer, Failure> {
    let default = session.node.host_root().path(REGISTRIES);
    let registries = Registries::load(args.registries.as_deref(), &default)?;
    let root = session.node.state_dir().join("images");
    if !root.exists() && matches!(args.command, ImageCommand::List) {
        session.format.print(&Vec::<Image>::new(), || images_view::images(&[]))?;
        return Ok(Answer::Holds);
    }
    kernel::interrupt::catch().map_err(|e| Failure::unknown(e.to_string()))?;
    let images = Images::open(&root, registries.limits())?;
    match &args.command {
        ImageCommand::Import { file, name } => {
            let teller = Teller::new();
            let imported = images.import(file, name.as_ref(), &teller);
            teller.end();
            show(session, &imported?)
        }
        ImageCommand::Pull(args) => pull(session, &images, &registries, args),
        ImageCommand::List => list(session, &images),
        ImageCommand::Rm { name } => remove(session, &images, name),
        ImageCommand::Gc => gc(session, &images),
    }
}

fn pull(
    session: &Session,
    images: &Images,
    registries: &Registries,
    args: &PullArgs,
) -> Result<Answer, Failure> {
    let reference: &Reference = &args.reference;
    let mut remote = registries.remote();
    auth::apply(&mut remote, args, reference.registry())?;
    let teller = Teller::new();
    let pulled = images.pull(reference, &remote, &teller);
    teller.end();
    show(session, &[pulled?])
}

fn show(session: &Session, images: &[Image]) -> Result<Answer, Failure> {
    for image in images.iter().filter(|image| image.names.is_empty() && image.digests.is_empty()) {
        words::note(&format!(
            "{} has no name: `wardlet image gc` will remove it unless it is used",
            image.id
        ));
    }
    session.format.print(&images, || images_view::images(images))?;
    Ok(Answer::Holds)
}

fn list(session: &Session, images: &Images) -> Result<Answer, Failure> {
    let listing = images.list()?;
    session.format.print(&listing.images, || images_view::images(&listing.images))?;
    for error in &listing.damaged {
        words::warning(&error.to_string());
    }
    Ok(if listing.damaged.is_empty() { Answer::Holds } else { Answer::Unknown })
}

fn remove(session: &Session, images: &Images, name: &str) -> Result<Answer, Failure> {
    let removed = images.remove(name)?;
    session.format.print(&removed, || {
        let mut text: String = removed.names.iter().map(|name| format!("no longer named {name}\n")).collect();
        if let Some(id) = &removed.image {
            let freed = images_view::size(removed.collected.bytes);
            text.push_str(&format!(
                "removed {} and {} layers: {freed}\n",
                id.short(),
                removed.collected.layers
            ));
        }
        text
    })?;
    Ok(Answer::Holds)
}

fn gc(session: &Session, images: &Images) -> Result<Answer, Failure> {
    let collected = images.collect()?;
    let view = GcView { collected, left: images.usage()? };
    session.format.print(&view, || {
        let images::Collected { images, layers, bytes, downloads } = collected;
        let Usage { bytes: left, layers: kept, .. } = view.left;
        format!(
            "removed {images} images, {layers} layers ({}) and {downloads} interrupted downloads\n{kept} layers ({}) are left\n",
            images_view::size(bytes),
            images_view::size(left)
        )
    })?;
    Ok(Answer::Holds)
}
