//! What a service's answer means: done, refused and why, or nobody knows.

use cheops_model::profile::{CallKind, Chosen, RefusalClass, RefusalRule};

use crate::api::Api;
use crate::json::Node;

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Done.
    Applied,
    /// Refused for what it is.
    Verdict,
    /// Refused for now: no room.
    NoRoom,
    /// Refused for now: not ready.
    NotReady,
    /// It may have been done.
    Unknown,
}

/// Whether a resource may be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It may.
    Yes,
    /// Ask again later.
    NotYet,
    /// It never will.
    Failed,
}

impl From<RefusalClass> for Class {
    fn from(said: RefusalClass) -> Class {
        match said {
            RefusalClass::Verdict => Class::Verdict,
            RefusalClass::NoRoom => Class::NoRoom,
            RefusalClass::NotReady => Class::NotReady,
            RefusalClass::Applied => Class::Applied,
            RefusalClass::Unknown => Class::Unknown,
        }
    }
}

impl Api {
    /// What an answer to such a call means. The profile's own rules come first.
    pub fn class(&self, call: CallKind, status: u16, body: &[u8]) -> Class {
        if let Some(rule) = self
            .refusals
            .iter()
            .find(|rule| fits(rule, call, status, body))
        {
            return rule.class.into();
        }
        if self.no_room.contains(&status) {
            return Class::NoRoom;
        }
        if self.not_ready.contains(&status) {
            return Class::NotReady;
        }
        usual(call, status)
    }

    /// True if a create was refused because the id it chose is in use. Where clients cannot choose ids, a
    /// conflict is about something else.
    pub fn is_id_taken(&self, kind: &str, status: u16) -> bool {
        match status {
            // Only `If-None-Match: *` makes a create fail like this.
            412 => true,
            409 => self.chosen(kind) != Chosen::Never,
            _ => false,
        }
    }

    /// True if the profile says when a resource of that kind may be worked on; then GET of the item, and [`Api::ready`].
    pub fn awaits_ready(&self, kind: &str) -> bool {
        self.rule(kind).ready.is_some()
    }

    /// Reads the answer to GET of an item.
    pub fn ready(&self, kind: &str, body: &[u8]) -> Ready {
        let Some(rule) = &self.rule(kind).ready else {
            return Ready::Yes;
        };
        let Ok(root) = Node::read(body) else {
            return Ready::NotYet;
        };
        let Some(value) = root.pointer(&rule.pointer).and_then(Node::scalar) else {
            return Ready::NotYet;
        };
        if rule.ready.iter().any(|ready| *ready == value) {
            Ready::Yes
        } else if rule.failed.iter().any(|failed| *failed == value) {
            Ready::Failed
        } else {
            Ready::NotYet
        }
    }
}

fn fits(rule: &RefusalRule, call: CallKind, status: u16, body: &[u8]) -> bool {
    let says = |words: &String| {
        let words = words.as_bytes();
        words.is_empty() || body.windows(words.len()).any(|window| window == words)
    };
    rule.status.contains(&status)
        && (rule.calls.is_empty() || rule.calls.contains(&call))
        && rule.body.as_ref().is_none_or(says)
}

fn usual(call: CallKind, status: u16) -> Class {
    match status {
        // 303 is how forms are answered: done, look there. 304: as it should be already.
        200..=299 | 303 | 304 => Class::Applied,
        // What is gone is gone.
        404 | 410 if call == CallKind::Delete => Class::Applied,
        408 | 409 | 423 | 425 => Class::NotReady,
        413 | 429 | 507 => Class::NoRoom,
        // Sent elsewhere with the same method: nothing was done here. (302 is also what old
        // applications say after doing it, so it is not among these.)
        300 | 301 | 305..=308 | 400..=499 => Class::Verdict,
        // The service does not know the method or the version of HTTP: it cannot have done it.
        501 | 505 => Class::Verdict,
        _ => Class::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_classes() {
        let api = Api::compile(&toml::from_str("name = \"rest\"").unwrap()).unwrap();
        let cases = [
            (CallKind::Create, 201, Class::Applied),
            (CallKind::Create, 202, Class::Applied),
            (CallKind::Create, 303, Class::Applied),
            (CallKind::Create, 302, Class::Unknown),
            (CallKind::Create, 400, Class::Verdict),
            (CallKind::Update, 404, Class::Verdict),
            (CallKind::Delete, 404, Class::Applied),
            (CallKind::Delete, 410, Class::Applied),
            (CallKind::Action, 409, Class::NotReady),
            (CallKind::Action, 429, Class::NoRoom),
            (CallKind::Create, 507, Class::NoRoom),
            (CallKind::Create, 500, Class::Unknown),
            (CallKind::Create, 503, Class::Unknown),
            (CallKind::Update, 501, Class::Verdict),
            (CallKind::Update, 0, Class::Unknown),
            (CallKind::Update, 999, Class::Unknown),
        ];
        for (call, status, class) in cases {
            assert_eq!(api.class(call, status, b""), class, "{call:?} {status}");
        }
    }

    #[test]
    fn the_profile_knows_better() {
        let text = r#"
            name = "x"
            no_room = [403]
            not_ready = [503]
            [[refusal]]
            status = [403]
            body = "policy"
            class = "verdict"
            [[refusal]]
            status = [404]
            calls = ["update"]
            class = "not-ready"
        "#;
        let api = Api::compile(&toml::from_str(text).unwrap()).unwrap();
        assert_eq!(
            api.class(CallKind::Create, 403, b"by policy"),
            Class::Verdict
        );
        assert_eq!(api.class(CallKind::Create, 403, b"quota"), Class::NoRoom);
        assert_eq!(api.class(CallKind::Create, 503, b""), Class::NotReady);
        assert_eq!(api.class(CallKind::Update, 404, b""), Class::NotReady);
        assert_eq!(api.class(CallKind::Delete, 404, b""), Class::Applied);
    }

    #[test]
    fn a_server_is_ready_when_it_says_so() {
        let text = r#"
            name = "x"
            [[collection]]
            path = "/servers"
            kind = "server"
            ready = { pointer = "/server/status", ready = ["ACTIVE"], failed = ["ERROR"] }
        "#;
        let api = Api::compile(&toml::from_str(text).unwrap()).unwrap();
        assert!(api.awaits_ready("server") && !api.awaits_ready("image"));
        for (body, ready) in [
            (r#"{"server":{"status":"BUILD"}}"#, Ready::NotYet),
            (r#"{"server":{"status":"ACTIVE"}}"#, Ready::Yes),
            (r#"{"server":{"status":"ERROR"}}"#, Ready::Failed),
            ("{}", Ready::NotYet),
            ("oops", Ready::NotYet),
        ] {
            assert_eq!(api.ready("server", body.as_bytes()), ready, "{body}");
        }
        assert_eq!(api.ready("image", b""), Ready::Yes);
    }
}
