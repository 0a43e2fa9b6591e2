//! Replicas in the order of a leader's log. See docs/book/src/replication.md for the picture.
//!
//! `site` takes events; `submit`, `outbox` bring requests to the leader; `gate` asks its service; `log`, `send`
//! spread what was ordered; `apply` runs it; `promote`, `restore` are for when leaders and disks change; `rest`, `shelf`
//! keep what is done out of memory.

mod answers;
mod apply;
mod archive;
mod command;
mod follow;
mod gate;
mod give_up;
mod glance;
mod heard;
mod log;
mod make;
mod members;
mod message;
mod outbox;
mod places;
mod planted;
mod promote;
mod replicant;
mod rest;
mod restore;
mod send;
mod settle;
mod shared;
mod shelf;
mod site;
mod sound;
mod start;
mod steps;
mod stream;
mod submit;
mod view;
mod wake;
mod withdraw;

pub(crate) use answers::AnswerRecord;
pub use archive::{Archive, Kin, Mark, Reader, Summary};
pub use glance::Glance;
pub use log::{Base, Body, Entry, Kept, Runs, Stage};
pub use message::{Header, Message, ReplicaState, Result, Row};
#[doc(hidden)]
pub use planted::Bug;
pub(crate) use replicant::Record as ReplicantRecord;
pub use shared::Tuning;
pub(crate) use shared::{OutboxRecord, SiteRecord};
pub use site::{Event, Found as FoundRecords, Now, Quarantined, Repair, Site};
pub use start::Birth;
pub use steps::{OperationView, Progress, Step};
pub use view::ReplicantView;
