//! Paths of collections, and paths of requests cut into segments.

use crate::error::ProfileError;
use crate::limits::SEGMENTS_MAX;

/// A request's path, cut at its slashes. Lives on the stack.
pub(crate) struct Segments<'a> {
    path: &'a str,
    ends: [(u32, u32); SEGMENTS_MAX],
    count: usize,
}

impl<'a> Segments<'a> {
    /// Nothing for a path that is too long, does not begin with a slash, or has an empty segment before its end.
    pub(crate) fn of(path: &'a str) -> Option<Segments<'a>> {
        let mut segments = Segments {
            path,
            ends: [(0, 0); SEGMENTS_MAX],
            count: 0,
        };
        let bytes = path.as_bytes();
        if bytes.first() != Some(&b'/') || u32::try_from(bytes.len()).is_err() {
            return None;
        }
        let mut start = 1;
        for at in 1..=bytes.len() {
            if at < bytes.len() && bytes[at] != b'/' {
                continue;
            }
            if at == start {
                // A slash at the very end is no segment; anywhere else it is nothing we know.
                return (at == bytes.len()).then_some(segments);
            }
            if segments.count == SEGMENTS_MAX {
                return None;
            }
            segments.ends[segments.count] = (start as u32, at as u32);
            segments.count += 1;
            start = at + 1;
        }
        Some(segments)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn get(&self, index: usize) -> &'a str {
        let (start, end) = self.ends[index];
        &self.path[start as usize..end as usize]
    }

    pub(crate) fn range(&self, index: usize) -> std::ops::Range<usize> {
        let (start, end) = self.ends[index];
        start as usize..end as usize
    }

    /// The path of the first `count` segments.
    pub(crate) fn head(&self, count: usize) -> &'a str {
        match count {
            0 => "",
            count => &self.path[..self.ends[count - 1].1 as usize],
        }
    }

    /// Everything between these segments, both included.
    pub(crate) fn span(&self, from: usize, to: usize) -> &'a str {
        &self.path[self.ends[from].0 as usize..self.ends[to].1 as usize]
    }

    /// Everything from this segment on, without the slash at the end.
    pub(crate) fn tail(&self, from: usize) -> &'a str {
        if from >= self.count {
            return "";
        }
        &self.path[self.ends[from].0 as usize..self.ends[self.count - 1].1 as usize]
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Fixed(String),
    /// `{id}`: the id of a parent.
    Id,
    /// `{}`
    Any,
    /// `{+}`
    Many,
}

impl Part {
    fn fits(&self, segment: &str) -> bool {
        match self {
            Part::Fixed(text) => text == segment,
            Part::Id | Part::Any | Part::Many => true,
        }
    }
}

/// The path of a collection, or of what stands below an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
    many: Option<usize>,
}

/// How a path begins with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// How many segments it takes up.
    pub(crate) taken: usize,
    /// How many more than its parts.
    surplus: usize,
}

impl Pattern {
    /// `/v2/images/{id}/members`; `/{id}` at the end says nothing.
    pub(crate) fn collection(text: &str, key: &str) -> Result<Pattern, ProfileError> {
        let Some(path) = text.strip_prefix('/') else {
            return Err(ProfileError::new(
                key,
                format!("{text:?} does not begin with `/`"),
            ));
        };
        let mut pattern = Pattern::parts(path.trim_end_matches('/'), key)?;
        if pattern.parts.last() == Some(&Part::Id) {
            pattern.parts.pop();
        }
        match pattern.parts.last() {
            Some(Part::Fixed(_)) => Ok(pattern),
            _ => {
                let fault = format!(
                    "{text:?} has to end with a name, such as `/v2/images` or `/v2/images/{{id}}`"
                );
                Err(ProfileError::new(key, fault))
            }
        }
    }

    /// `file`, `tags/{}`.
    pub(crate) fn below(text: &str, key: &str) -> Result<Pattern, ProfileError> {
        Pattern::parts(text.trim_matches('/'), key)
    }

    fn parts(text: &str, key: &str) -> Result<Pattern, ProfileError> {
        let parts: Result<Vec<Part>, ProfileError> = text
            .split('/')
            .map(|part| Pattern::part(part, key))
            .collect();
        let parts = parts?;
        let mut many = parts
            .iter()
            .enumerate()
            .filter(|(_, part)| **part == Part::Many);
        let (first, second) = (many.next().map(|(at, _)| at), many.next());
        if second.is_some() {
            return Err(ProfileError::new(
                key,
                format!("{text:?} has `{{+}}` twice; where one ends cannot be told"),
            ));
        }
        if parts.len() > SEGMENTS_MAX {
            return Err(ProfileError::new(
                key,
                format!("more than {SEGMENTS_MAX} segments"),
            ));
        }
        Ok(Pattern { many: first, parts })
    }

    fn part(text: &str, key: &str) -> Result<Part, ProfileError> {
        let fault = match text {
            "{id}" => return Ok(Part::Id),
            "{}" => return Ok(Part::Any),
            "{+}" => return Ok(Part::Many),
            "" => "has an empty segment".to_owned(),
            text if text.contains(['{', '}', '*', '?', '#', ' ']) => {
                format!("{text:?} is no segment; write a name, `{{id}}`, `{{}}` or `{{+}}`")
            }
            text => return Ok(Part::Fixed(text.to_owned())),
        };
        Err(ProfileError::new(key, fault))
    }

    /// As a path, if nothing in it stands for something else.
    pub(crate) fn literal(&self) -> Option<String> {
        let mut path = String::new();
        for part in &self.parts {
            let Part::Fixed(name) = part else {
                return None;
            };
            path.push('/');
            path.push_str(name);
        }
        Some(path)
    }

    /// How many names it begins with.
    pub(crate) fn fixed_segments(&self) -> usize {
        let fixed = |part: &&Part| matches!(part, Part::Fixed(_));
        self.parts.iter().take_while(fixed).count()
    }

    /// The last name in it.
    pub(crate) fn last_name(&self) -> &str {
        let names = self.parts.iter().rev().find_map(|part| match part {
            Part::Fixed(text) => Some(text.as_str()),
            Part::Id | Part::Any | Part::Many => None,
        });
        names.unwrap_or_default()
    }

    /// How these segments, from `from` on, begin with this pattern, if they do.
    pub(crate) fn begins(&self, segments: &Segments<'_>, from: usize) -> Option<Fit> {
        let have = segments.len() - from;
        let most = match self.many {
            Some(_) => have.checked_sub(self.parts.len())?,
            None if have < self.parts.len() => return None,
            None => 0,
        };
        (0..=most).find_map(|surplus| self.fit(segments, from, surplus))
    }

    fn fit(&self, segments: &Segments<'_>, from: usize, surplus: usize) -> Option<Fit> {
        let many = self.many.unwrap_or(usize::MAX);
        let fits = self.parts.iter().enumerate().all(|(at, part)| {
            let shift = if at > many { surplus } else { 0 };
            part.fits(segments.get(from + at + shift))
        });
        fits.then_some(Fit {
            taken: self.parts.len() + surplus,
            surplus,
        })
    }

    /// True if these segments, from `from` on, are this pattern and nothing more.
    pub(crate) fn is(&self, segments: &Segments<'_>, from: usize) -> bool {
        let have = segments.len() - from;
        let Some(surplus) = have.checked_sub(self.parts.len()) else {
            return false;
        };
        (surplus == 0 || self.many.is_some()) && self.fit(segments, from, surplus).is_some()
    }

    /// The segments that are ids of parents, in order.
    pub(crate) fn parents(&self, fit: Fit) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let many = self.many.unwrap_or(usize::MAX);
        let ids = self
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| **part == Part::Id);
        ids.map(move |(at, _)| at + if at > many { fit.surplus } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pattern: &str, path: &str) -> Option<usize> {
        let pattern = Pattern::collection(pattern, "path").unwrap();
        pattern.begins(&Segments::of(path)?, 0).map(|fit| fit.taken)
    }

    #[test]
    fn patterns_fit_the_beginning_of_paths() {
        assert_eq!(taken("/v2/images", "/v2/images"), Some(2));
        assert_eq!(taken("/v2/images/{id}", "/v2/images/7/file/"), Some(2));
        assert_eq!(
            taken("/v2/images/{id}/members/{id}", "/v2/images/7/members/8"),
            Some(4)
        );
        assert_eq!(
            taken("/v2/{+}/manifests", "/v2/library/alpine/manifests/latest"),
            Some(4)
        );
        assert_eq!(
            taken("/v2/{+}/manifests", "/v2/alpine/manifests/latest"),
            Some(3)
        );
        assert_eq!(taken("/v2/images", "/v2/image"), None);
        assert_eq!(taken("/v2/images", "/v2"), None);
        assert_eq!(taken("/v2/images", "/v2//images"), None);
        assert_eq!(taken("/v2/images", "v2/images"), None);
    }

    #[test]
    fn impossible_patterns_name_their_key() {
        for bad in [
            "",
            "v2",
            "/",
            "/{id}",
            "/a//b",
            "/a/{name}",
            "/a/b*",
            "/{+}/{+}/a",
            "/a/{}",
            "/a?b",
        ] {
            let fault = Pattern::collection(bad, "collection[0].path").unwrap_err();
            assert_eq!(fault.key, "collection[0].path", "{bad}");
        }
    }
}
