//! What no honest peer can say: positions and reigns from the future, ends before beginnings, creates under another
//! name. A message that holds such a thing is not listened to, so that the rest need not think of it.

use super::log::{Base, Entry, Runs};
use super::message::{Header, Message, Row};
use crate::ids::Epoch;
use crate::limits::FAR;
use crate::operation::{Form, Kind, Mode, Submission};

impl Message {
    /// True if somebody may have come to say it.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Message::Submit { submission, epoch } => {
                submission.is_sound() && epoch.as_ref().is_none_or(Epoch::is_sound)
            }
            Message::Resubmit { fork, epoch, .. } => is_near(*fork) && epoch.is_sound(),
            Message::Answered { .. } | Message::NotLeader { .. } => true,
            Message::Append {
                header,
                entries,
                base,
            } => header.is_sound() && are_sound(entries, base.as_ref()),
            Message::Report {
                epoch,
                promised,
                runs,
                rows_version,
                row,
                heard,
                ..
            } => {
                let numbers = is_near(*rows_version) && is_near(heard.1);
                numbers
                    && epoch.is_sound()
                    && promised.is_sound()
                    && runs.is_sound()
                    && row.is_sound()
            }
            Message::Prepare { epoch, runs, .. } => epoch.is_sound() && runs.is_sound(),
            Message::Promise {
                epoch,
                header,
                entries,
                base,
            } => epoch.is_sound() && header.is_sound() && are_sound(entries, base.as_ref()),
            Message::Decline {
                epoch, promised, ..
            } => epoch.is_sound() && promised.is_sound(),
            Message::Left { epoch, .. } | Message::Forget { epoch, .. } => epoch.is_sound(),
            Message::Unknown { .. } | Message::Forgotten { .. } | Message::Restored { .. } => true,
            // Whoever does not come forward is never done.
            Message::Shared {
                after,
                headers,
                next,
                ..
            } => {
                let forward = next.is_none() || next > after;
                forward && headers.iter().all(Header::is_sound)
            }
        }
    }
}

fn is_near(number: u64) -> bool {
    number < FAR
}

fn are_sound(entries: &[Entry], base: Option<&Base>) -> bool {
    let entry = |entry: &Entry| (1..FAR).contains(&entry.index) && entry.epoch.is_sound();
    let starts = |base: &Base| {
        base.starts
            .iter()
            .all(|(epoch, first)| is_start(epoch, *first))
    };
    entries.iter().all(entry) && base.is_none_or(|base| is_near(base.index) && starts(base))
}

fn is_start(epoch: &Epoch, first: u64) -> bool {
    epoch.is_sound() && (1..FAR).contains(&first)
}

impl Epoch {
    fn is_sound(&self) -> bool {
        is_near(self.counter)
    }
}

impl Runs {
    fn is_sound(&self) -> bool {
        let ordered = self.starts.windows(2).all(|pair| pair[0].1 < pair[1].1);
        let starts = self
            .starts
            .iter()
            .all(|(epoch, first)| is_start(epoch, *first));
        self.base <= self.last && is_near(self.last) && ordered && starts
    }
}

impl Row {
    fn is_sound(&self) -> bool {
        let numbers = [self.version, self.incarnation, self.applied, self.since];
        numbers.into_iter().all(is_near)
    }
}

impl Header {
    fn is_sound(&self) -> bool {
        let made = |create: &crate::operation::Operation| {
            create.kind == Kind::Create && create.id.0 == self.id.0
        };
        self.epoch.is_sound()
            && self.runs.is_sound()
            && is_near(self.rows_version)
            && self.rows.values().all(Row::is_sound)
            && self.create.as_ref().is_none_or(made)
    }
}

impl Submission {
    fn is_sound(&self) -> bool {
        let waits = match self.mode {
            Mode::Wait(ms) => is_near(ms),
            Mode::Async => true,
        };
        let named = self.op.kind != Kind::Create || self.op.id.0 == self.op.replicant.0;
        // A queue is kept by whoever took the request, and brought to nobody else's.
        waits && named && self.form == Form::Replica
    }
}
