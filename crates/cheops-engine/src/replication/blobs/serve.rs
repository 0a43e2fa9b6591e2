//! Giving contents to other sites: what they ask for, chunk by chunk, at the pace of their link.

use std::io;

use cheops_blob::{BlobError, Reader, Reference};
use cheops_model::SiteName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::Blobs;
use super::frames::{Ask, Form, Reply, read_ask, write_reply};
use super::limits::{FRAME_TIME_MAX, IDLE_TIME_MAX};

impl Blobs {
    /// Answers one peer until it asks no more.
    pub(super) async fn serve<S>(&self, peer: SiteName, mut stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Ok(_turn) = self.0.serving.acquire().await else {
            return;
        };
        let ended = self.answer_asks(&peer, &mut stream).await;
        tracing::debug!(%peer, ?ended, "a connection for contents ended");
    }

    async fn answer_asks<S>(&self, peer: &SiteName, stream: &mut S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let pace = self.pace(peer);
        // Whoever asks for a chunk asks for the next one after it.
        let mut open: Option<Reader> = None;
        loop {
            let ask = timeout(IDLE_TIME_MAX, read_ask(stream)).await??;
            let reply = self.answer(&ask, &mut open);
            if let Reply::Bytes(bytes) | Reply::Packed(bytes) = &reply {
                pace.take(bytes.len() as u64).await;
                self.0.counters.sent(bytes.len());
            }
            timeout(FRAME_TIME_MAX, write_reply(stream, &reply)).await??;
            if let (Ask::Chunk { of, index, .. }, Reply::Bytes(_) | Reply::Packed(_)) =
                (&ask, &reply)
            {
                self.note_sent(*of, peer, *index);
            }
        }
    }

    fn answer(&self, ask: &Ask, open: &mut Option<Reader>) -> Reply {
        let of = match ask {
            Ask::Sums(of) | Ask::Chunk { of, .. } => *of,
        };
        let read = self.read_for(of, ask, open);
        match read {
            Ok(reply) => reply,
            Err(fault) => {
                *open = None;
                self.note_fault(of, &fault);
                Reply::Missing
            }
        }
    }

    fn read_for(
        &self,
        of: Reference,
        ask: &Ask,
        open: &mut Option<Reader>,
    ) -> Result<Reply, BlobError> {
        if open.as_ref().is_none_or(|reader| reader.reference() != of) {
            *open = self.0.store.reader(of)?;
        }
        let Some(reader) = open else {
            // It may have been removed by hand, and be needed here as well.
            self.0.nudge.notify_one();
            return Ok(Reply::Missing);
        };
        match ask {
            Ask::Sums(_) => Ok(Reply::Bytes(reader.sums().to_bytes())),
            Ask::Chunk { index, form, .. } => {
                let chunk = reader.chunk(*index)?;
                Ok(pack(chunk, *form))
            }
        }
    }
}

/// Compressed if that was asked for and saves something.
fn pack(chunk: Vec<u8>, form: Form) -> Reply {
    let packed = match form {
        Form::Plain => None,
        Form::Zstd => zstd::bulk::compress(&chunk, 1).ok(),
    };
    match packed {
        Some(packed) if packed.len() < chunk.len() - chunk.len() / 16 => Reply::Packed(packed),
        _ => Reply::Bytes(chunk),
    }
}
