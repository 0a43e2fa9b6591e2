//! The handle of a running link.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::controls::Controls;
use crate::door::{self, Door};
use crate::line::Link;
use crate::shape::{Direction, Shape};
use crate::tcp::relay_streams;
use crate::udp::relay_datagrams;

/// A link between those who connect to [`Relay::address`] and a target. Dropping it ends all it
/// carries.
#[derive(Debug)]
pub struct Relay {
    target: SocketAddr,
    controls: Controls,
    link: Arc<Link>,
    door: Arc<Door>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// Starts a link on a free port of 127.0.0.1, for TCP and UDP alike.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, on which the link runs.
    pub fn start(target: SocketAddr, shape: Shape) -> io::Result<Relay> {
        Relay::start_at((Ipv4Addr::LOCALHOST, 0).into(), target, shape)
    }

    /// Starts a link on a given address; port 0 takes a free one. Panics as [`Relay::start`] does.
    pub fn start_at(listen: SocketAddr, target: SocketAddr, shape: Shape) -> io::Result<Relay> {
        let (door, socket) = door::bind(listen)?;
        let door = Arc::new(door);
        let controls = Controls::new(&shape);
        let link = Arc::new(Link::new(target, shape, &controls));
        let mut tasks = JoinSet::new();
        tasks.spawn(relay_streams(link.clone(), door.clone()));
        tasks.spawn(relay_datagrams(link.clone(), socket));
        Ok(Relay {
            target,
            controls,
            link,
            door,
            _tasks: tasks,
        })
    }

    /// Where to connect and send to instead of the target.
    pub fn address(&self) -> SocketAddr {
        self.door.address
    }

    /// Where the link leads.
    pub fn target(&self) -> SocketAddr {
        self.target
    }

    /// How many bytes entered the link that way so far, streams and datagrams together.
    pub fn carried(&self, direction: Direction) -> u64 {
        self.link.carried(direction)
    }

    /// Changes the delay of all that enters from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.controls.set_delay(delay);
    }

    /// Cuts both ways. Nobody is told: streams stay open and stand still, new ones are accepted and
    /// stand still too, datagrams are lost.
    pub fn cut(&self) {
        self.controls.cut(Direction::ToTarget);
        self.controls.cut(Direction::FromTarget);
    }

    /// Cuts one way as [`Relay::cut`] does; the other stays as it is.
    pub fn cut_one_way(&self, direction: Direction) {
        self.controls.cut(direction);
    }

    /// Resets all streams and refuses new ones until healed; datagrams are lost.
    pub fn refuse(&self) {
        self.door.shut();
        self.controls.refuse();
    }

    /// Opens both ways. Streams that stood still go on where they were, after the delay.
    ///
    /// Fails only after [`Relay::refuse`], if the port has been taken by another; it is then as
    /// before.
    pub fn heal(&self) -> io::Result<()> {
        self.door.open()?;
        self.controls.heal();
        Ok(())
    }
}
