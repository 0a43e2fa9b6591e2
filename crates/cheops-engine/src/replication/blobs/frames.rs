//! What sites say to each other about contents: one asks, the other answers in the same order.
//!
//! On connections of their own (`cheops-blob/1`), so that a long content holds up nothing else. Whoever
//! lacks a content asks; it knows what it has, so after a cut it asks for what is left.

use std::io;

use cheops_blob::Reference;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::limits::FRAME_BYTES_MAX;

/// Before a frame: what it is, then its length.
const HEAD_BYTES: usize = 5;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// The sums of its chunks.
    Sums(Reference),
    /// One chunk.
    Chunk {
        of: Reference,
        index: u64,
        form: Form,
    },
}

/// How a chunk may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Form {
    /// As it is.
    Plain,
    /// Compressed, if that makes it smaller.
    Zstd,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// What was asked for.
    Bytes(Vec<u8>),
    /// The same, compressed.
    Packed(Vec<u8>),
    /// It is not here whole.
    Missing,
}

const BYTES: u8 = 0;
const PACKED: u8 = 1;
const MISSING: u8 = 2;

pub(super) fn ask_frame(ask: &Ask) -> Vec<u8> {
    let body = postcard::to_allocvec(ask).expect("plain data can be written");
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend(body);
    frame
}

pub(super) async fn read_ask<R: AsyncRead + Unpin>(stream: &mut R) -> io::Result<Ask> {
    let length = stream.read_u32().await? as usize;
    if length > 1 << 10 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    match postcard::take_from_bytes(&body) {
        Ok((ask, [])) => Ok(ask),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

pub(super) async fn write_reply<W: AsyncWrite + Unpin>(
    stream: &mut W,
    reply: &Reply,
) -> io::Result<()> {
    let (kind, body): (u8, &[u8]) = match reply {
        Reply::Bytes(bytes) => (BYTES, bytes),
        Reply::Packed(bytes) => (PACKED, bytes),
        Reply::Missing => (MISSING, &[]),
    };
    let mut head = [kind; HEAD_BYTES];
    head[1..].copy_from_slice(&(body.len() as u32).to_be_bytes());
    stream.write_all(&head).await?;
    stream.write_all(body).await?;
    stream.flush().await
}

pub(super) async fn read_reply<R: AsyncRead + Unpin>(stream: &mut R) -> io::Result<Reply> {
    let kind = stream.read_u8().await?;
    let length = stream.read_u32().await? as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // Read as it comes: a length alone reserves little.
    let mut body = Vec::with_capacity(length.min(1 << 20));
    let read = stream.take(length as u64).read_to_end(&mut body).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match (kind, body.is_empty()) {
        (BYTES, _) => Ok(Reply::Bytes(body)),
        (PACKED, _) => Ok(Reply::Packed(body)),
        (MISSING, true) => Ok(Reply::Missing),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn questions_and_answers_read_back_and_garbage_ends_the_connection() {
        let of = Reference {
            hash: [7; 32],
            bytes: 9,
        };
        let asks = [
            Ask::Sums(of),
            Ask::Chunk {
                of,
                index: 3,
                form: Form::Zstd,
            },
        ];
        for ask in asks {
            let frame = ask_frame(&ask);
            assert_eq!(read_ask(&mut &frame[..]).await.unwrap(), ask);
            let torn = &frame[..frame.len() - 1];
            assert!(read_ask(&mut &torn[..]).await.is_err());
        }
        assert!(read_ask(&mut &[0, 0, 0, 1, 9][..]).await.is_err());
        assert!(read_ask(&mut &[255; 9][..]).await.is_err());
        for reply in [
            Reply::Bytes(vec![1, 2]),
            Reply::Packed(vec![3]),
            Reply::Missing,
        ] {
            let mut frame = Vec::new();
            write_reply(&mut frame, &reply).await.unwrap();
            assert_eq!(read_reply(&mut &frame[..]).await.unwrap(), reply);
        }
        for garbage in [
            &[9, 0, 0, 0, 0][..],
            &[0, 255, 0, 0, 0],
            &[0, 0, 0, 0, 2, 1],
            &[2, 0, 0, 0, 1, 1],
        ] {
            assert!(read_reply(&mut &garbage[..]).await.is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn the_bytes_of_version_1() {
        let of = Reference {
            hash: [1; 32],
            bytes: 300,
        };
        let frame = ask_frame(&Ask::Chunk {
            of,
            index: 2,
            form: Form::Plain,
        });
        let mut kept = vec![0, 0, 0, 37, 1];
        kept.extend([1; 32]);
        kept.extend([0xac, 2, 2, 0]);
        assert_eq!(frame, kept);
    }
}
