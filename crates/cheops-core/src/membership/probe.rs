//! One probe: tries of our own, then also by others, then a verdict.

use super::limits::{PROBE_MS, TRIES};
use super::moment::Moment;

/// A probe under way.
#[derive(Clone, Debug)]
pub(super) struct Probe<K> {
    pub(super) target: K,
    /// The nonce of the first try; those of later tries follow it.
    nonce: u64,
    /// When each try was sent.
    sent: [Moment; TRIES as usize],
    tries: u8,
    patience_ms: u64,
    started_ms: u64,
    /// Others vouched; still nothing was heard directly.
    pub(super) vouched: bool,
}

/// What a probe wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// To wait.
    Nothing,
    /// Another try of ours, with that nonce.
    Try(u64),
    /// The same, and others to be asked.
    TryAndAsk(u64),
    /// A verdict.
    End,
}

impl<K> Probe<K> {
    /// The first try is for the caller to send, with [`Probe::nonce`].
    pub(super) fn new(target: K, nonce: u64, now: Moment, patience_ms: u64) -> Probe<K> {
        Probe {
            target,
            // Room for the nonces of all tries, without wrapping.
            nonce: nonce & !0xf,
            sent: [now; TRIES as usize],
            tries: 1,
            patience_ms,
            started_ms: now.ms(),
            vouched: false,
        }
    }

    /// How many were sent.
    pub(super) fn tries(&self) -> u8 {
        self.tries
    }

    pub(super) fn started_ms(&self) -> u64 {
        self.started_ms
    }

    pub(super) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// The round trip that an answer with this nonce makes, in milliseconds; none if it is not of
    /// this probe.
    pub(super) fn trip_ms(&self, nonce: u64, now: Moment) -> Option<f64> {
        let index = nonce.checked_sub(self.nonce)?;
        let sent = index < u64::from(self.tries);
        sent.then(|| now.ms_since(self.sent[index as usize]))
    }

    /// When it wants something next.
    pub(super) fn wake_ms(&self) -> u64 {
        if self.tries < TRIES {
            self.started_ms + self.patience_ms * u64::from(self.tries)
        } else {
            self.started_ms + PROBE_MS.max(self.patience_ms * u64::from(TRIES + 1))
        }
    }

    pub(super) fn step(&mut self, now: Moment) -> Want {
        if now.ms() < self.wake_ms() {
            return Want::Nothing;
        }
        if self.tries >= TRIES {
            return Want::End;
        }
        self.sent[usize::from(self.tries)] = now;
        self.tries += 1;
        let nonce = self.nonce + u64::from(self.tries - 1);
        if self.vouched {
            Want::Try(nonce)
        } else {
            Want::TryAndAsk(nonce)
        }
    }
}
