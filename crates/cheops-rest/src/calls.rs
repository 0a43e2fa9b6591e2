//! Calls that write given fields: to make a resource again, to bring one to what clients wrote.

use cheops_model::profile::UpdateForm;

use crate::api::Api;
use crate::fields::Fields;

/// A request to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// In capitals.
    pub method: String,
    /// Path and query, in the form (meta-id or local) that the arguments had.
    pub target: String,
    /// Besides those every call has.
    pub headers: Vec<(String, String)>,
    /// What to send.
    pub body: CallBody,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallBody {
    /// Nothing.
    None,
    /// JSON; the content type is among the headers.
    Json(Vec<u8>),
    /// What the caller keeps for this field, whose value is the reference it chose.
    Opaque(String),
}

/// One way to write fields, as a profile names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// PUT, PATCH or POST.
    pub method: String,
    /// The content type.
    pub media: String,
    /// What the body is.
    pub form: UpdateForm,
}

/// Fields that this API cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field `{0}` cannot be written by itself")]
pub struct CannotWrite(pub String);

impl Api {
    /// The ways to change a resource of that kind, the best first. If a service answers 405, 415 or 501 to
    /// one, nothing was done and the next may be tried.
    pub fn updates(&self, kind: &str) -> &[Update] {
        let _ = kind;
        &[]
    }

    /// The calls that write `changed` (an [`crate::UNSET`] value, or a name in `unset`, takes a field away). `desired`
    /// is everything clients wrote, `changed` applied: a way that writes whole members, or the whole,
    /// needs it.
    pub fn update_calls(
        &self,
        kind: &str,
        way: &Update,
        item: &str,
        changed: &Fields,
        unset: &[String],
        desired: &Fields,
    ) -> Result<Vec<Call>, CannotWrite> {
        let _ = (kind, way, item, changed, unset, desired);
        Ok(Vec::new())
    }

    /// The calls that make a resource with these fields: the create, then one for each field below it, whose
    /// targets have `{id}` for the id that the first one's answer names. `chosen` is the id it has to have,
    /// `mark` our operation id, put where the profile says.
    pub fn create_calls(
        &self,
        kind: &str,
        collection: &str,
        fields: &Fields,
        chosen: Option<&str>,
        mark: Option<&str>,
    ) -> Result<Vec<Call>, CannotWrite> {
        let _ = (kind, collection, fields, chosen, mark);
        Ok(Vec::new())
    }

    /// The body of a create as a client sent it, with our mark in it. As it was, if the profile names none.
    pub fn marked(&self, kind: &str, body: &[u8], operation: &str) -> Vec<u8> {
        let _ = (kind, operation);
        body.to_vec()
    }
}
