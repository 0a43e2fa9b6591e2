//! The protocols of Cheops without I/O: events in, records and effects out.
//!
//! Time and chance are arguments; the same events give the same bytes. What a step wants written and what it wants
//! said leave together in an [`Output`], and the second can be had only after the first is durable.
//! A step never fails on input; a broken promise of its own is an `assert!`.

pub mod eventual;
pub mod ids;
pub mod limits;
pub mod link;
pub mod membership;
pub mod operation;
pub mod output;
pub mod record;

pub use eventual::{Birth, Event, Message, Now, Site};
pub use ids::{Boot, Epoch, MeshKey, OperationId, Position, ReplicantId, Shape, dated};
pub use link::Envelope;
pub use operation::{Answer, Naming, Operation, Outcome, Submission, Wait};
pub use output::{Call, CallId, Change, ClientId, Effect, Output};
pub use record::{RecordFault, Table};
