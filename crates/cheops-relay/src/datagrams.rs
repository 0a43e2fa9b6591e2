//! One direction of a UDP conversation: a delay line for datagrams.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::time::Instant;

use crate::controls::{Stamp, sleep_until};
use crate::line::Line;
use crate::shape::IN_FLIGHT_BYTES_MAX;

/// What a datagram costs beside its bytes, so that many small ones are bounded too.
const DATAGRAM_COST: usize = 128;

/// Datagrams on their way, each arriving when its own time has come.
pub(crate) struct DatagramLine<'a> {
    line: Line<'a>,
    waiting: BTreeMap<(Instant, u64), (Stamp, Bytes)>,
    cost: usize,
    admitted: u64,
}

impl<'a> DatagramLine<'a> {
    pub(crate) fn new(line: Line<'a>) -> DatagramLine<'a> {
        DatagramLine {
            line,
            waiting: BTreeMap::new(),
            cost: 0,
            admitted: 0,
        }
    }

    /// Takes a datagram in, or drops it: over a cut, by bad luck, or for want of room.
    pub(crate) fn admit(&mut self, datagram: Bytes) {
        if !self.line.is_open() || self.line.loses_next() {
            return;
        }
        let cost = datagram.len() + DATAGRAM_COST;
        if self.cost + cost > IN_FLIGHT_BYTES_MAX {
            return;
        }
        let stamp = self.line.stamp(datagram.len());
        self.cost += cost;
        self.admitted += 1;
        self.waiting.insert(
            (stamp.sent_at + stamp.latency, self.admitted),
            (stamp, datagram),
        );
    }

    /// The next datagram to arrive, when it does. May be dropped and called again: it loses nothing.
    pub(crate) async fn next(&mut self) -> Bytes {
        loop {
            let due = self.waiting.first_key_value().map(|((due, _), _)| *due);
            sleep_until(due).await;
            let Some((_, (stamp, datagram))) = self.waiting.pop_first() else {
                continue;
            };
            self.cost -= datagram.len() + DATAGRAM_COST;
            if self.line.survives(stamp) {
                return datagram;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::num::NonZeroU64;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::controls::Controls;
    use crate::line::Link;
    use crate::shape::{Direction, Shape};

    const MINUTE: Duration = Duration::from_secs(60);

    fn link(shape: Shape) -> (Link, Controls) {
        let controls = Controls::new(&shape);
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        (Link::new(nowhere, shape, &controls), controls)
    }

    /// What arrives of a hundred datagrams, in its order.
    async fn hundred(shape: Shape) -> Vec<u8> {
        let (link, _controls) = link(shape);
        let mut line = DatagramLine::new(Line::new(&link, Direction::ToTarget, 1));
        for number in 0..100u8 {
            line.admit(Bytes::copy_from_slice(&[number]));
        }
        let mut arrived = Vec::new();
        while let Ok(datagram) = timeout(MINUTE, line.next()).await {
            arrived.push(datagram[0]);
        }
        arrived
    }

    #[tokio::test(start_paused = true)]
    async fn loss_takes_its_share_and_the_same_one_for_a_seed() {
        let shape = |seed| Shape {
            loss_ppm: 300_000,
            seed,
            ..Shape::default()
        };
        let arrived = hundred(shape(7)).await;
        assert!((50..90).contains(&arrived.len()), "{}", arrived.len());
        assert_eq!(arrived, hundred(shape(7)).await);
        assert_ne!(arrived, hundred(shape(8)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_reorders_and_the_same_way_for_a_seed() {
        let shape = || Shape {
            jitter: Duration::from_millis(50),
            ..Shape::default()
        };
        let arrived = hundred(shape()).await;
        assert_eq!(arrived.len(), 100);
        assert!(!arrived.is_sorted());
        assert_eq!(arrived, hundred(shape()).await);
    }

    #[tokio::test(start_paused = true)]
    async fn without_jitter_the_order_holds() {
        let arrived = hundred(Shape::with_delay(Duration::from_millis(5))).await;
        assert_eq!(arrived, (0..100).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_datagram_that_met_a_cut_is_lost_even_if_it_healed_meanwhile() {
        let (link, controls) = link(Shape::with_delay(Duration::from_secs(1)));
        let mut line = DatagramLine::new(Line::new(&link, Direction::ToTarget, 1));
        line.admit(Bytes::from_static(b"on its way"));
        tokio::time::advance(Duration::from_millis(100)).await;
        controls.cut(Direction::ToTarget);
        line.admit(Bytes::from_static(b"over the cut"));
        tokio::time::advance(Duration::from_millis(100)).await;
        controls.heal();
        assert!(timeout(MINUTE, line.next()).await.is_err());
        line.admit(Bytes::from_static(b"afterwards"));
        assert_eq!(line.next().await, "afterwards");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_no_room_is_lost() {
        let shape = Shape {
            bytes_per_s_max: NonZeroU64::new(1),
            ..Shape::default()
        };
        let (link, _controls) = link(shape);
        let mut line = DatagramLine::new(Line::new(&link, Direction::ToTarget, 1));
        for _ in 0..IN_FLIGHT_BYTES_MAX / 1000 + 10 {
            line.admit(Bytes::from_static(&[0; 1000]));
        }
        assert!(line.cost <= IN_FLIGHT_BYTES_MAX);
    }
}
