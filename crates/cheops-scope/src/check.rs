//! What can be known of a scope without a world: functions, their arguments, repeated services.

use std::collections::HashSet;

use foldhash::quality::RandomState;

use crate::ast::{Argument, Binding, Call, Location, Pair, Scope};
use crate::error::{ErrorKind, ScopeError};
use crate::functions::{self, Function, Keys, ParameterKind};
use crate::suggest::nearest;

/// A scope whose functions exist and whose arguments fit them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked(Scope);

impl Scope {
    /// Checks what needs no world.
    pub fn check(self) -> Result<Checked, ScopeError> {
        for (place, binding) in self.bindings.iter().enumerate() {
            if self.bindings[..place]
                .iter()
                .any(|earlier| earlier.service == binding.service)
            {
                return Err(duplicate_service(binding));
            }
            location(&binding.location)?;
        }
        Ok(Checked(self))
    }
}

impl Checked {
    /// The tree.
    pub fn scope(&self) -> &Scope {
        &self.0
    }
}

pub(crate) fn duplicate_service(binding: &Binding) -> ScopeError {
    let title = format!("service `{}` is bound twice", binding.service);
    ScopeError::new(ErrorKind::DuplicateService, binding.span, title)
        .expecting(["each service once"])
}

fn location(place: &Location) -> Result<(), ScopeError> {
    match place {
        Location::Site(..) | Location::Here(_) => Ok(()),
        Location::First(of) | Location::Span(of) | Location::Replicate(of) => {
            of.iter().try_for_each(location)
        }
        Location::Call(made) => call(made),
    }
}

fn call(call: &Call) -> Result<(), ScopeError> {
    let Some(function) = functions::named(&call.function) else {
        return Err(unknown_function(call));
    };
    let mut positional = 0;
    let mut keys = HashSet::with_hasher(RandomState::default());
    for argument in &call.arguments {
        if let Argument::Pair(pair) = argument {
            if !keys.insert(&pair.key) {
                return Err(key_twice(pair));
            }
            function.keys.check(pair)?;
            continue;
        }
        let Some(parameter) = function.parameters.get(positional) else {
            return Err(surplus(function, call, argument));
        };
        parameter.kind.check(argument, parameter.name)?;
        positional += 1;
    }
    let labelled = matches!(function.keys, Keys::Labels) && call.arguments.len() == positional;
    let missing = function
        .parameters
        .get(positional)
        .map(|parameter| parameter.name);
    match missing.or(labelled.then_some("key=value")) {
        Some(name) => Err(missing_argument(function, call, name)),
        None => Ok(()),
    }
}

fn unknown_function(call: &Call) -> ScopeError {
    let title = format!("unknown function `{}`", call.function);
    ScopeError::new(ErrorKind::UnknownFunction, call.name_span, title)
        .expecting(functions::names())
        .suggesting(nearest(&call.function, functions::names()))
}

fn surplus(function: &Function, call: &Call, argument: &Argument) -> ScopeError {
    let title = format!("`{}` takes no such argument", call.function);
    ScopeError::new(ErrorKind::BadArgument, argument.span(), title).expecting([function.usage])
}

fn missing_argument(function: &Function, call: &Call, name: &str) -> ScopeError {
    let title = format!("`{}` needs {name}", call.function);
    ScopeError::new(ErrorKind::MissingArgument, call.name_span, title).expecting([function.usage])
}

fn key_twice(pair: &Pair) -> ScopeError {
    let title = format!("`{}` is given twice", pair.key);
    ScopeError::new(ErrorKind::BadArgument, pair.key_span, title).expecting(["each key once"])
}

impl ParameterKind {
    fn check(self, argument: &Argument, name: &str) -> Result<(), ScopeError> {
        match (self, argument) {
            (ParameterKind::Location, Argument::Location(inner)) => location(inner),
            (ParameterKind::Duration, Argument::Literal(literal))
                if functions::duration(&literal.text).is_some() =>
            {
                Ok(())
            }
            (ParameterKind::Count, Argument::Literal(literal))
                if functions::count(&literal.text).is_some() =>
            {
                Ok(())
            }
            _ => Err(self.fault(argument, name)),
        }
    }

    fn fault(self, argument: &Argument, name: &str) -> ScopeError {
        let (expected, suggestion) = match (self, argument) {
            (ParameterKind::Location, Argument::Literal(literal)) => {
                ("a location", Some(format!("\"{}\"", literal.text)))
            }
            (ParameterKind::Location, _) => ("a location", None),
            (ParameterKind::Duration, given) => ("a duration such as 10ms", duration_meant(given)),
            (ParameterKind::Count, _) => ("a whole number from 1", None),
        };
        let title = format!("{name} has to be {expected}");
        ScopeError::new(ErrorKind::BadArgument, argument.span(), title)
            .expecting([expected])
            .suggesting(suggestion)
    }
}

/// `10` and `10 ms` for `10ms`.
fn duration_meant(given: &Argument) -> Option<String> {
    let text = match given {
        Argument::Literal(literal) => format!("{}ms", literal.text),
        Argument::Location(Location::Site(name, _)) => name.as_str().replace(' ', ""),
        Argument::Location(_) | Argument::Pair(_) => return None,
    };
    functions::duration(&text).is_some().then_some(text)
}
