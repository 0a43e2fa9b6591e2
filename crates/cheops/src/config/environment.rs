//! Every key of the file also as an environment variable: `CHEOPS__MESH__LISTEN` is `mesh.listen`.
//!
//! Two underscores stand for the dot; letters are matched without regard to case against the keys
//! that the file has, and are lower case otherwise. A value that reads as TOML is taken as such.

use toml::{Table, Value};

const PREFIX: &str = "CHEOPS__";

/// The variables of this process that are text; others are none of ours.
pub(super) fn variables() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Puts the variables over what the file says.
pub(super) fn overlay(table: &mut Table, variables: &[(String, String)]) {
    let mut ours: Vec<_> = variables
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value)))
        .collect();
    ours.sort();
    for (key, value) in ours {
        let path: Vec<&str> = key.split("__").collect();
        set(table, &path, read(value));
    }
}

fn set(table: &mut Table, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let known = table
        .keys()
        .find(|key| key.eq_ignore_ascii_case(first))
        .cloned();
    let key = known.unwrap_or_else(|| first.to_ascii_lowercase());
    if rest.is_empty() {
        table.insert(key, value);
        return;
    }
    let inner = table
        .entry(key)
        .or_insert_with(|| Value::Table(Table::new()));
    if !inner.is_table() {
        *inner = Value::Table(Table::new());
    }
    if let Some(inner) = inner.as_table_mut() {
        set(inner, rest, value);
    }
}

fn read(text: &str) -> Value {
    let as_toml = toml::from_str::<Table>(&format!("value = {text}")).ok();
    as_toml
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_over_the_file() {
        let mut table: Table =
            toml::from_str("site = 'a'\n[mesh]\nlisten = 'x'\n[service.Image]\nlisten = 'y'")
                .unwrap();
        let variables = [
            ("CHEOPS__MESH__LISTEN", "127.0.0.1:1"),
            ("CHEOPS__SERVICE__IMAGE__ACCEPT_SCOPE", "false"),
            ("CHEOPS__MESH__JOIN", "['b:1']"),
            ("CHEOPS_ADMIN", "not a key"),
        ];
        overlay(
            &mut table,
            &variables.map(|(k, v)| (k.to_owned(), v.to_owned())),
        );
        let wanted: Table = toml::from_str(
            "site = 'a'\n[mesh]\nlisten = '127.0.0.1:1'\njoin = ['b:1']\n\
             [service.Image]\nlisten = 'y'\naccept_scope = false",
        )
        .unwrap();
        assert_eq!(table, wanted);
    }
}
