//! Meta-ids and local ids: which is which, here.

use std::borrow::Cow;

use cheops_engine::replication::{Index, Known};
use cheops_rest::{Id, kinds_agree};

/// The ids of one service of this site.
#[derive(Clone, Copy)]
pub(super) struct Ids<'a> {
    pub(super) index: &'a Index,
    pub(super) service: &'a str,
}

impl Ids<'_> {
    /// What the service calls what clients call `id`.
    pub(super) fn to_local(self, id: &Id<'_>) -> Option<Cow<'static, str>> {
        let known = self.index.find(self.service, &id.text)?;
        let ours = *known.meta == *id.text && id.fits(&known.kind);
        let local = known.local.as_ref().filter(|_| ours)?;
        Some(Cow::Owned(local.to_string()))
    }

    /// Whether it names something that another service of this site has.
    pub(super) fn is_foreign(self, id: &Id<'_>) -> bool {
        self.index.recognises(&id.text)
            && self.index.find(self.service, &id.text).is_none()
            && !self.index.find_anywhere(&id.text).is_empty()
    }

    /// What clients call what the service calls `id`.
    pub(super) fn to_meta(self, id: &Id<'_>) -> Option<Cow<'static, str>> {
        let known = self.index.find(self.service, &id.text)?;
        let ours = known.local.as_deref() == Some(&*id.text) && id.fits(&known.kind);
        ours.then(|| Cow::Owned(known.meta.to_string()))
    }
}

/// Whether an id in a path means that replicant: `7` is one of its own kind only.
pub(super) fn fits(known: &Known, id: &str, kind: &str) -> bool {
    *known.meta == *id || kinds_agree(&known.kind, kind)
}
