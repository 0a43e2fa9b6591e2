//! The ids a service gives to what it stores.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use uuid::Uuid;

/// What the ids of a service look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum IdForm {
    /// Random UUIDs: two services hardly ever give the same one.
    Uuid,
    /// 1, 2, 3…: every service gives the same ones.
    Integer,
}

/// Gives ids, each once.
#[derive(Debug)]
pub(crate) struct IdSource {
    form: IdForm,
    given: AtomicU64,
}

/// An id, as JSON shows it; as text it stands in paths.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Id(pub(crate) Value);

impl IdSource {
    pub(crate) fn new(form: IdForm) -> IdSource {
        IdSource {
            form,
            given: AtomicU64::new(0),
        }
    }

    pub(crate) fn next(&self) -> Id {
        match self.form {
            IdForm::Uuid => Id(Uuid::new_v4().to_string().into()),
            IdForm::Integer => Id((self.given.fetch_add(1, Ordering::Relaxed) + 1).into()),
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_str() {
            Some(text) => f.write_str(text),
            None => write!(f, "{}", self.0),
        }
    }
}
