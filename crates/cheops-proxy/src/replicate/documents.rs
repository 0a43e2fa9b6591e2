//! JSON that does not end: documents one after the other, as watches send them. Each is passed on as soon
//! as it is whole, with the ids that clients see.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use cheops_rest::limits::BODY_BYTES_MAX;
use cheops_rest::{Body as RestBody, Id, Side};
use http_body::{Body as HttpBody, Frame};

use super::Replicas;
use crate::body::{Body, BodyFault};

/// An answer's documents on their way.
pub(crate) struct Documents {
    rest: Body,
    replicas: Replicas,
    kind: Option<String>,
    media: String,
    /// What has come and is not whole.
    bytes: BytesMut,
    scan: Scan,
    ended: bool,
}

impl Documents {
    /// Goes on with what has come already.
    pub(super) fn new(
        rest: Body,
        bytes: BytesMut,
        replicas: Replicas,
        kind: Option<&str>,
        media: &str,
    ) -> Documents {
        Documents {
            rest,
            replicas,
            kind: kind.map(str::to_owned),
            media: media.to_owned(),
            bytes,
            scan: Scan::default(),
            ended: false,
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        loop {
            if let Some(end) = self.scan.end_of_whole(&self.bytes) {
                let whole = self.bytes.split_to(end).freeze();
                let shown = self.shown(whole);
                return Poll::Ready(Some(Ok(Frame::data(shown))));
            }
            if self.ended {
                let rest = self.bytes.split().freeze();
                // Blanks at the end; or half a document, in which ids cannot be told.
                return Poll::Ready(match rest.trim_ascii().is_empty() {
                    true if rest.is_empty() => None,
                    true => Some(Ok(Frame::data(rest))),
                    false => Some(Err(BodyFault::Unreadable)),
                });
            }
            if self.bytes.len() > BODY_BYTES_MAX {
                return Poll::Ready(Some(Err(BodyFault::Unreadable)));
            }
            match ready!(Pin::new(&mut self.rest).poll_frame(cx)) {
                None => self.ended = true,
                Some(Err(fault)) => return Poll::Ready(Some(Err(fault))),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.bytes.extend_from_slice(&piece);
                    }
                }
            }
        }
    }

    /// Some documents, each with its ids replaced.
    fn shown(&self, whole: Bytes) -> Bytes {
        let ids = self.replicas.ids();
        let mut shown = BytesMut::with_capacity(whole.len());
        let mut scan = Scan::default();
        let mut left = &whole[..];
        while let Some(end) = scan.end_of_first(left) {
            let (one, rest) = left.split_at(end);
            let body = RestBody {
                side: Side::Answer,
                kind: self.kind.as_deref(),
                media: Some(&self.media),
                encoding: None,
                bytes: one,
            };
            let map = |id: &Id<'_>| ids.to_meta(id);
            // Not what it says it is: nothing in it can be an id.
            let one = self.replicas.api.rewrite_body(&body, map);
            shown.extend_from_slice(&one.unwrap_or(std::borrow::Cow::Borrowed(body.bytes)));
            left = rest;
            scan = Scan::default();
        }
        shown.extend_from_slice(left);
        shown.freeze()
    }
}

/// Where documents end, found byte by byte; goes on where it stopped.
#[derive(Default)]
struct Scan {
    at: usize,
    depth: usize,
    text: Text,
    /// The end of the last whole document that was seen.
    whole: Option<usize>,
}

#[derive(Default)]
enum Text {
    #[default]
    Outside,
    Inside,
    Escaped,
}

impl Scan {
    /// Up to where everything is whole, if anything is; what comes after it is then the beginning.
    fn end_of_whole(&mut self, bytes: &[u8]) -> Option<usize> {
        while self.at < bytes.len() {
            self.step(bytes[self.at]);
        }
        let end = self.whole.take()?;
        self.at -= end;
        Some(end)
    }

    fn end_of_first(&mut self, bytes: &[u8]) -> Option<usize> {
        while self.at < bytes.len() && self.whole.is_none() {
            self.step(bytes[self.at]);
        }
        self.whole
    }

    fn step(&mut self, byte: u8) {
        self.at += 1;
        match self.text {
            Text::Escaped => self.text = Text::Inside,
            Text::Inside if byte == b'\\' => self.text = Text::Escaped,
            Text::Inside if byte == b'"' => self.text = Text::Outside,
            Text::Inside => (),
            Text::Outside if byte == b'"' => self.text = Text::Inside,
            Text::Outside => self.nest(byte),
        }
    }

    fn nest(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.whole = Some(self.at);
                }
            }
            // A line of its own: a number or a text, or the blank after a document.
            b'\n' if self.depth == 0 => self.whole = Some(self.at),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(pieces: &[&str]) -> Vec<String> {
        let (mut scan, mut bytes, mut found) = (Scan::default(), Vec::new(), Vec::new());
        for piece in pieces {
            bytes.extend_from_slice(piece.as_bytes());
            if let Some(end) = scan.end_of_whole(&bytes) {
                let whole: Vec<u8> = bytes.drain(..end).collect();
                found.push(String::from_utf8(whole).unwrap());
            }
        }
        found
    }

    #[test]
    fn documents_are_told_apart_wherever_they_are_cut() {
        assert_eq!(
            ends(&["{\"a\": 1}\n{\"b\"", ": 2}\n"]),
            ["{\"a\": 1}\n", "{\"b\": 2}\n"]
        );
        assert_eq!(ends(&["{\"a\": \"}\\\"", "{\"}"]), ["{\"a\": \"}\\\"{\"}"]);
        assert_eq!(ends(&["[1, [2]", "]", "[3]"]), ["[1, [2]]", "[3]"]);
        assert_eq!(ends(&["{\"a\": "]), Vec::<String>::new());
        assert_eq!(ends(&["7\n", "\"x\"\n"]), ["7\n", "\"x\"\n"]);
        // A backslash at the very end of a piece.
        assert_eq!(ends(&["{\"a\": \"\\", "\"\"}"]), ["{\"a\": \"\\\"\"}"]);
    }
}
