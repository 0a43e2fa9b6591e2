//! One server: what was ordered, and what became of it.

use serde_json::{Map, Value, json};

use crate::answer::Refusal;
use crate::id::Id;

/// What a client asks for.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    name: String,
    /// As typed: a text or a number.
    pub(crate) image_id: Id,
}

impl TryFrom<Map<String, Value>> for Order {
    type Error = Refusal;

    fn try_from(mut fields: Map<String, Value>) -> Result<Order, Refusal> {
        let Some(Value::String(name)) = fields.remove("name") else {
            return Err(Refusal::BadRequest("a server needs a `name`".into()));
        };
        match fields.remove("image_id") {
            Some(id @ (Value::String(_) | Value::Number(_))) => Ok(Order {
                name,
                image_id: Id(id),
            }),
            _ => Err(Refusal::BadRequest("a server needs an `image_id`".into())),
        }
    }
}

/// An image as it was fetched.
#[derive(Clone, Debug)]
pub(crate) struct BootedImage {
    pub(crate) name: Value,
    /// Of the bytes that came, whatever the image service says.
    pub(crate) checksum: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Status {
    Build,
    Active(BootedImage),
    Error(String),
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) id: Id,
    pub(crate) order: Order,
    pub(crate) status: Status,
    site: String,
}

impl Server {
    pub(crate) fn new(id: Id, order: Order, site: &str, status: Status) -> Server {
        Server {
            id,
            order,
            status,
            site: site.to_owned(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut object = json!({
            "id": self.id.0,
            "name": self.order.name,
            "image_id": self.order.image_id.0,
        });
        match &self.status {
            Status::Build => object["status"] = "BUILD".into(),
            Status::Active(image) => {
                object["status"] = "ACTIVE".into();
                object["image_name"] = image.name.clone();
                object["image_checksum"] = image.checksum.clone().into();
                object["booted_at"] = self.site.clone().into();
            }
            Status::Error(why) => {
                object["status"] = "ERROR".into();
                object["error"] = why.clone().into();
            }
        }
        object
    }
}
