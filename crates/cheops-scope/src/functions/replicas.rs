//! `replicas(n, location)`: keep n live replicas among these sites.

use std::collections::HashSet;

use cheops_model::{Guarantee, SiteName};
use foldhash::quality::RandomState;

use super::{Function, Keys, Parameter, ParameterKind};
use crate::ast::Span;
use crate::error::{ErrorKind, ScopeError};
use crate::plan::{Draft, Plan};

pub(super) static FUNCTION: Function = Function {
    names: &["replicas"],
    usage: "replicas(n, location)",
    summary: "n live replicas among the sites of location; one whose site is gone is replaced",
    parameters: &[
        Parameter { name: "n", kind: ParameterKind::Count },
        Parameter { name: "location", kind: ParameterKind::Location },
    ],
    keys: Keys::Options(&[]),
    resolve: |arguments, resolver| {
        let mut among = Among {
            sites: Vec::new(),
            seen: HashSet::default(),
            guarantee: None,
            span: arguments.span(1),
        };
        among.gather(resolver.location(arguments.location(1))?)?;
        let count = arguments.count(0);
        if count as usize > among.sites.len() {
            let title = format!("{count} replicas cannot live on {} sites", among.sites.len());
            return Err(ScopeError::new(ErrorKind::BadArgument, arguments.span(0), title)
                .expecting([format!("1 to {}", among.sites.len())])
                .suggesting(Some(among.sites.len().to_string())));
        }
        let of = among.sites.into_iter().map(Plan::At).collect();
        Ok(Plan::Keep { count, of, guarantee: among.guarantee })
    },
};

/// The sites of a location, each once, and the one guarantee that holds for them.
struct Among {
    sites: Vec<SiteName>,
    seen: HashSet<SiteName, RandomState>,
    guarantee: Option<Guarantee>,
    span: Span,
}

impl Among {
    fn gather(&mut self, draft: Draft) -> Result<(), ScopeError> {
        match draft {
            Plan::At(site) => self.add(site),
            Plan::Queue { at, guarantee } => {
                self.promise(Some(guarantee))?;
                self.add(at);
            }
            Plan::FirstOf(of) => self.gather_each(of)?,
            Plan::Replicate { of, guarantee }
            | Plan::Span { of, guarantee }
            | Plan::Keep { of, guarantee, .. } => {
                self.promise(guarantee)?;
                self.gather_each(of)?;
            }
        }
        Ok(())
    }

    fn gather_each(&mut self, of: Vec<Draft>) -> Result<(), ScopeError> {
        of.into_iter().try_for_each(|draft| self.gather(draft))
    }

    fn add(&mut self, site: SiteName) {
        if self.seen.insert(site.clone()) {
            self.sites.push(site);
        }
    }

    fn promise(&mut self, guarantee: Option<Guarantee>) -> Result<(), ScopeError> {
        match (&self.guarantee, guarantee) {
            (_, None) => Ok(()),
            (Some(held), Some(new)) if *held != new => Err(self.two_guarantees()),
            (_, Some(new)) => {
                self.guarantee = Some(new);
                Ok(())
            }
        }
    }

    fn two_guarantees(&self) -> ScopeError {
        let title = "replicas have one guarantee, not two";
        ScopeError::new(ErrorKind::BadArgument, self.span, title).expecting(["one guarantee"])
    }
}
