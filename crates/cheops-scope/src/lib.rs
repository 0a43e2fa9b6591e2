//! scope-lang: a scope says, for each service, **where** a request runs and **how** the places
//! relate. This crate turns its text into a plan, and nothing else decides what happens.
//!
//! ```
//! use cheops_scope::{World, parse};
//!
//! let mut world = World::builder("site1".parse()?);
//! world.site("site2".parse()?);
//! world.service("image".parse()?, ["glance".parse()?]);
//! let world = world.build();
//!
//! let scope = parse("Glance: site1 & site2")?.check()?;
//! let resolved = scope.resolve(&world)?;
//! let plan = resolved.plan_of(&"image".parse()?).expect("it is bound");
//! assert_eq!(plan.to_string(), "replicate(site1, site2; eventual)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The steps, each a type so that none can be left out: text → [`Scope`] (grammar) → [`Checked`]
//! (functions and arguments) → [`Resolved`] (one [`Plan`] per service, against a [`World`]).
//! The language is described in `GRAMMAR.md` of this crate; every example in it is a test.

mod ast;
mod check;
mod error;
mod explain;
mod functions;
mod inside;
mod lexer;
pub mod limits;
mod memo;
mod parser;
mod plan;
mod print;
mod render;
mod resolve;
mod suggest;
mod world;

pub use ast::{Argument, Binding, Call, Literal, Location, Pair, Scope, Span};
pub use check::Checked;
pub use error::{ErrorKind, ScopeError};
pub use explain::{Explanation, ServicePlan};
pub use functions::{FunctionHelp, function_help};
pub use memo::Memo;
pub use parser::{parse, parse_bytes};
pub use plan::Plan;
pub use render::{Paint, render};
pub use resolve::Resolved;
pub use world::{RoundTrips, ServiceIndex, SiteIndex, World, WorldBuilder};
