//! A resource that is there already, as a client would have made it.

use crate::api::Api;
use crate::fields::{FieldFault, Fields, drop_own_id};
use crate::json::Node;
use crate::tree::take_apart;

impl Api {
    /// What a client would write to make a resource like the one that a GET has shown: everything but the
    /// site's own fields, its versions and its id. What is null was not written.
    pub fn written_like(&self, kind: &str, body: &[u8], id: &str) -> Result<Fields, FieldFault> {
        let rule = self.rule(kind);
        let mut fields = Fields::new();
        take_apart(&Node::read(body)?, "", &mut fields);
        fields.retain(|name, value| !self.is_own(rule, name) && value != "null");
        drop_own_id(&mut fields, rule, id);
        Ok(fields)
    }

    /// Collections that the profile names in full, without an id of something above them.
    pub fn collections(&self) -> impl Iterator<Item = String> {
        let patterns = self.rules.iter().filter_map(|rule| rule.pattern.as_ref());
        patterns.filter_map(|pattern| pattern.literal())
    }
}

#[cfg(test)]
mod tests {
    use cheops_model::Profile;

    use super::*;

    #[test]
    fn what_is_the_sites_own_is_not_written_again() {
        let api = Api::compile(&Profile::default()).unwrap();
        let shown = br#"{"id": "7", "name": "debian", "size": null, "created_at": "now",
            "resourceVersion": "3", "links": ["x"], "meta": {"a": 1}, "status": "active"}"#;
        let fields = api.written_like("images", shown, "7").unwrap();
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        assert_eq!(names, ["meta/a", "name"]);
        // A name that is the id is not written; another one is.
        let named = api.written_like("pods", br#"{"name": "web", "x": 1}"#, "web");
        assert_eq!(named.unwrap().len(), 1);
        assert!(api.written_like("images", b"{", "7").is_err());
    }

    #[test]
    fn only_what_a_resource_does_not_show_is_different() {
        let api = Api::compile(&Profile::default()).unwrap();
        let fields = |pairs: &[(&str, &str)]| -> Fields {
            let owned = pairs
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
            owned.collect()
        };
        let wanted = fields(&[
            ("image/name", "\"debian\""),
            ("image/min_disk", "7"),
            ("image/secret", "\"x\""),
            ("/file", "blake3:00"),
        ]);
        let shown = br#"{"image": {"id": "7", "name": "debian", "min_disk": 9}}"#;
        let differ = api.differing("images", shown, &wanted);
        let names: Vec<&str> = differ.keys().map(String::as_str).collect();
        assert_eq!(names, ["/file", "image/min_disk", "image/secret"]);
        assert_eq!(api.differing("images", b"no JSON", &wanted), wanted);
    }
}
