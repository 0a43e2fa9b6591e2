//! Bodies read whole, within a bound, for what cannot be done on the way.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::body::Body;
use crate::problem::Problem;
use crate::pulse::Patience;
use crate::worker::Worker;

/// Why a body is not here whole.
pub(super) enum NotWhole {
    /// It has more bytes.
    TooLong,
    /// It broke off, or did not come in time.
    Broken,
}

/// Reads a body of at most `bytes_max`.
pub(super) async fn whole(
    worker: &Worker,
    patience: &Patience,
    mut body: Body,
    bytes_max: usize,
) -> Result<Bytes, NotWhole> {
    let reading = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| NotWhole::Broken)?;
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            if bytes.len() + piece.len() > bytes_max {
                return Err(NotWhole::TooLong);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    };
    let read = worker.sweep.within(patience, pin!(reading)).await;
    read.unwrap_or(Err(NotWhole::Broken))
}

/// A body that may never end.
pub(super) enum Gathered {
    Whole(Bytes),
    /// What has come so far, and the rest.
    More(BytesMut, Body),
}

/// Reads a body of at most `bytes_max`, for a while: what has not ended by then may be a stream.
pub(super) async fn gather(
    mut body: Body,
    bytes_max: usize,
    while_ms: Duration,
) -> Result<Gathered, NotWhole> {
    let until = Instant::now() + while_ms;
    let mut bytes = BytesMut::new();
    loop {
        let frame = match timeout_at(until, body.frame()).await {
            Err(_) => return Ok(Gathered::More(bytes, body)),
            Ok(None) => return Ok(Gathered::Whole(bytes.freeze())),
            Ok(Some(frame)) => frame.map_err(|_| NotWhole::Broken)?,
        };
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        if bytes.len() + piece.len() > bytes_max {
            return Err(NotWhole::TooLong);
        }
        bytes.extend_from_slice(&piece);
    }
}

/// A body, as far as it was read.
pub(super) enum Read {
    /// All of it.
    Whole(Bytes),
    /// More than the bound: what was read, and the rest.
    Long(Long),
}

/// A body that is longer than the bound.
pub(super) struct Long {
    pub(super) read: Bytes,
    pub(super) rest: Body,
    /// Of all of it, if that was said.
    pub(super) length: Option<u64>,
}

/// Reads a request's body up to `bytes_max`, or a piece further.
pub(super) async fn beginning(
    worker: &Worker,
    patience: &Patience,
    mut body: Body,
    bytes_max: usize,
) -> Result<Read, Problem> {
    let length = http_body::Body::size_hint(&body).exact();
    let reading = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.ok()?.into_data() else {
                continue;
            };
            bytes.extend_from_slice(&piece);
            if bytes.len() > bytes_max {
                break;
            }
        }
        Some(bytes.freeze())
    };
    let read = worker.sweep.within(patience, pin!(reading)).await.flatten();
    let read = read.ok_or_else(|| Problem::BadBody("the body broke off".to_owned()))?;
    Ok(match read.len() > bytes_max {
        false => Read::Whole(read),
        true => Read::Long(Long {
            read,
            rest: body,
            length,
        }),
    })
}

/// A request's body; whoever breaks it off hears nothing anyway.
pub(super) async fn of_request(
    worker: &Worker,
    patience: &Patience,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    match whole(worker, patience, body, bytes_max).await {
        Ok(bytes) => Ok(bytes),
        Err(NotWhole::TooLong) => Err(Problem::BodyTooLarge { bytes_max }),
        Err(NotWhole::Broken) => Err(Problem::BadBody("the body broke off".to_owned())),
    }
}
