//! Labels of a site: small facts such as `region = "west"`, chosen by its operator.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Key → value, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(pub BTreeMap<String, String>);

impl Labels {
    /// True if the label is there and has that value.
    pub fn has(&self, key: &str, value: &str) -> bool {
        self.0.get(key).is_some_and(|found| found == value)
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Labels {
        Labels(pairs.into_iter().collect())
    }
}
