//! An instant of a clock that only goes forward.

/// Microseconds since some beginning; each site has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// From whole milliseconds.
    pub fn from_ms(ms: u64) -> Moment {
        Moment(ms * 1000)
    }

    /// In whole milliseconds.
    pub fn ms(self) -> u64 {
        self.0 / 1000
    }

    /// Milliseconds since an earlier moment.
    pub fn ms_since(self, earlier: Moment) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / 1000.0
    }
}
