//! Credentials that a caller has given again for an operation that waits for them.
//!
//! Kept in memory alone: after a restart the operation waits again, and its caller is asked again.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cheops_core::OperationId;

use super::super::limits::RENEWED_MAX;
use super::super::wire::Asked;

/// Names in lower case.
type Headers = Vec<(String, Vec<u8>)>;

/// Headers by operation.
#[derive(Default)]
pub(super) struct Renewed(Mutex<BTreeMap<OperationId, Headers>>);

impl Renewed {
    pub(super) fn put(&self, op: OperationId, headers: Headers) {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if all.len() >= RENEWED_MAX && !all.contains_key(&op) {
            all.pop_first();
        }
        all.insert(op, headers);
    }

    /// The request with what was given since in place of what it came with.
    pub(super) fn over(&self, op: OperationId, mut asked: Asked) -> Asked {
        let all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let Some(headers) = all.get(&op) else {
            return asked;
        };
        let renewed = |name: &str| headers.iter().any(|(given, _)| given == name);
        asked.headers.retain(|(name, _)| !renewed(name));
        asked.headers.extend(headers.iter().cloned());
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_again_stands_in_place_of_what_was_given_and_of_nothing_else() {
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let asked = Asked {
            method: "PATCH".to_owned(),
            path: "/images/7".to_owned(),
            headers: vec![header("authorization", "old"), header("accept", "*/*")],
            body: Vec::new(),
            collection: "/images".to_owned(),
            kind: "images".to_owned(),
            scope: None,
            created_ms: 0,
            content: None,
        };
        let renewed = Renewed::default();
        renewed.put(OperationId(1), vec![header("authorization", "new")]);
        let with = renewed.over(OperationId(1), asked.clone());
        assert_eq!(with.header("authorization"), Some(&b"new"[..]));
        assert_eq!(with.headers.len(), 2);
        assert_eq!(renewed.over(OperationId(2), asked.clone()), asked);
        for number in 2..2_000 {
            renewed.put(OperationId(number), Vec::new());
        }
        assert!(renewed.0.lock().unwrap().len() <= RENEWED_MAX);
    }
}
