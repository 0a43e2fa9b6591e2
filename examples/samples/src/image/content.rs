//! The content of an image: taken in and given back as a stream.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use super::range::{Wanted, wanted};
use crate::answer::{Answer, Refusal, empty_answer};

/// The most that is handed to a connection at once.
const FRAME_BYTES: u64 = 64 << 10;

static ZEROS: [u8; FRAME_BYTES as usize] = [0; FRAME_BYTES as usize];

/// A content that has come in whole.
#[derive(Clone, Debug)]
pub(crate) struct File {
    bytes: u64,
    checksum: blake3::Hash,
    /// `None` for a content too large to keep: it reads as zeros.
    kept: Option<Bytes>,
}

impl File {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn checksum(&self) -> String {
        format!("blake3:{}", self.checksum.to_hex())
    }

    /// The next piece of a range, without copying it.
    fn piece(&self, range: &Range<u64>) -> Bytes {
        let bytes = (range.end - range.start).min(FRAME_BYTES) as usize;
        match &self.kept {
            Some(kept) => kept.slice(range.start as usize..range.start as usize + bytes),
            None => Bytes::from_static(&ZEROS[..bytes]),
        }
    }
}

/// Reads a body to its end, and keeps it if it is not larger than `kept_bytes_max`.
pub(crate) async fn receive(mut body: Incoming, kept_bytes_max: u64) -> Result<File, Refusal> {
    let mut hasher = blake3::Hasher::new();
    let mut kept = Some(BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|fault| Refusal::BadRequest(format!("upload broke: {fault}")))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        hasher.update(&piece);
        if hasher.count() > kept_bytes_max {
            kept = None;
        }
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&piece);
        }
    }
    let kept = kept.map(BytesMut::freeze);
    Ok(File {
        bytes: hasher.count(),
        checksum: hasher.finalize(),
        kept,
    })
}

/// The file, or the range of it that the headers ask for.
pub(crate) fn send(file: &File, headers: &HeaderMap) -> Answer {
    let bytes = file.bytes;
    let (status, range) = match wanted(headers, bytes) {
        Wanted::All => (StatusCode::OK, 0..bytes),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Wanted::Nothing => {
            let mut answer = empty_answer(StatusCode::RANGE_NOT_SATISFIABLE);
            answer
                .headers_mut()
                .insert(CONTENT_RANGE, header(format!("bytes */{bytes}")));
            return answer;
        }
    };
    let content_range = header(format!(
        "bytes {}-{}/{bytes}",
        range.start,
        range.end.max(1) - 1
    ));
    let mut answer = Response::new(
        Reading {
            file: file.clone(),
            range,
        }
        .boxed(),
    );
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        headers.insert(CONTENT_RANGE, content_range);
    }
    answer
}

fn header(text: String) -> HeaderValue {
    HeaderValue::from_str(&text).expect("numbers fit a header")
}

/// What is still to be sent of a file.
struct Reading {
    file: File,
    range: Range<u64>,
}

impl Body for Reading {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.range.is_empty() {
            return Poll::Ready(None);
        }
        let piece = this.file.piece(&this.range);
        this.range.start += piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.range.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.range.end - self.range.start)
    }
}
