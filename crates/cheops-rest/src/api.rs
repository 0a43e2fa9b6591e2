//! A profile, checked and ready for use.

use std::collections::BTreeMap;

use cheops_model::Profile;
use cheops_model::profile::{Chosen, Given, IdRules, Reach, RefusalRule, VersionProbe};

use crate::error::ProfileError;
use crate::json::Node;
use crate::limits::COLLECTIONS_MAX;
use crate::names::{Names, Refs};
use crate::pattern::Pattern;
use crate::rules::Rule;

/// One API. Cheap to share; nothing in it changes.
#[derive(Clone, Debug)]
pub struct Api {
    name: String,
    pub(crate) rules: Vec<Rule>,
    /// Of collections that no other one fits.
    pub(crate) unwritten: Rule,
    pub(crate) guess: bool,
    pub(crate) ids: Ids,
    pub(crate) own: Names,
    pub(crate) versions: Names,
    expectations: Names,
    pub(crate) no_room: Vec<u16>,
    pub(crate) not_ready: Vec<u16>,
    pub(crate) refusals: Vec<RefusalRule>,
    credentials: Vec<String>,
    version: Option<VersionProbe>,
}

/// Where ids stand.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    pub(crate) fields: Vec<String>,
    pub(crate) refs: Refs,
    pub(crate) links: Names,
    pub(crate) headers: Vec<String>,
    pub(crate) query: Names,
    pub(crate) reach: Reach,
}

const FIELDS: &[&str] = &["id", "uuid", "uid", "name"];
/// The id of something of the same kind, or the kind is what the star stands for.
const REFS: &[(&str, &str)] = &[
    ("parent", "."),
    ("parent_id", "."),
    ("parentId", "."),
    ("*_id", "*"),
    ("*_ids", "*"),
    ("*_uuid", "*"),
    ("*_uuids", "*"),
    ("*_ref", "*"),
    ("*_refs", "*"),
    ("*Id", "*"),
    ("*Ids", "*"),
    ("*ID", "*"),
    ("*Uuid", "*"),
    ("*Ref", "*"),
    ("*Refs", "*"),
];
/// Not `url` and its kin: those are as often what a client wrote about another place.
const LINKS: &[&str] = &[
    "self", "href", "link", "links", "_links", "selfLink", "*_link", "*_links", "*_href", "first",
    "next", "last", "prev", "previous", "file", "bookmark",
];
const HEADERS: &[&str] = &["location", "content-location", "link"];
const QUERY: &[&str] = &[
    "marker",
    "after",
    "before",
    "cursor",
    "since",
    "starting_after",
    "ending_before",
    "since_id",
    "max_id",
    "ids",
];
const OWN: &[&str] = &[
    "created",
    "updated",
    "modified",
    "createdAt",
    "updatedAt",
    "created_*",
    "updated_*",
    "modified_*",
    "*_at",
    "*At",
    "creationTimestamp",
    "lastModified",
    "timestamp",
    "links",
    "_links",
    "self",
    "selfLink",
    "href",
    "status",
    "*_links",
];
const VERSIONS: &[&str] = &[
    "resourceVersion",
    "generation",
    "observedGeneration",
    "etag",
    "_etag",
    "revision",
    "revision_number",
    "_rev",
];
/// Those of them by which an unwritten service is known to refuse what is out of date; others are often a client's own.
const EXPECTATIONS: &[&str] = &["resourceVersion", "_rev"];
const PRECONDITIONS: &[&str] = &[
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
];
const CREDENTIALS: &[&str] = &["authorization", "x-auth-token", "cookie"];

impl Api {
    /// Checks a profile. The error names the key and says what to write.
    pub fn compile(profile: &Profile) -> Result<Api, ProfileError> {
        let ids = Ids::read(&profile.ids)?;
        if profile.collections.len() > COLLECTIONS_MAX {
            let fault =
                format!("more than {COLLECTIONS_MAX}; a `{{}}` may stand for several names");
            return Err(ProfileError::new("collection", fault));
        }
        let mut rules = Vec::new();
        let mut unwritten = None;
        for (n, raw) in profile.collections.iter().enumerate() {
            let key = format!("collection[{n}]");
            let rule = Rule::read(raw, &ids.fields, &key)?;
            let place = format!("{key}.path");
            match &rule.pattern {
                None if unwritten.is_some() => {
                    return Err(ProfileError::new(place, "`*` stands there twice"));
                }
                None => unwritten = Some(rule),
                Some(pattern) if has(&rules, pattern) => {
                    return Err(ProfileError::new(
                        place,
                        format!("{:?} stands there twice", raw.path),
                    ));
                }
                Some(_) => rules.push(rule),
            }
        }
        check_statuses(profile)?;
        check_version(profile.version.as_ref())?;
        Ok(Api {
            name: profile.name.clone(),
            guess: profile
                .guess
                .unwrap_or(rules.is_empty() || unwritten.is_some()),
            unwritten: unwritten.unwrap_or_else(|| Rule::unwritten(&ids.fields)),
            rules,
            own: names(profile.own.as_ref(), OWN, "own")?,
            versions: names(profile.versions.as_ref(), VERSIONS, "versions")?,
            expectations: names(profile.versions.as_ref(), EXPECTATIONS, "versions")?,
            no_room: profile.no_room.clone(),
            not_ready: profile.not_ready.clone(),
            refusals: profile.refusals.clone(),
            credentials: headers(profile.credentials.as_ref(), CREDENTIALS, "credentials")?,
            version: profile.version.clone(),
            ids,
        })
    }

    /// The profile's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether clients may choose ids of that kind.
    pub fn chosen(&self, kind: &str) -> Chosen {
        self.rule(kind).chosen
    }

    /// The shape of the id that an agent chooses for a resource of that kind, if its client does not.
    pub fn given(&self, kind: &str) -> Option<Given> {
        self.rule(kind).given
    }

    /// True for headers that show who asks.
    pub fn is_credential(&self, header: &str) -> bool {
        self.credentials
            .iter()
            .any(|name| name.eq_ignore_ascii_case(header))
    }

    /// True for headers that make a request depend on a version of one site: `If-Match` and its kin.
    pub fn is_precondition(&self, header: &str) -> bool {
        PRECONDITIONS
            .iter()
            .any(|name| name.eq_ignore_ascii_case(header))
    }

    /// True for members that hold a version of one site's resource.
    pub fn is_version(&self, member: &str) -> bool {
        self.versions.has(member)
    }

    /// True for members by which a write says which version it was made for.
    pub(crate) fn is_expectation(&self, member: &str) -> bool {
        self.expectations.has(member)
    }

    /// How to ask the service which API it speaks.
    pub fn version_probe(&self) -> Option<&VersionProbe> {
        self.version.as_ref()
    }

    /// What the answer to the version probe says.
    pub fn version_said(&self, headers: &[(&str, &str)], body: &[u8]) -> Option<String> {
        let probe = self.version.as_ref()?;
        if let Some(name) = &probe.header {
            let found = headers
                .iter()
                .find(|(header, _)| header.eq_ignore_ascii_case(name));
            return found.map(|(_, value)| (*value).to_owned());
        }
        let root = Node::read(body).ok()?;
        let said = root.pointer(probe.pointer.as_deref().unwrap_or(""))?;
        said.scalar().map(std::borrow::Cow::into_owned)
    }

    /// The collection of that kind, or what is assumed of one.
    pub(crate) fn rule(&self, kind: &str) -> &Rule {
        self.rules
            .iter()
            .find(|rule| rule.kind == kind)
            .unwrap_or(&self.unwritten)
    }
}

fn has(rules: &[Rule], pattern: &Pattern) -> bool {
    rules
        .iter()
        .any(|rule| rule.pattern.as_ref() == Some(pattern))
}

impl Ids {
    fn read(raw: &IdRules) -> Result<Ids, ProfileError> {
        let fields = match &raw.fields {
            None => FIELDS.iter().map(|name| (*name).to_owned()).collect(),
            Some(fields) if fields.is_empty() || fields.iter().any(String::is_empty) => {
                return Err(ProfileError::new(
                    "ids.fields",
                    "names no member; leave it out or name one",
                ));
            }
            Some(fields) => fields.clone(),
        };
        let refs = match &raw.refs {
            None => Refs::read(REFS.iter().copied(), "ids.refs")?,
            Some(refs) => Refs::read(pairs(refs), "ids.refs")?,
        };
        Ok(Ids {
            fields,
            refs,
            links: names(raw.links.as_ref(), LINKS, "ids.links")?,
            headers: headers(raw.headers.as_ref(), HEADERS, "ids.headers")?,
            query: names(raw.query.as_ref(), QUERY, "ids.query")?,
            reach: raw.reach,
        })
    }
}

fn pairs(refs: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    refs.iter()
        .map(|(name, kind)| (name.as_str(), kind.as_str()))
}

fn names(raw: Option<&Vec<String>>, usual: &[&str], key: &str) -> Result<Names, ProfileError> {
    match raw {
        None => Names::read(usual.iter().copied(), key),
        Some(raw) => Names::read(raw.iter().map(String::as_str), key),
    }
}

fn headers(
    raw: Option<&Vec<String>>,
    usual: &[&str],
    key: &str,
) -> Result<Vec<String>, ProfileError> {
    let Some(raw) = raw else {
        return Ok(usual.iter().map(|name| (*name).to_owned()).collect());
    };
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match raw
        .iter()
        .find(|name| name.is_empty() || !name.bytes().all(token))
    {
        Some(bad) => Err(ProfileError::new(key, format!("{bad:?} is no header name"))),
        None => Ok(raw.clone()),
    }
}

fn check_statuses(profile: &Profile) -> Result<(), ProfileError> {
    let wrong = |codes: &[u16]| {
        codes
            .iter()
            .copied()
            .find(|code| !(100..600).contains(code))
    };
    for (key, codes) in [
        ("no_room", &profile.no_room),
        ("not_ready", &profile.not_ready),
    ] {
        if let Some(code) = wrong(codes) {
            return Err(ProfileError::new(key, format!("{code} is no status code")));
        }
    }
    for (n, rule) in profile.refusals.iter().enumerate() {
        let key = format!("refusal[{n}].status");
        if rule.status.is_empty() {
            return Err(ProfileError::new(key, "names no status code"));
        }
        if let Some(code) = wrong(&rule.status) {
            return Err(ProfileError::new(key, format!("{code} is no status code")));
        }
    }
    Ok(())
}

fn check_version(probe: Option<&VersionProbe>) -> Result<(), ProfileError> {
    let Some(probe) = probe else { return Ok(()) };
    if !probe.path.starts_with('/') {
        return Err(ProfileError::new("version.path", "a path begins with `/`"));
    }
    match (&probe.pointer, &probe.header) {
        (Some(_), Some(_)) | (None, None) => Err(ProfileError::new(
            "version",
            "give either `pointer` or `header`: where the answer says it",
        )),
        (Some(pointer), None) if !pointer.starts_with('/') => Err(ProfileError::new(
            "version.pointer",
            "a JSON pointer begins with `/`",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        let profile: Profile = toml::from_str(text).unwrap();
        Api::compile(&profile).unwrap_err().key
    }

    #[test]
    fn a_name_alone_is_a_profile() {
        let api = Api::compile(&toml::from_str("name = \"rest\"").unwrap()).unwrap();
        assert!(api.guess);
        assert!(api.is_credential("X-Auth-Token"));
        assert!(api.is_precondition("If-Match"));
        assert!(api.is_version("resourceVersion"));
    }

    #[test]
    fn every_fault_names_its_key() {
        let cases = [
            ("[[collection]]\npath = \"images\"", "collection[0].path"),
            ("[[collection]]\npath = \"/a/{b}\"", "collection[0].path"),
            (
                "[[collection]]\npath = \"/a\"\n[[collection]]\npath = \"/a/{id}\"",
                "collection[1].path",
            ),
            (
                "[[collection]]\npath = \"*\"\n[[collection]]\npath = \"*\"",
                "collection[1].path",
            ),
            ("[[collection]]\npath = \"/a\"\nid = []", "collection[0].id"),
            (
                "[[collection]]\npath = \"/a\"\nown = [\"*\"]",
                "collection[0].own",
            ),
            (
                "[[collection]]\npath = \"/a\"\nupdate = [{ method = \"GET\", form = \"whole\" }]",
                "collection[0].update.method",
            ),
            (
                "[[collection]]\npath = \"/a\"\nsub = [{ path = \"x/{y}\", is = \"action\" }]",
                "collection[0].sub[0].path",
            ),
            (
                "[[collection]]\npath = \"/a\"\nsub = [{ path = \"x\", is = \"create\" }]",
                "collection[0].sub[0].is",
            ),
            (
                "[[collection]]\npath = \"/a\"\nsub = [{ path = \"x\", is = \"update\", methods = [\"put\"] }]",
                "collection[0].sub[0].methods",
            ),
            (
                "[[collection]]\npath = \"/a\"\nmark = { member = \"tags/-\", value = \"x\" }",
                "collection[0].mark.value",
            ),
            (
                "[[collection]]\npath = \"/a\"\nready = { pointer = \"status\", ready = [\"up\"] }",
                "collection[0].ready.pointer",
            ),
            (
                "[[collection]]\npath = \"/a\"\nready = { pointer = \"/s\", ready = [\"up\"], failed = [\"up\"] }",
                "collection[0].ready.failed",
            ),
            (
                "[[collection]]\npath = \"/a\"\nmatch = { find = \"?a={b\" }",
                "collection[0].match.find",
            ),
            ("[ids]\nfields = []", "ids.fields"),
            ("[ids]\nrefs = { image = \"*\" }", "ids.refs.image"),
            ("[ids]\nheaders = [\"a b\"]", "ids.headers"),
            ("no_room = [42]", "no_room"),
            (
                "[[refusal]]\nstatus = []\nclass = \"verdict\"",
                "refusal[0].status",
            ),
            ("[version]\npath = \"/\"", "version"),
            (
                "[version]\npath = \"/\"\npointer = \"a\"",
                "version.pointer",
            ),
        ];
        for (text, key) in cases {
            assert_eq!(fault(&format!("name = \"x\"\n{text}")), key, "{text}");
        }
    }
}
