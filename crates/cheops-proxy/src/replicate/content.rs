//! Bodies too long for a log: written to disk as they come, while the service of this site is asked
//! about them, and named by their hash in the log.
//!
//! Where this site orders the operation, the service reads along. Otherwise the request goes as it is to
//! the site that does; and where that is not in reach, or a retry has to be told from another request
//! (`Idempotency-Key`), or the client does not wait (`Prefer: respond-async`), the content is kept whole
//! first and the operation handed in then.

use std::pin::pin;

use bytes::Bytes;
use cheops_core::operation::Mode;
use cheops_core::{Answer, Operation, Submission};
use cheops_engine::replication::{
    BODY_BYTES_MAX, Content, Intake, Known, NotKept, NotTaken, Reference,
};
use http::{HeaderMap, Response, header};
use http_body_util::BodyExt;

use super::answer;
use super::body::Long;
use super::read::text;
use super::submission::Draft;
use super::write::{HandedIn, Wanted, desired, draft};
use super::{Spread, target};
use crate::body::Body;
use crate::here::Call;
use crate::peer;
use crate::problem::Problem;
use crate::route::Journey;

/// Makes a resource out of a content, on these sites.
pub(super) async fn create(
    journey: &Journey<'_>,
    spread: &Spread,
    call: Call,
    long: Long,
) -> Result<Response<Body>, Problem> {
    let way = match spread.sites.contains(&journey.worker.here) {
        true => Way::of(&call.head.headers),
        false => Way::WholeFirst,
    };
    let make = |draft: &Draft<'_>| draft.create(spread);
    bring(journey, call, long, way, &make).await
}

/// Gives a content to one.
pub(super) async fn change(
    journey: &Journey<'_>,
    known: &Known,
    wanted: Wanted,
    mut call: Call,
    long: Long,
) -> Result<Response<Body>, Problem> {
    let picture = journey.worker.picture();
    let leads = known.leader == picture.here;
    if !leads && picture.usable(&known.leader, &journey.service.config.name) {
        call.body = Body::Resumed(Some(long.read), Box::new(long.rest));
        return peer::send(journey, &known.leader, call).await;
    }
    let way = match leads {
        true => Way::of(&call.head.headers),
        false => Way::WholeFirst,
    };
    let desired = desired(journey, known).await;
    let make = |draft: &Draft<'_>| draft.change(known, &wanted, &desired);
    bring(journey, call, long, way, &make).await
}

/// How a content is brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The service reads along.
    Along,
    WholeFirst,
}

impl Way {
    fn of(headers: &HeaderMap) -> Way {
        match headers.contains_key("idempotency-key") {
            true => Way::WholeFirst,
            false => Way::Along,
        }
    }
}

/// Makes the operation out of what is known of the request.
type Make<'a> = &'a dyn Fn(&Draft<'_>) -> Result<Submission, Problem>;

async fn bring(
    journey: &Journey<'_>,
    call: Call,
    long: Long,
    way: Way,
    make: Make<'_>,
) -> Result<Response<Body>, Problem> {
    let Long { read, rest, length } = long;
    looked_at(journey, &call, &read)?;
    let engine = &journey.service.replicas.engine;
    let mut intake = engine.take_in(length).map_err(not_kept)?;
    let bringing = Bringing {
        journey,
        call: &call,
        beginning: read.clone(),
        make,
    };
    let first = bringing.submission(Content::Streaming(intake.id()))?;
    if way == Way::WholeFirst || first.mode == Mode::Async {
        intake.valve().close();
        let of = pump(journey, read, rest, &mut intake).await?;
        return bringing.submit(of, intake).await;
    }
    let handed_in = HandedIn::of(&first);
    let op = first.op.clone();
    let valve = intake.valve();
    let mut asked = Some(Box::pin(engine.stream(first)));
    let of = {
        let mut pumping = pin!(pump(journey, read, rest, &mut intake));
        loop {
            let answering = async {
                match &mut asked {
                    Some(asked) => asked.await,
                    None => std::future::pending().await,
                }
            };
            // It is asked before the first piece is there.
            tokio::select! {
                biased;
                answer = answering => {
                    if !is_for_later(&answer) {
                        return answer::respond(journey, &handed_in, answer).await;
                    }
                    valve.close();
                    asked = None;
                }
                pumped = &mut pumping => break pumped?,
            }
        }
    };
    let Some(asked) = asked else {
        return bringing.submit(of, intake).await;
    };
    let whole = bringing.whole(&op, of)?;
    let wait = journey.patience.limit;
    if matches!(engine.complete(whole, wait).await, Ok(Answer::Accepted)) {
        intake.release();
    }
    let answer = asked.await;
    match is_for_later(&answer) {
        true => bringing.submit(of, intake).await,
        false => answer::respond(journey, &handed_in, answer).await,
    }
}

/// True if this site cannot have it decided while it comes in: nothing happened.
fn is_for_later(answer: &Result<Answer, NotTaken>) -> bool {
    matches!(answer, Ok(Answer::Unavailable(_)))
}

/// A body in which ids may stand has to be read whole, so it has to be short.
fn looked_at(journey: &Journey<'_>, call: &Call, read: &[u8]) -> Result<(), Problem> {
    let replicas = &journey.service.replicas;
    let meaning = replicas.classify(call.head.method.as_str(), target(call));
    let kind = meaning.spot().map_or("", |spot| spot.kind);
    let media = text(&call.head.headers, header::CONTENT_TYPE);
    match replicas.api.looks_into(kind, media, read) {
        true => Err(Problem::BodyTooLarge {
            bytes_max: BODY_BYTES_MAX,
        }),
        false => Ok(()),
    }
}

/// Reads the body to its end and keeps it; returns when it is whole on the disk.
async fn pump(
    journey: &Journey<'_>,
    read: Bytes,
    mut rest: Body,
    intake: &mut Intake,
) -> Result<Reference, Problem> {
    let broke_off = || Problem::BadBody("the body broke off".to_owned());
    let (sweep, patience) = (&journey.worker.sweep, &journey.patience);
    let mut next = Some(read);
    while let Some(piece) = next.take() {
        let pushed = sweep.within(patience, pin!(intake.push(piece))).await;
        // Neither the disk nor the service took anything for as long as a service may take.
        let slow = || Problem::NotNow("the service does not read it".to_owned());
        pushed.ok_or_else(slow)?.map_err(not_kept)?;
        let reading = async {
            while let Some(frame) = rest.frame().await {
                match frame.ok().map(http_body::Frame::into_data) {
                    Some(Ok(piece)) => return Some(Some(piece)),
                    // Trailers are not kept.
                    Some(Err(_)) => (),
                    None => return None,
                }
            }
            Some(None)
        };
        let reading = pin!(reading);
        tokio::select! {
            came = sweep.within(patience, reading) => next = came.flatten().ok_or_else(broke_off)?,
            why = intake.broken() => return Err(not_kept(why)),
        }
    }
    intake.finish().await.map_err(not_kept)
}

/// What is needed to make the operation, before and after its content is whole.
struct Bringing<'a> {
    journey: &'a Journey<'a>,
    call: &'a Call,
    beginning: Bytes,
    make: Make<'a>,
}

impl Bringing<'_> {
    fn submission(&self, content: Content) -> Result<Submission, Problem> {
        let body = self.beginning.clone();
        (self.make)(&draft(self.journey, self.call, body, Some(content)))
    }

    /// The operation with its content.
    fn whole(&self, op: &Operation, of: Reference) -> Result<Operation, Problem> {
        let whole = self.submission(Content::Blob(of))?.op;
        Ok(Operation {
            fields: whole.fields,
            rest: whole.rest,
            digest: whole.digest,
            ..op.clone()
        })
    }

    /// Hands it in like any other, now that its content is whole.
    async fn submit(&self, of: Reference, intake: Intake) -> Result<Response<Body>, Problem> {
        let submission = self.submission(Content::Blob(of))?;
        let handed_in = HandedIn::of(&submission);
        let engine = &self.journey.service.replicas.engine;
        let answer = engine.submit(submission).await;
        if matches!(answer, Ok(Answer::Accepted | Answer::OutcomeUnknown)) {
            engine.hold(intake);
        }
        answer::respond(self.journey, &handed_in, answer).await
    }
}

fn not_kept(why: NotKept) -> Problem {
    match why {
        NotKept::NoRoom => Problem::NoRoom,
        NotKept::TooLong => Problem::BadBody("no content may be as long".to_owned()),
        NotKept::Busy => Problem::NotNow("too many contents come in at once".to_owned()),
        NotKept::Failed => Problem::NotNow("the disk failed".to_owned()),
    }
}
