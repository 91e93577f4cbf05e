use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Call, Kernel};
use crate::{
    Attributes, DetachedMount, Filesystem, IdMaps, LayersGiven, MountPoints, Overlay, Result, Source,
    Submounts, Target, Unmount, UsernsFd,
};

/// Records every call in order, then passes it to another kernel. A call that fails is recorded as well.
pub struct Recorder<K> {
    inner: K,
    calls: Mutex<Vec<Call>>,
    tell: Option<Tell>,
}

/// Gets each call before it is made.
pub type Tell = Box<dyn Fn(&Call) + Send + Sync>;

impl<K> Recorder<K> {
    /// Around `inner`.
    #[must_use]
    pub fn new(inner: K) -> Self {
        Self { inner, calls: Mutex::default(), tell: None }
    }

    /// Around `inner`; calls are passed to `tell` and not kept.
    #[must_use]
    pub fn telling(inner: K, tell: Tell) -> Self {
        Self { inner, calls: Mutex::default(), tell: Some(tell) }
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same as text, one line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.calls().iter().map(ToString::to_string).collect()
    }

    fn note(&self, call: Call) {
        match &self.tell {
            Some(tell) => tell(&call),
            None => self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call),
        }
    }
}

impl<K: fmt::Debug> fmt::Debug for Recorder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("inner", &self.inner)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl<K: Kernel> Kernel for Recorder<K> {
    fn user_namespace(&self, maps: &IdMaps) -> Result<Arc<UsernsFd>> {
        self.note(Call::UserNamespace(maps.clone()));
        self.inner.user_namespace(maps)
    }

    fn forget_user_namespace(&self, maps: &IdMaps) -> Result<()> {
        self.note(Call::ForgetUserNamespace(maps.clone()));
        self.inner.forget_user_namespace(maps)
    }

    fn clone_mount(&self, source: Source<'_>, submounts: Submounts) -> Result<DetachedMount> {
        self.note(Call::Clone { source: source.path(), submounts });
        self.inner.clone_mount(source, submounts)
    }

    fn set_attributes(&self, mount: &mut DetachedMount, attributes: &Attributes<'_>) -> Result<()> {
        self.note(Call::Set { what: mount.to_string(), change: attributes.into() });
        self.inner.set_attributes(mount, attributes)
    }

    fn make_filesystem(&self, filesystem: &Filesystem) -> Result<DetachedMount> {
        self.note(Call::Make(filesystem.clone()));
        self.inner.make_filesystem(filesystem)
    }

    fn overlay(&self, overlay: Overlay<'_>, points: MountPoints<'_>) -> Result<(DetachedMount, LayersGiven)> {
        self.note(Call::Overlay { lowers: overlay.lowers.len(), upper: overlay.upper.to_owned() });
        self.inner.overlay(overlay, points)
    }

    fn attach(&self, mount: DetachedMount, target: Target<'_>) -> Result<()> {
        self.note(Call::Attach { what: mount.to_string(), target: target.path() });
        self.inner.attach(mount, target)
    }

    fn unmount(&self, point: &Path, how: Unmount) -> Result<()> {
        self.note(Call::Unmount { point: point.to_owned(), how });
        self.inner.unmount(point, how)
    }
}
