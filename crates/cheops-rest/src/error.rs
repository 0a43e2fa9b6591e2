//! What can be wrong: with a profile, and with a body.

/// A profile that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key `{key}`: {fault}")]
pub struct ProfileError {
    /// Which key, `collection[2].path`.
    pub key: String,
    /// What is wrong with it and what to write instead.
    pub fault: String,
}

impl ProfileError {
    pub(crate) fn new(key: impl Into<String>, fault: impl Into<String>) -> ProfileError {
        ProfileError {
            key: key.into(),
            fault: fault.into(),
        }
    }
}

/// A body in which ids cannot be replaced. Never pass it on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// Of a request: 400. Of an answer: 502.
    #[error("the body is not JSON, at byte {at}")]
    NotJson {
        /// Where it stops being JSON.
        at: usize,
    },
    /// 502, or 413 for a request.
    #[error("the body has {bytes} bytes, and ids are replaced in at most 16 MiB")]
    TooLarge {
        /// How many it has.
        bytes: usize,
    },
    /// 502: ask for `identity` and it does not happen.
    #[error("the body is encoded, and ids are replaced in plain bytes only")]
    Encoded,
}
