//! One image: the client's fields, and those the service sets.

use serde_json::{Map, Value, json};

use super::content::File;
use crate::answer::Refusal;
use crate::id::Id;

pub(crate) type Fields = Map<String, Value>;

/// The fields that only the service sets.
const OWN_FIELDS: [&str; 5] = ["id", "status", "size", "checksum", "self"];

#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) id: Id,
    pub(crate) file: Option<File>,
    fields: Fields,
}

impl Image {
    pub(crate) fn new(id: Id, fields: Fields) -> Result<Image, Refusal> {
        if let Some(own) = OWN_FIELDS.iter().find(|own| fields.contains_key(**own)) {
            return Err(set_by_service(own));
        }
        require_name(&fields)?;
        Ok(Image {
            id,
            file: None,
            fields,
        })
    }

    pub(crate) fn path(&self) -> String {
        format!("/images/{}", self.id)
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.get("name")?.as_str()
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut object = self.own_fields();
        object.extend(self.fields.clone());
        object.into()
    }

    /// Takes the members over, one by one; `null` takes one away.
    pub(crate) fn merge(&mut self, changes: Fields) -> Result<(), Refusal> {
        let mut fields = self.fields.clone();
        for (name, value) in self.without_own(changes)? {
            match value {
                Value::Null => drop(fields.remove(&name)),
                value => drop(fields.insert(name, value)),
            }
        }
        self.set(fields)
    }

    /// Puts the members in place of all those the client gave before.
    pub(crate) fn replace(&mut self, fields: Fields) -> Result<(), Refusal> {
        let fields = self.without_own(fields)?;
        self.set(fields)
    }

    fn set(&mut self, fields: Fields) -> Result<(), Refusal> {
        require_name(&fields)?;
        self.fields = fields;
        Ok(())
    }

    /// A client may send back what it has read, but not change what is the service's.
    fn without_own(&self, mut fields: Fields) -> Result<Fields, Refusal> {
        for (name, value) in self.own_fields() {
            if fields.remove(&name).is_some_and(|given| given != value) {
                return Err(set_by_service(&name));
            }
        }
        Ok(fields)
    }

    fn own_fields(&self) -> Fields {
        let status = if self.file.is_some() {
            "active"
        } else {
            "queued"
        };
        let mut object = Fields::new();
        object.insert("id".into(), self.id.0.clone());
        object.insert("status".into(), status.into());
        object.insert(
            "size".into(),
            self.file.as_ref().map_or(0, File::bytes).into(),
        );
        object.insert(
            "checksum".into(),
            json!(self.file.as_ref().map(File::checksum)),
        );
        object.insert("self".into(), self.path().into());
        object
    }
}

fn set_by_service(name: &str) -> Refusal {
    Refusal::BadRequest(format!("`{name}` is set by the service"))
}

fn require_name(fields: &Fields) -> Result<(), Refusal> {
    match fields.get("name") {
        Some(Value::String(name)) if !name.is_empty() => Ok(()),
        _ => Err(Refusal::BadRequest("an image needs a `name`".into())),
    }
}
