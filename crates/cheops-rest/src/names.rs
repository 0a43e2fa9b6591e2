//! Sets of member names, some with a star.

use crate::error::ProfileError;

/// A name, or the beginning or the end of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Whole(String),
    Begins(String),
    Ends(String),
}

impl Name {
    pub(crate) fn read(text: &str, key: &str) -> Result<Name, ProfileError> {
        let stars = text.matches('*').count();
        let name = match (text.strip_suffix('*'), text.strip_prefix('*')) {
            (Some(rest), _) => Name::Begins(rest.to_owned()),
            (None, Some(rest)) => Name::Ends(rest.to_owned()),
            (None, None) => Name::Whole(text.to_owned()),
        };
        if stars > 1 || (stars == 1 && matches!(name, Name::Whole(_))) {
            let fault = format!("{text:?} has a star that is not its first or last character");
            return Err(ProfileError::new(key, fault));
        }
        if text.is_empty() || text == "*" {
            return Err(ProfileError::new(
                key,
                format!("{text:?} is every name; say which"),
            ));
        }
        Ok(name)
    }

    /// What the star stands for in `name`; all of it if there is none. Nothing if it does not fit.
    pub(crate) fn star<'n>(&self, name: &'n str) -> Option<&'n str> {
        let star = match self {
            Name::Whole(whole) => return (whole == name).then_some(name),
            Name::Begins(start) => name.strip_prefix(start.as_str()),
            Name::Ends(end) => name.strip_suffix(end.as_str()),
        };
        star.filter(|star| !star.is_empty())
    }

    /// Whole names before others, longer ones before shorter ones.
    fn weight(&self) -> (u8, usize) {
        match self {
            Name::Whole(whole) => (0, usize::MAX - whole.len()),
            Name::Begins(part) | Name::Ends(part) => (1, usize::MAX - part.len()),
        }
    }
}

/// Names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<Name>);

impl Names {
    pub(crate) fn read<'t>(
        texts: impl IntoIterator<Item = &'t str>,
        key: &str,
    ) -> Result<Names, ProfileError> {
        let names: Result<Vec<Name>, _> = texts
            .into_iter()
            .map(|text| Name::read(text, key))
            .collect();
        names.map(Names)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|known| known.star(name).is_some())
    }
}

/// Names of members that hold ids of others, each with the kind it names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refs(Vec<(Name, Whose)>);

#[derive(Clone, Debug)]
enum Whose {
    /// `*`
    Star,
    /// `.`
    Same,
    Kind(String),
}

impl Refs {
    pub(crate) fn read<'t>(
        pairs: impl IntoIterator<Item = (&'t str, &'t str)>,
        key: &str,
    ) -> Result<Refs, ProfileError> {
        let mut refs = Vec::new();
        for (name, kind) in pairs {
            let read = Name::read(name, &format!("{key}.{name}"))?;
            let whose = match kind {
                "*" if matches!(read, Name::Whole(_)) => {
                    let fault = "the kind `*` stands for a star in the name, which has none";
                    return Err(ProfileError::new(format!("{key}.{name}"), fault));
                }
                "*" => Whose::Star,
                "." => Whose::Same,
                kind => Whose::Kind(kind.to_owned()),
            };
            refs.push((read, whose));
        }
        refs.sort_by_key(|(name, _)| name.weight());
        Ok(Refs(refs))
    }

    /// The kind that a member of this name refers to, in an object of kind `same`. `Some(None)`: to something.
    pub(crate) fn kind<'a>(
        &'a self,
        name: &'a str,
        same: Option<&'a str>,
    ) -> Option<Option<&'a str>> {
        self.0.iter().find_map(|(known, whose)| {
            let star = known.star(name)?;
            Some(match whose {
                Whose::Star => Some(star.trim_end_matches('_')),
                Whose::Same => same,
                Whose::Kind(kind) => Some(kind.as_str()),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_at_one_end() {
        let names = Names::read(["self", "*_link", "x-*"], "k").unwrap();
        for yes in ["self", "next_link", "x-a"] {
            assert!(names.has(yes), "{yes}");
        }
        for no in ["myself", "_link", "x-", "link"] {
            assert!(!names.has(no), "{no}");
        }
        for bad in ["", "*", "a*b", "*a*"] {
            assert_eq!(
                Names::read([bad], "ids.links").unwrap_err().key,
                "ids.links"
            );
        }
    }

    #[test]
    fn the_nearest_name_says_the_kind() {
        let pairs = [("*_id", "*"), ("parent_id", "."), ("imageRef", "image")];
        let refs = Refs::read(pairs, "ids.refs").unwrap();
        assert_eq!(refs.kind("image_id", Some("server")), Some(Some("image")));
        assert_eq!(refs.kind("parent_id", Some("folder")), Some(Some("folder")));
        assert_eq!(refs.kind("imageRef", None), Some(Some("image")));
        assert_eq!(refs.kind("_id", None), None);
        assert!(Refs::read([("image", "*")], "ids.refs").is_err());
    }
}
