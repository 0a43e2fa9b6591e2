//! Requests whose body is a content: streamed to the service from the disk, or as it comes in.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use cheops_blob::Reference;
use cheops_core::operation::{Fields, Refusal};
use cheops_core::{Call, Outcome, Wait};
use cheops_rest::{CallKind, Class};
use http_body_util::Full;
use hyper::Request;
use tokio::time::{sleep, timeout};

use super::super::blobs::{ContentBody, Fate, Moved};
use super::super::http::{Heard, Silence, Way, connect, hear};
use super::super::limits::ANSWER_BYTES_MAX;
use super::super::wire::{self, Content};
use super::{Desk, refused};

/// Its content did not come to its end.
const BAD_REQUEST: u16 = 400;

/// True if a call carries a content: it is made where it holds up nothing else.
pub(super) fn is_in(call: &Call) -> bool {
    let named = |fields: &Fields| {
        let mut values = fields.values();
        values.any(|value| value.parse::<Reference>().is_ok())
    };
    match call {
        Call::Create { op, fields } => wire::has_content(&op.rest) || named(fields),
        Call::Run { op, .. } => wire::has_content(&op.rest),
        Call::Settle { fields, .. } => named(fields),
        Call::Delete { .. } | Call::Probe { .. } => false,
    }
}

impl Desk<'_> {
    /// Sends a request, with the content that is its body if it has one.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        content: Option<&Content>,
        call: CallKind,
    ) -> Result<Heard, Outcome> {
        let Some(content) = content else {
            return self.ask(request, ANSWER_BYTES_MAX).await;
        };
        let replaced = self.show(request.headers_mut());
        let heard = match content {
            Content::Blob(of) => self.send_whole(request, *of).await,
            Content::Streaming(id) => self.send_coming(request, *id, call).await,
        };
        heard.map(|heard| heard.restored(replaced))
    }

    async fn send_whole(
        &self,
        request: Request<Full<Bytes>>,
        of: Reference,
    ) -> Result<Heard, Outcome> {
        let Some(reader) = self.inner.blobs.reader(of) else {
            return Err(self.wait_for(of));
        };
        let (body, moved) = ContentBody::whole(reader);
        let sent = self.service.way.carry(request.map(|_| body), &moved).await;
        if moved.is_damaged() {
            // The service has not got it whole.
            let damaged = cheops_blob::BlobError::Damaged(of);
            self.inner.blobs.note_fault(of, &damaged);
            return Err(self.wait_for(of));
        }
        sent.map_err(unheard)
    }

    /// Why nothing can be written yet, if a content among these fields is not here: what takes several calls is
    /// not begun before all of them can be made.
    pub(super) fn lacks(&self, fields: &Fields) -> Option<Outcome> {
        let named = fields.values().filter_map(|value| value.parse().ok());
        let lacking = named.filter(|of| self.inner.blobs.reader(*of).is_none());
        lacking.map(|of| self.wait_for(of)).last()
    }

    /// Not before its content is here.
    fn wait_for(&self, of: Reference) -> Outcome {
        let sites = self.sites.iter().cloned();
        self.inner.blobs.want(of, sites, Some(self.replicant));
        Outcome::Waits(Wait::Blob)
    }

    /// While its client still brings it. A verdict ends that; anything else is the outcome only once the
    /// content is whole, since only then can somebody else do it.
    async fn send_coming(
        &self,
        request: Request<Full<Bytes>>,
        id: u128,
        call: CallKind,
    ) -> Result<Heard, Outcome> {
        let Some(taken) = self.inner.blobs.take_coming(id) else {
            return Err(refused(Refusal::Verdict, BAD_REQUEST));
        };
        let (pieces, length, ending) = taken.parts();
        let (body, moved) = ContentBody::coming(pieces, length);
        let sent = self.service.way.carry(request.map(|_| body), &moved).await;
        if let Ok(heard) = &sent {
            let said = heard.body.as_deref().unwrap_or_default();
            let class = self.api().class(call, heard.status.as_u16(), said);
            if matches!(class, Class::Verdict | Class::NotReady) {
                return sent.map_err(unheard);
            }
        }
        match ending.fate().await {
            Fate::Whole => sent.map_err(unheard),
            Fate::Coming | Fate::Broken => Err(refused(Refusal::Verdict, BAD_REQUEST)),
        }
    }
}

fn unheard(silence: Silence) -> Outcome {
    match silence {
        Silence::NotSent => Outcome::NotSent,
        Silence::Unknown => Outcome::Unknown,
    }
}

impl Way {
    /// Sends a content on a connection of its own. The service may take as long as it likes to read it, if
    /// it goes on reading, and its deadline to answer afterwards.
    async fn carry(
        &self,
        request: Request<ContentBody>,
        moved: &Arc<Moved>,
    ) -> Result<Heard, Silence> {
        // Before all of it was handed over, it cannot have been read whole.
        let silence = || match moved.has_ended() {
            true => Silence::Unknown,
            false => Silence::NotSent,
        };
        let mut sender = None;
        for address in self.addresses() {
            sender = connect(address).await;
            if sender.is_some() {
                break;
            }
        }
        let mut sender = sender.ok_or(Silence::NotSent)?;
        let mut answering = pin!(sender.send_request(request));
        let mut seen = 0;
        let response = loop {
            tokio::select! {
                response = &mut answering => break response.map_err(|_| silence())?,
                () = sleep(self.deadline()) => {
                    let now = moved.pieces();
                    if now == seen {
                        return Err(silence());
                    }
                    seen = now;
                }
            }
        };
        let heard = timeout(self.deadline(), hear(response, ANSWER_BYTES_MAX)).await;
        heard.unwrap_or(Err(Silence::Unknown))
    }
}
