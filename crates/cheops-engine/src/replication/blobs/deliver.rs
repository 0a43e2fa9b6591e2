//! A content on its way to a service: from the disk, or as it comes in.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use cheops_blob::Reader;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::intake::Handed;

/// How far a body is, as whoever waits for the answer sees it.
#[derive(Default)]
pub(in super::super) struct Moved {
    pieces: AtomicU64,
    ended: AtomicBool,
    damaged: AtomicBool,
}

impl Moved {
    /// Grows with every piece.
    pub(in super::super) fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Acquire)
    }

    /// True if all of it was handed over: before that, nobody can have read it whole.
    pub(in super::super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// True if it broke off because what is on the disk is not what it should be.
    pub(in super::super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    fn count(&self) {
        self.pieces.fetch_add(1, Ordering::Release);
    }
}

/// The body of a request that carries a content.
pub(in super::super) struct ContentBody {
    source: Source,
    moved: Arc<Moved>,
}

enum Source {
    Disk {
        reader: Reader,
        next: u64,
    },
    Client {
        pieces: mpsc::Receiver<Handed>,
        length: Option<u64>,
    },
}

impl ContentBody {
    /// What is here whole.
    pub(in super::super) fn whole(reader: Reader) -> (ContentBody, Arc<Moved>) {
        ContentBody::of(Source::Disk { reader, next: 0 })
    }

    /// What a client brings.
    pub(in super::super) fn coming(
        pieces: mpsc::Receiver<Handed>,
        length: Option<u64>,
    ) -> (ContentBody, Arc<Moved>) {
        ContentBody::of(Source::Client { pieces, length })
    }

    fn of(source: Source) -> (ContentBody, Arc<Moved>) {
        let moved = Arc::new(Moved::default());
        let body = ContentBody {
            source,
            moved: moved.clone(),
        };
        (body, moved)
    }
}

impl Body for ContentBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if this.moved.has_ended() {
            return Poll::Ready(None);
        }
        let piece = match &mut this.source {
            Source::Disk { reader, next } => {
                let chunk = match reader.chunk(*next) {
                    Ok(chunk) => Bytes::from(chunk),
                    Err(fault) => {
                        this.moved.damaged.store(true, Ordering::Release);
                        return Poll::Ready(Some(Err(io::Error::other(fault))));
                    }
                };
                *next += 1;
                if *next == reader.sums().chunks() {
                    this.moved.ended.store(true, Ordering::Release);
                }
                chunk
            }
            Source::Client { pieces, .. } => match std::task::ready!(pieces.poll_recv(cx)) {
                Some(Handed::Piece(piece)) => piece,
                Some(Handed::Last(piece)) => {
                    this.moved.ended.store(true, Ordering::Release);
                    piece
                }
                None => return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            },
        };
        this.moved.count();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Disk { reader, .. } => SizeHint::with_exact(reader.reference().bytes),
            Source::Client { length, .. } => {
                length.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}
