//! Who may address whom: everybody, unless sites have parents.
//!
//! A parent makes a tree. Operations go down: a site addresses itself and what is below it. Beside
//! goes only what both sides declare. Sites without a parent are equals.

use std::collections::BTreeMap;
use std::fmt;

use cheops_model::SiteName;

use super::limits::DEPTH_MAX;

/// Where a site stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The site above it.
    pub parent: Option<SiteName>,
    /// Sites beside it that it declares a link with.
    pub links: Vec<SiteName>,
}

/// The places of all known sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<SiteName, Place>);

/// Why one site may not address another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Against {
    /// The target is above.
    Upwards {
        /// Who addresses.
        from: SiteName,
        /// Whom.
        to: SiteName,
    },
    /// The target is neither below nor linked.
    Sideways {
        /// Who addresses.
        from: SiteName,
        /// Whom.
        to: SiteName,
    },
    /// Only one side declares the link.
    HalfDeclared {
        /// Who declares it.
        by: SiteName,
        /// Who does not.
        missing: SiteName,
    },
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Against::Upwards { from, to } => write!(
                f,
                "{to} is above {from}, and operations go down; send the request to {to} itself"
            ),
            Against::Sideways { from, to } => write!(
                f,
                "{to} is not below {from}; send the request to a site above both, or declare a link \
                 between them with `mesh.links` at both"
            ),
            Against::HalfDeclared { by, missing } => write!(
                f,
                "{by} declares a link with {missing}, and {missing} does not; add {by} to its `mesh.links`"
            ),
        }
    }
}

impl Tree {
    /// Sets where a site stands.
    pub fn put(&mut self, site: SiteName, place: Place) {
        self.0.insert(site, place);
    }

    /// The site above.
    pub fn parent(&self, site: &SiteName) -> Option<&SiteName> {
        self.0.get(site)?.parent.as_ref()
    }

    /// The sites right below, in name order.
    pub fn children<'a>(&'a self, site: &'a SiteName) -> impl Iterator<Item = &'a SiteName> {
        let below = move |(_, place): &(&SiteName, &Place)| place.parent.as_ref() == Some(site);
        self.0.iter().filter(below).map(|(child, _)| child)
    }

    /// The sites above, the nearest first. A circle ends where it would close.
    pub fn above<'a>(&'a self, site: &'a SiteName) -> impl Iterator<Item = &'a SiteName> {
        let up = move |below: &&'a SiteName| self.parent(below).filter(|above| *above != site);
        std::iter::successors(self.parent(site).filter(|above| *above != site), up).take(DEPTH_MAX)
    }

    /// Whether `from` may address `to`.
    pub fn allows(&self, from: &SiteName, to: &SiteName) -> Result<(), Against> {
        let equals = self.parent(from).is_none() && self.parent(to).is_none();
        if from == to || equals || self.above(to).any(|above| above == from) {
            return Ok(());
        }
        let declares = |by: &SiteName, with: &SiteName| {
            self.0
                .get(by)
                .is_some_and(|place| place.links.contains(with))
        };
        let half = |by: &SiteName, missing: &SiteName| Against::HalfDeclared {
            by: by.clone(),
            missing: missing.clone(),
        };
        match (declares(from, to), declares(to, from)) {
            (true, true) => return Ok(()),
            (true, false) => return Err(half(from, to)),
            (false, true) => return Err(half(to, from)),
            (false, false) => (),
        }
        let (from_name, to_name) = (from.clone(), to.clone());
        Err(if self.above(from).any(|above| above == to) {
            Against::Upwards {
                from: from_name,
                to: to_name,
            }
        } else {
            Against::Sideways {
                from: from_name,
                to: to_name,
            }
        })
    }

    /// The sites on the way down from `from` to `to`, the nearest to `to` first, without either;
    /// none if `to` is not below.
    pub fn between<'a>(&'a self, from: &'a SiteName, to: &'a SiteName) -> Vec<&'a SiteName> {
        let above: Vec<_> = self.above(to).collect();
        match above.iter().position(|site| *site == from) {
            Some(depth) => above[..depth].to_vec(),
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    /// top over a and b, a over a1 and a2, b over b1; a2 and b1 linked, a1 half linked with b1.
    fn tree() -> Tree {
        let mut tree = Tree::default();
        for (name, parent, links) in [
            ("top", None, vec![]),
            ("a", Some("top"), vec![]),
            ("b", Some("top"), vec![]),
            ("a1", Some("a"), vec!["b1"]),
            ("a2", Some("a"), vec!["b1"]),
            ("b1", Some("b"), vec!["a2"]),
            ("other", None, vec![]),
        ] {
            let parent = parent.map(site);
            let links = links.into_iter().map(site).collect();
            tree.put(site(name), Place { parent, links });
        }
        tree
    }

    #[test]
    fn operations_go_down_and_over_declared_links() {
        let tree = tree();
        let allowed = |from, to| tree.allows(&site(from), &site(to)).is_ok();
        for (from, to) in [
            ("top", "a"),
            ("top", "a1"),
            ("top", "b1"),
            ("a", "a2"),
            ("a1", "a1"),
            ("a2", "b1"),
            ("b1", "a2"),
            ("top", "other"),
            ("other", "top"),
        ] {
            assert!(allowed(from, to), "{from} to {to}");
        }
        let refused = |from, to| tree.allows(&site(from), &site(to)).unwrap_err();
        assert!(matches!(refused("a", "top"), Against::Upwards { .. }));
        assert!(matches!(refused("a1", "top"), Against::Upwards { .. }));
        assert!(matches!(refused("a", "b"), Against::Sideways { .. }));
        assert!(matches!(refused("a", "b1"), Against::Sideways { .. }));
        assert!(matches!(refused("other", "a1"), Against::Sideways { .. }));
        assert!(matches!(refused("a1", "b1"), Against::HalfDeclared { .. }));
        assert!(matches!(refused("b1", "a1"), Against::HalfDeclared { .. }));
    }

    #[test]
    fn the_way_down_goes_by_the_parents() {
        let tree = tree();
        assert_eq!(tree.between(&site("top"), &site("a1")), [&site("a")]);
        assert_eq!(
            tree.between(&site("a"), &site("a1")),
            Vec::<&SiteName>::new()
        );
        assert_eq!(
            tree.between(&site("b"), &site("a1")),
            Vec::<&SiteName>::new()
        );
        let (a, children) = (site("a"), ["a1", "a2"].map(site));
        assert_eq!(tree.children(&a).cloned().collect::<Vec<_>>(), children);
    }

    #[test]
    fn a_circle_of_parents_is_no_way_round_the_rules() {
        let mut tree = Tree::default();
        for (name, parent) in [("x", "y"), ("y", "z"), ("z", "x")] {
            let parent = Some(site(parent));
            tree.put(
                site(name),
                Place {
                    parent,
                    links: vec![],
                },
            );
        }
        assert!(tree.above(&site("x")).count() <= DEPTH_MAX);
        assert_eq!(
            tree.allows(&site("x"), &site("y")),
            Ok(()),
            "each is above the other"
        );
    }
}
