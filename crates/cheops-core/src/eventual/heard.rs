//! What reports change is written with what follows from it.
//!
//! A report that nothing follows from need not be durable: nobody was told that it was heard, so that it is told again.

use super::rest::Wrote;
use super::site::Site;
use crate::ids::ReplicantId;
use crate::limits::HEARD_MAX;
use crate::output::Output;

impl Site {
    /// Writes what has changed of a replicant; later, if only a report changed it, something is still to be said of it, and
    /// nothing is now.
    pub(super) fn save(
        &mut self,
        id: ReplicantId,
        next_ms: Option<u64>,
        out: &mut Output,
    ) -> Wrote {
        let Some(replicant) = self.replicants.get_mut(&id) else {
            return Wrote::Nothing;
        };
        let later = self.heard.contains(&id) && next_ms.is_some() && !replicant.log.is_dirty();
        if later && !out.speaks() && self.heard.len() <= HEARD_MAX {
            return Wrote::Nothing;
        }
        self.heard.remove(&id);
        replicant.save(&self.shared, out)
    }

    /// Writes what waited, with whatever else is written or said.
    pub(super) fn save_heard(&mut self, out: &mut Output) {
        if !out.speaks() {
            return;
        }
        while let Some(id) = self.heard.pop_first() {
            if let Some(replicant) = self.replicants.get_mut(&id) {
                replicant.save(&self.shared, out);
            }
        }
    }
}
