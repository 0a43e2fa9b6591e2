//! One direction of a TCP stream: a delay line for bytes.
//!
//! Bytes are stamped when they are read and written when their time has come. Many chunks are on
//! their way at once; when they are too many, nothing more is read and the sender has to wait. Over
//! a cut nothing is read or written, and what is on its way stays.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use crate::controls::{Gone, Stamp, sleep_until};
use crate::line::Line;
use crate::shape::IN_FLIGHT_BYTES_MAX;

/// The most that is read at once.
pub(crate) const CHUNK_BYTES: usize = 32 << 10;

/// What a chunk costs beside its bytes, so that many small ones are bounded too.
const CHUNK_COST: usize = 128;

/// The stream came to a bad end: both sides are to be reset.
#[derive(Debug)]
pub(crate) struct Broken;

impl From<Gone> for Broken {
    fn from(_: Gone) -> Broken {
        Broken
    }
}

enum Cargo {
    Bytes(Bytes),
    /// The sender has said all.
    End,
    /// The sender's side failed.
    Reset,
}

/// Carries bytes until the sender's end has reached the receiver.
pub(crate) async fn pump(
    mut line: Line<'_>,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
) -> Result<(), Broken> {
    let mut flight = Flight::default();
    let mut buffer = vec![0; CHUNK_BYTES];
    while !flight.is_over() {
        let may_read = line.is_open() && flight.has_room();
        let due = flight
            .waiting
            .front()
            .and_then(|(stamp, _)| line.arrival(*stamp));
        tokio::select! {
            // A change comes first: what was due a moment ago may have met a cut.
            biased;
            changed = line.changed() => changed?,
            released = release(due, &mut writer, flight.waiting.front()), if due.is_some() => {
                match released {
                    Ok(bytes) => flight.arrive(bytes)?,
                    Err(_) => return line.cross_back().await.map_err(Broken::from).and(Err(Broken)),
                }
            }
            read = reader.read(&mut buffer), if may_read => {
                let cargo = cargo_of(read, &buffer);
                let stamp = line.stamp(bytes_of(&cargo));
                flight.depart(stamp, cargo);
            }
        }
    }
    Ok(())
}

fn cargo_of(read: io::Result<usize>, buffer: &[u8]) -> Cargo {
    match read {
        Ok(0) => Cargo::End,
        Ok(bytes) => Cargo::Bytes(Bytes::copy_from_slice(&buffer[..bytes])),
        Err(_) => Cargo::Reset,
    }
}

fn bytes_of(cargo: &Cargo) -> usize {
    match cargo {
        Cargo::Bytes(bytes) => bytes.len(),
        Cargo::End | Cargo::Reset => 0,
    }
}

/// Writes some of the foremost bytes once they are due, and tells how many.
async fn release(
    due: Option<Instant>,
    writer: &mut (impl AsyncWrite + Unpin),
    foremost: Option<&(Stamp, Cargo)>,
) -> io::Result<usize> {
    sleep_until(due).await;
    match foremost {
        Some((_, Cargo::Bytes(bytes))) => match writer.write(bytes).await? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        },
        // A receiver that has gone already needs no end.
        Some((_, Cargo::End)) => writer.shutdown().await.map_or(Ok(0), |()| Ok(0)),
        Some((_, Cargo::Reset)) | None => Ok(0),
    }
}

/// What is on its way.
#[derive(Default)]
struct Flight {
    waiting: VecDeque<(Stamp, Cargo)>,
    cost: usize,
    said_all: bool,
}

impl Flight {
    fn has_room(&self) -> bool {
        !self.said_all && self.cost < IN_FLIGHT_BYTES_MAX
    }

    fn is_over(&self) -> bool {
        self.said_all && self.waiting.is_empty()
    }

    fn depart(&mut self, stamp: Stamp, cargo: Cargo) {
        self.said_all = matches!(cargo, Cargo::End | Cargo::Reset);
        self.cost += bytes_of(&cargo) + CHUNK_COST;
        self.waiting.push_back((stamp, cargo));
    }

    /// Notes that `written` bytes of the foremost cargo are through.
    fn arrive(&mut self, written: usize) -> Result<(), Broken> {
        match self.waiting.front_mut() {
            Some((_, Cargo::Bytes(bytes))) if written < bytes.len() => {
                bytes.advance(written);
                self.cost -= written;
                return Ok(());
            }
            Some((_, Cargo::Reset)) => return Err(Broken),
            Some((_, Cargo::Bytes(_) | Cargo::End)) | None => (),
        }
        self.waiting.pop_front();
        self.cost -= written + CHUNK_COST;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::num::NonZeroU64;
    use std::time::Duration;

    use tokio::io::{DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;
    use crate::controls::Controls;
    use crate::line::Link;
    use crate::shape::{Direction, Shape};

    /// Runs a pump between two pipes; the other ends and the controls are the test's.
    fn start(shape: Shape) -> (DuplexStream, DuplexStream, Controls) {
        let (near, reader) = duplex(CHUNK_BYTES);
        let (writer, far) = duplex(CHUNK_BYTES);
        let controls = Controls::new(&shape);
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let link = Link::new(nowhere, shape, &controls);
        tokio::spawn(async move {
            pump(Line::new(&link, Direction::ToTarget, 0), reader, writer).await
        });
        (near, far, controls)
    }

    async fn send_and_count(bytes: usize, shape: Shape) -> Duration {
        let (mut near, mut far, _controls) = start(shape);
        let begun_at = Instant::now();
        let sending = async move {
            let chunk = vec![1; CHUNK_BYTES];
            for _ in 0..bytes / CHUNK_BYTES {
                near.write_all(&chunk).await.unwrap();
            }
        };
        let mut received = Vec::new();
        let (_, read) = tokio::join!(sending, far.read_to_end(&mut received));
        assert_eq!(read.unwrap(), bytes);
        begun_at.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn many_chunks_are_on_their_way_at_once() {
        let delay = Duration::from_millis(25);
        let took = send_and_count(50 << 20, Shape::with_delay(delay)).await;
        assert!(took >= delay);
        // The clock is the test's own: one chunk per delay would take 40 seconds of it.
        assert!(took < Duration::from_secs(2), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bandwidth_is_what_the_shape_says() {
        let shape = Shape {
            bytes_per_s_max: NonZeroU64::new(1 << 20),
            ..Shape::default()
        };
        let took = send_and_count(10 << 20, shape).await;
        assert!(took >= Duration::from_secs(10), "{took:?}");
        assert!(took < Duration::from_secs(11), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_adds_to_the_delay_and_keeps_the_order() {
        let shape = Shape {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(50),
            ..Shape::default()
        };
        let (mut near, mut far, _controls) = start(shape);
        let begun_at = Instant::now();
        for number in 0..100u8 {
            near.write_u8(number).await.unwrap();
            tokio::task::yield_now().await;
        }
        for number in 0..100 {
            assert_eq!(far.read_u8().await.unwrap(), number);
        }
        assert!(begun_at.elapsed() > Duration::from_millis(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_waits_when_too_much_is_on_its_way() {
        let (mut near, _far, _controls) = start(Shape::with_delay(Duration::from_secs(3600)));
        let mut sent = 0;
        let chunk = [1; 1000];
        while let Ok(wrote) = timeout(Duration::from_secs(60), near.write(&chunk)).await {
            sent += wrote.unwrap();
        }
        assert!(sent <= IN_FLIGHT_BYTES_MAX + 2 * CHUNK_BYTES, "{sent}");
        assert!(sent > IN_FLIGHT_BYTES_MAX / 2, "{sent}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_met_a_cut_arrives_a_delay_after_it_healed() {
        let (mut near, mut far, controls) = start(Shape::with_delay(Duration::from_millis(25)));
        near.write_u8(1).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        controls.cut(Direction::ToTarget);
        near.write_u8(2).await.unwrap();
        assert!(
            timeout(Duration::from_secs(60), far.read_u8())
                .await
                .is_err()
        );
        controls.heal();
        let healed_at = Instant::now();
        assert_eq!(far.read_u8().await.unwrap(), 1);
        assert!(healed_at.elapsed() >= Duration::from_millis(25));
        assert_eq!(far.read_u8().await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_delay_holds_for_what_enters_afterwards() {
        let (mut near, mut far, controls) = start(Shape::default());
        controls.set_delay(Duration::from_secs(3));
        let begun_at = Instant::now();
        near.write_u8(1).await.unwrap();
        far.read_u8().await.unwrap();
        assert!(begun_at.elapsed() >= Duration::from_secs(3));
    }
}
