//! The functions of the language, a file each.
//!
//! A new function is one file with a `FUNCTION`, and its name in the list below. Parser, checker
//! and executor do not change: a function turns its arguments into a plan made of what exists.

use std::time::Duration;

use cheops_model::SiteName;

use crate::ast::{Argument, Call, Location, Pair, Span};
use crate::error::{ErrorKind, ScopeError};
use crate::plan::{Draft, Plan};
use crate::resolve::Resolver;
use crate::suggest::nearest;
use crate::world::SiteIndex;

/// What a function is.
pub(crate) struct Function {
    /// Its name, and older ones.
    pub(crate) names: &'static [&'static str],
    /// How it is written: `around(site, radius)`.
    pub(crate) usage: &'static str,
    /// What it means, in one line.
    pub(crate) summary: &'static str,
    /// Arguments by position; all are needed.
    pub(crate) parameters: &'static [Parameter],
    /// Arguments by key; all but labels may be left out.
    pub(crate) keys: Keys,
    /// Arguments → plan.
    pub(crate) resolve: fn(&Arguments<'_>, &Resolver<'_>) -> Result<Draft, ScopeError>,
}

pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: ParameterKind,
}

#[derive(Clone, Copy)]
pub(crate) enum ParameterKind {
    Location,
    Duration,
    Count,
}

/// Which `key=value` arguments a function takes.
pub(crate) enum Keys {
    /// These, each with what it may be.
    Options(&'static [(&'static str, Value)]),
    /// Any, at least one: labels of sites.
    Labels,
}

/// What the value of an option may be.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Duration,
    /// One of these words; one that ends in `.` takes a name after it.
    Word(&'static [&'static str]),
}

/// Declares the modules and the table in one place.
macro_rules! functions {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        static FUNCTIONS: &[&Function] = &[$(&$module::FUNCTION),*];
    };
}

functions![
    around,
    all,
    any,
    none,
    eventual,
    causal,
    transactional,
    strong,
    replicas
];

/// A function, as documents and shells show it.
pub struct FunctionHelp {
    /// How it is written.
    pub usage: &'static str,
    /// What it means.
    pub summary: &'static str,
}

/// Every function of the language.
pub fn function_help() -> impl Iterator<Item = FunctionHelp> {
    FUNCTIONS.iter().map(|f| FunctionHelp {
        usage: f.usage,
        summary: f.summary,
    })
}

pub(crate) fn named(name: &str) -> Option<&'static Function> {
    FUNCTIONS
        .iter()
        .copied()
        .find(|function| function.names.contains(&name))
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS
        .iter()
        .flat_map(|function| function.names.iter().copied())
}

pub(crate) fn resolve(call: &Call, resolver: &Resolver<'_>) -> Result<Draft, ScopeError> {
    let function = named(&call.function).expect("a checked scope names functions that exist");
    (function.resolve)(&Arguments { call }, resolver)
}

pub(crate) fn duration(text: &str) -> Option<Duration> {
    cheops_model::duration::parse_duration(text)
}

pub(crate) fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| *count > 0)
}

/// The arguments of a checked call, by the place or key the function declared.
pub(crate) struct Arguments<'a> {
    pub(crate) call: &'a Call,
}

impl<'a> Arguments<'a> {
    fn positional(&self, place: usize) -> &'a Argument {
        let positional = |argument: &&Argument| !matches!(argument, Argument::Pair(_));
        let argument = self.call.arguments.iter().filter(positional).nth(place);
        argument.expect("a checked call has its arguments")
    }

    fn literal(&self, place: usize) -> &'a str {
        match self.positional(place) {
            Argument::Literal(literal) => &literal.text,
            other => panic!("a checked call has a literal here, not {other:?}"),
        }
    }

    pub(crate) fn location(&self, place: usize) -> &'a Location {
        match self.positional(place) {
            Argument::Location(location) => location,
            other => panic!("a checked call has a location here, not {other:?}"),
        }
    }

    pub(crate) fn duration(&self, place: usize) -> Duration {
        duration(self.literal(place)).expect("a checked call has a duration here")
    }

    pub(crate) fn count(&self, place: usize) -> u32 {
        count(self.literal(place)).expect("a checked call has a number here")
    }

    pub(crate) fn span(&self, place: usize) -> Span {
        self.positional(place).span()
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = &'a Pair> {
        self.call
            .arguments
            .iter()
            .filter_map(|argument| match argument {
                Argument::Pair(pair) => Some(pair),
                Argument::Location(_) | Argument::Literal(_) => None,
            })
    }

    pub(crate) fn option(&self, key: &str) -> Option<&'a str> {
        self.pairs()
            .find(|pair| &*pair.key == key)
            .map(|pair| &*pair.value)
    }

    pub(crate) fn option_duration(&self, key: &str) -> Option<Duration> {
        self.option(key).and_then(duration)
    }
}

impl Resolver<'_> {
    /// A location that has to be one site.
    pub(crate) fn one_site(&self, location: &Location) -> Result<SiteIndex, ScopeError> {
        let known = |site: &SiteName| self.world.site(site.as_str());
        match self.location(location)? {
            Plan::At(site) | Plan::Queue { at: site, .. } => {
                Ok(known(&site).expect("a plan names sites of its world"))
            }
            _ => Err(ScopeError::new(
                ErrorKind::BadArgument,
                location.span(),
                "the centre has to be one site",
            )
            .expecting(["one site"])),
        }
    }

    /// The sites that have every label asked for, in name order.
    pub(crate) fn labelled(&self, arguments: &Arguments<'_>) -> Result<Vec<SiteIndex>, ScopeError> {
        let world = self.world;
        let matches = |site: &SiteIndex| {
            arguments
                .pairs()
                .all(|pair| world.labels(*site).has(&pair.key, &pair.value))
        };
        let found: Vec<SiteIndex> = world.sites().filter(matches).collect();
        if found.is_empty() {
            let wanted: Vec<_> = arguments
                .pairs()
                .map(|p| format!("{}={}", p.key, p.value))
                .collect();
            let title = format!("no known site has {}", wanted.join(" and "));
            return Err(
                ScopeError::new(ErrorKind::NoMatch, arguments.call.name_span, title)
                    .expecting(["labels that a site has"]),
            );
        }
        Ok(found)
    }

    /// The `keep` nearest of these to `from`: by round trip (unknown last), then by name.
    pub(crate) fn nearest_first(
        &self,
        from: SiteIndex,
        sites: Vec<SiteIndex>,
        keep: usize,
    ) -> Vec<SiteIndex> {
        let far = |site| self.world.round_trip(from, site).unwrap_or(Duration::MAX);
        let mut keyed: Vec<_> = sites.into_iter().map(|site| (far(site), site)).collect();
        if keyed.len() > keep {
            keyed.select_nth_unstable(keep);
            keyed.truncate(keep);
        }
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, site)| site).collect()
    }
}

impl Keys {
    pub(crate) fn check(&self, pair: &Pair) -> Result<(), ScopeError> {
        let Keys::Options(options) = self else {
            return Ok(());
        };
        let known = || options.iter().map(|(key, _)| *key);
        match options.iter().find(|(key, _)| *key == &*pair.key) {
            Some((_, value)) => value.check(pair),
            None => {
                let title = format!("unknown key `{}`", pair.key);
                let none = options.is_empty().then_some("no key");
                Err(
                    ScopeError::new(ErrorKind::BadArgument, pair.key_span, title)
                        .expecting(known().chain(none))
                        .suggesting(nearest(&pair.key, known())),
                )
            }
        }
    }
}

impl Value {
    fn check(self, pair: &Pair) -> Result<(), ScopeError> {
        let fault = |expected: Vec<String>, suggestion| {
            let title = format!("`{}` cannot be `{}`", pair.key, pair.value);
            Err(
                ScopeError::new(ErrorKind::BadArgument, pair.value_span, title)
                    .expecting(expected)
                    .suggesting(suggestion),
            )
        };
        match self {
            Value::Duration if duration(&pair.value).is_some_and(|d| !d.is_zero()) => Ok(()),
            Value::Duration => {
                let meant = format!("{}s", pair.value);
                fault(
                    vec!["a duration such as 24h".to_owned()],
                    duration(&meant).filter(|d| !d.is_zero()).map(|_| meant),
                )
            }
            Value::Word(words) => {
                let fits = |word: &&str| match word.strip_suffix('.') {
                    Some(_) => pair.value.len() > word.len() && pair.value.starts_with(*word),
                    None => *word == &*pair.value,
                };
                if words.iter().any(fits) {
                    return Ok(());
                }
                let takes_name = |word: &str| word.ends_with('.');
                let whole = words.iter().copied().filter(|word| !takes_name(word));
                let name = |word: &str| if takes_name(word) { "<name>" } else { "" };
                let expected = words.iter().map(|word| format!("{word}{}", name(word)));
                fault(expected.collect(), nearest(&pair.value, whole))
            }
        }
    }
}
