//! TCP over a link: accepting, the handshake, and the end of a stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::controls::wait_for;
use crate::door::Door;
use crate::line::{Line, Link};
use crate::pump::{Broken, pump};
use crate::shape::Direction;

/// How many streams are carried at once; more wait to be accepted.
const STREAMS_MAX: usize = 1024;

/// How long the target, which is near, may take to accept.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long to wait when accepting failed: the machine is short of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Carries streams until dropped, which ends them all.
pub(crate) async fn relay_streams(link: Arc<Link>, door: Arc<Door>) {
    let mut state = link.state.clone();
    let mut streams = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = door.accept(), if streams.len() < STREAMS_MAX => match accepted {
                Ok(client) => {
                    number += 1;
                    let refusals = link.state.borrow().refusals;
                    let stream = Stream { link: link.clone(), number, refusals };
                    streams.spawn(stream.relay(client));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
            // The door may have opened: ask it again.
            changed = state.changed() => if changed.is_err() { return },
            Some(_) = streams.join_next() => (),
        }
    }
}

/// One stream over the link.
struct Stream {
    link: Arc<Link>,
    number: u64,
    /// How often the link had refused when this stream began.
    refusals: u64,
}

impl Stream {
    async fn relay(self, mut client: TcpStream) {
        let Ok(mut target) = self.open(&client).await else {
            return reset(&client);
        };
        // Latency only: without it the relay works as well.
        let _ = (client.set_nodelay(true), target.set_nodelay(true));
        let carried = self.carry(&mut client, &mut target);
        if self.or_refused(carried).await.is_err() {
            reset(&client);
            reset(&target);
        }
    }

    /// Passes the handshake, then reaches the target. That last step is not given up when the link
    /// refuses: a target that has accepted already is to see a reset, not an end.
    async fn open(&self, client: &TcpStream) -> Result<TcpStream, Broken> {
        self.or_refused(self.shake_hands(client)).await?;
        match timeout(CONNECT_MAX, TcpStream::connect(self.link.target)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(_)) | Err(_) => Err(Broken),
        }
    }

    async fn shake_hands(&self, client: &TcpStream) -> Result<(), Broken> {
        let begun_at = Instant::now();
        let mut state = self.link.state.clone();
        wait_for(&mut state, |state| state.established(begun_at)).await?;
        let met_a_cut = state.borrow().was_cut_since(begun_at);
        if met_a_cut && has_left(client).await {
            // Over a real cut its connection would never have come to be, nor what it sent.
            return Err(Broken);
        }
        Ok(())
    }

    async fn carry(&self, client: &mut TcpStream, target: &mut TcpStream) -> Result<(), Broken> {
        let (client_reads, client_writes) = client.split();
        let (target_reads, target_writes) = target.split();
        let there = Line::new(&self.link, Direction::ToTarget, self.number);
        let back = Line::new(&self.link, Direction::FromTarget, self.number);
        tokio::try_join!(
            pump(there, client_reads, target_writes),
            pump(back, target_reads, client_writes),
        )?;
        Ok(())
    }

    /// What `work` comes to, unless the link refuses before.
    async fn or_refused<T>(
        &self,
        work: impl Future<Output = Result<T, Broken>>,
    ) -> Result<T, Broken> {
        let mut state = self.link.state.clone();
        tokio::select! {
            done = work => done,
            _ = state.wait_for(|state| state.refusals != self.refusals) => Err(Broken),
        }
    }
}

/// Whether the client has closed its side already.
async fn has_left(client: &TcpStream) -> bool {
    let readiness = timeout(Duration::ZERO, client.ready(Interest::READABLE)).await;
    matches!(readiness, Ok(Ok(ready)) if ready.is_read_closed())
}

/// Makes the coming close a reset. Where that fails, an ordinary end has to do.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}
