//! Names of sites and services.
//!
//! Both are short ASCII words, cheap to clone: a plan, a log line and a header all hold the same
//! allocation. Site names are compared byte for byte, service names without regard to case.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name: it has to fit a header, a log line and a certificate.
pub const NAME_BYTES_MAX: usize = 64;

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// No character at all.
    Empty,
    /// Longer than [`NAME_BYTES_MAX`].
    TooLong,
    /// A character that is not an ASCII letter, a digit, `_`, `-`, `.` or a blank.
    BadCharacter(char),
    /// A blank at either end, or two in a row.
    StrayBlank,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameFault::Empty => write!(f, "a name cannot be empty"),
            NameFault::TooLong => write!(f, "a name has at most {NAME_BYTES_MAX} bytes"),
            NameFault::BadCharacter(c) => {
                write!(
                    f,
                    "a name has letters, digits, `_`, `-`, `.` and blanks, not {c:?}"
                )
            }
            NameFault::StrayBlank => write!(f, "a name has single blanks, and inside only"),
        }
    }
}

impl std::error::Error for NameFault {}

fn check(text: &str) -> Result<(), NameFault> {
    if text.is_empty() {
        return Err(NameFault::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameFault::TooLong);
    }
    // One pass: names are checked on the path of every request.
    let (mut before, mut stray) = (' ', false);
    for c in text.chars() {
        match c {
            ' ' => stray |= before == ' ',
            '_' | '-' | '.' => (),
            _ if c.is_ascii_alphanumeric() => (),
            _ => return Err(NameFault::BadCharacter(c)),
        }
        before = c;
    }
    if stray || before == ' ' {
        return Err(NameFault::StrayBlank);
    }
    Ok(())
}

/// The name of a site. Case matters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct SiteName(Arc<str>);

impl SiteName {
    /// Parses a name.
    pub fn new(text: &str) -> Result<SiteName, NameFault> {
        check(text)?;
        Ok(SiteName(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for SiteName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl TryFrom<String> for SiteName {
    type Error = NameFault;
    fn try_from(text: String) -> Result<SiteName, NameFault> {
        SiteName::new(&text)
    }
}

impl std::str::FromStr for SiteName {
    type Err = NameFault;
    fn from_str(text: &str) -> Result<SiteName, NameFault> {
        SiteName::new(text)
    }
}

/// The name of a service, as somebody typed it; equal to any other spelling of its case.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ServiceName(Arc<str>);

impl ServiceName {
    /// Parses a name.
    pub fn new(text: &str) -> Result<ServiceName, NameFault> {
        check(text)?;
        Ok(ServiceName(text.into()))
    }

    /// The name as typed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for ServiceName {
    fn eq(&self, other: &ServiceName) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for ServiceName {}

impl PartialOrd for ServiceName {
    fn partial_cmp(&self, other: &ServiceName) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ServiceName {
    fn cmp(&self, other: &ServiceName) -> std::cmp::Ordering {
        let lower = |name: &ServiceName| name.0.to_ascii_lowercase();
        lower(self).cmp(&lower(other))
    }
}

impl Hash for ServiceName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.0.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl TryFrom<String> for ServiceName {
    type Error = NameFault;
    fn try_from(text: String) -> Result<ServiceName, NameFault> {
        ServiceName::new(&text)
    }
}

impl std::str::FromStr for ServiceName {
    type Err = NameFault;
    fn from_str(text: &str) -> Result<ServiceName, NameFault> {
        ServiceName::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_short_ascii_word_or_a_few() {
        let fault = |text: &str| SiteName::new(text).err();
        assert_eq!(fault("site1"), None);
        assert_eq!(fault("DC 1"), None);
        assert_eq!(fault("a.b-c_D"), None);
        assert_eq!(fault(""), Some(NameFault::Empty));
        assert_eq!(fault(" a"), Some(NameFault::StrayBlank));
        assert_eq!(fault("a  b"), Some(NameFault::StrayBlank));
        assert_eq!(fault("a/b"), Some(NameFault::BadCharacter('/')));
        assert_eq!(fault("é"), Some(NameFault::BadCharacter('é')));
        assert_eq!(fault(&"x".repeat(64)), None);
        assert_eq!(fault(&"x".repeat(65)), Some(NameFault::TooLong));
    }

    #[test]
    fn services_are_equal_whatever_their_case_and_sites_are_not() {
        let service = |text: &str| ServiceName::new(text).unwrap();
        assert_eq!(service("Nova"), service("nova"));
        assert_eq!(
            service("Nova").cmp(&service("nOVA")),
            std::cmp::Ordering::Equal
        );
        assert_ne!(
            SiteName::new("Site1").unwrap(),
            SiteName::new("site1").unwrap()
        );
    }
}
