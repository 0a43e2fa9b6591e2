//! What clients wrote, field by field.
//!
//! A field's name is the path of members to it, `server/metadata/color`, with `~1` for a slash in a name
//! and `~0` for a tilde. Its value is JSON as it was written, in one piece for lists and scalars. What
//! stands below the resource (`PUT …/file`) is one field whose name begins with a slash, `/file`. A body that
//! is not JSON is one field, named `""` or by its sub-path, whose value is for the caller to choose.

use std::collections::BTreeMap;

use crate::api::Api;
use crate::classify::Item;

/// Fields by name. The same as the core's.
pub type Fields = BTreeMap<String, String>;

/// The value of a field that is not to be there. No JSON text is empty.
pub const UNSET: &str = "";

/// What a request writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Each with its value; [`UNSET`] takes one away.
    pub fields: Fields,
    /// Names under which everything that is not in `fields` goes: `""` for PUT of the whole.
    pub replaces: Vec<String>,
    /// The field of `fields` whose value is the caller's to choose, as the body is not JSON.
    pub opaque: Option<String>,
}

/// A body that does not say which fields it writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldFault {
    /// 400.
    #[error("the body is not JSON, at byte {at}")]
    NotJson {
        /// Where it stops being JSON.
        at: usize,
    },
    /// 400, or 501: an operation of a patch that depends on what is there (`move`, `copy`, an index of a list).
    #[error("{0}")]
    Unclear(String),
}

impl Written {
    /// What to log: the fields written, and [`UNSET`] for each of `desired` that this takes away.
    pub fn over(self, desired: &Fields) -> Fields {
        let _ = desired;
        self.fields
    }
}

impl Api {
    /// What the body of a create writes.
    pub fn written_by_create(
        &self,
        kind: &str,
        media: Option<&str>,
        body: &[u8],
    ) -> Result<Written, FieldFault> {
        let _ = (kind, media, body);
        Ok(Written::default())
    }

    /// What the body of an update writes. `desired` is what was written before: a patch may need it.
    pub fn written_by_update(
        &self,
        item: &Item<'_>,
        method: &str,
        media: Option<&str>,
        body: &[u8],
        desired: &Fields,
    ) -> Result<Written, FieldFault> {
        let _ = (item, method, media, body, desired);
        Ok(Written::default())
    }
}
