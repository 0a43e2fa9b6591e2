//! Our link to one site: dialled for ever, greeted, and watched by beats.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cheops_model::SiteName;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

use super::connect::{Connected, Connector, DialError};
use super::exchange::{Exchange, LinkFault};
use super::message::{BEAT_PATH, Beat, Greeting, HELLO_PATH, Hello, encode, worth_a_hello};
use super::owner::Event;
use super::pause::{Failure, Pauses};
use crate::limits::{BEAT_DEADLINE, BEAT_INTERVAL, HELLO_DEADLINE, PAUSE_MAX, PAUSE_MIN};

/// What every link and join shares.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) connector: Connector,
    pub(super) greeting: watch::Receiver<Arc<Greeting>>,
    pub(super) events: mpsc::Sender<Event>,
}

/// Our link to one site.
pub(super) struct Link {
    pub(super) site: SiteName,
    pub(super) addresses: watch::Receiver<Vec<String>>,
    pub(super) wake: Arc<Notify>,
    /// Messages for the peer that need no answer.
    pub(super) messages: mpsc::Receiver<Message>,
    pub(super) shared: Shared,
}

/// A message for a peer that needs no answer: where it goes, and what it says.
pub(super) type Message = (&'static str, Bytes);

impl Link {
    /// Keeps the link as well as it can, for ever.
    pub(super) async fn run(mut self) {
        let (closed, never) = mpsc::channel(1);
        drop(closed);
        let mut messages = std::mem::replace(&mut self.messages, never);
        let mut pauses = Pauses::new();
        let mut complaints = Complaints::default();
        let mut turn = 0;
        loop {
            let Some(address) = self.address(turn).await else {
                return;
            };
            let started = Instant::now();
            let attempt = self.try_once(&address, &mut complaints, &mut messages);
            let mut failure = match attempt.await {
                Attempt::WasUp => {
                    pauses.reset();
                    Failure::Unreachable
                }
                Attempt::Failed(failure) => {
                    turn += 1;
                    failure
                }
            };
            // Another address may be the right one: no reason for a long pause.
            if self.addresses.borrow().len() > 1 {
                failure = Failure::Unreachable;
            }
            let pause = pauses.after(failure, started.elapsed(), rand::random());
            self.rest(pause, failure, &mut pauses).await;
        }
    }

    /// The address whose turn it is; none when the owner is gone.
    async fn address(&mut self, turn: usize) -> Option<String> {
        loop {
            let addresses = self.addresses.borrow_and_update().clone();
            if !addresses.is_empty() {
                return Some(addresses[turn % addresses.len()].clone());
            }
            self.addresses.changed().await.ok()?;
        }
    }

    /// Two agents that connect and refuse each other must not keep each other awake: being called
    /// shortens only the wait for one that is away, and never to nothing.
    async fn rest(&mut self, pause: Duration, failure: Failure, pauses: &mut Pauses) {
        sleep(PAUSE_MIN).await;
        tokio::select! {
            () = sleep(pause.saturating_sub(PAUSE_MIN)) => (),
            () = self.wake.notified(), if failure == Failure::Unreachable => pauses.reset(),
            _ = self.addresses.changed() => pauses.reset(),
        }
    }

    async fn try_once(
        &self,
        address: &str,
        complaints: &mut Complaints,
        messages: &mut mpsc::Receiver<Message>,
    ) -> Attempt {
        match self.connect(address).await {
            Ok(connected) => self.keep(connected, address, complaints, messages).await,
            Err(fault) => {
                complaints.say(&self.site, &fault.to_string(), fault.failure());
                let failure = fault.failure();
                self.tell_who_is_there(fault).await;
                Attempt::Failed(failure)
            }
        }
    }

    /// A try that hangs is doubled by a fresh one: on a path that is back, the fresh one gets
    /// through while the other still waits for its deadline.
    async fn connect(&self, address: &str) -> Result<Connected, DialError> {
        let connect = || self.shared.connector.connect_to(&self.site, address);
        let mut first = pin!(connect());
        tokio::select! {
            outcome = &mut first => return outcome,
            () = sleep(PAUSE_MAX) => (),
        }
        tokio::select! {
            outcome = first => outcome,
            Ok(connected) = connect() => Ok(connected),
        }
    }

    /// Somebody of the mesh is there, if not the one expected.
    async fn tell_who_is_there(&self, fault: DialError) {
        if let DialError::OtherSite { address, found, .. } = fault {
            self.put(Event::Met {
                site: found,
                address,
            })
            .await;
        }
    }

    async fn keep(
        &self,
        connected: Connected,
        address: &str,
        complaints: &mut Complaints,
        messages: &mut mpsc::Receiver<Message>,
    ) -> Attempt {
        let up = AtomicBool::new(false);
        let fault = match self.hold(connected, address, &up, messages).await {
            Ok(never) => match never {},
            Err(fault) => fault,
        };
        if !up.load(Ordering::Relaxed) {
            complaints.say(&self.site, &format!("{address}: {fault}"), fault.failure());
            return Attempt::Failed(fault.failure());
        }
        complaints.forget();
        info!(site = %self.site, %fault, "link lost");
        self.put(Event::LinkDown {
            site: self.site.clone(),
        })
        .await;
        Attempt::WasUp
    }

    async fn hold(
        &self,
        connected: Connected,
        address: &str,
        up: &AtomicBool,
        messages: &mut mpsc::Receiver<Message>,
    ) -> Result<std::convert::Infallible, LinkFault> {
        let ip = connected.ip;
        let (exchange, work) = Exchange::open(connected.stream).await?;
        let (theirs, heard) = watch::channel(None);
        let greeted = |hello: Hello| {
            if !up.swap(true, Ordering::Relaxed) {
                info!(site = %self.site, address, "link up");
            }
            theirs.send_replace(Some(hello.state));
            let (site, address) = (self.site.clone(), address.to_owned());
            self.put(Event::LinkGreeted {
                site,
                address,
                hello: Box::new(hello),
                ip,
            })
        };
        tokio::select! {
            ended = work => Err(match ended {
                Ok(()) => LinkFault::Broken("closed by the peer".into()),
                Err(fault) => fault.into(),
            }),
            fault = self.beat(exchange.clone(), &theirs) => fault,
            fault = self.greet(exchange.clone(), heard, greeted) => fault,
            () = carry(exchange.clone(), messages) => {
                Err(LinkFault::Broken("the agent is stopping".into()))
            }
        }
    }

    /// Proves the path again and again; returns when it fails to.
    async fn beat(
        &self,
        mut exchange: Exchange,
        theirs: &watch::Sender<Option<Beat>>,
    ) -> Result<std::convert::Infallible, LinkFault> {
        let mut ticks = interval(BEAT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let body = encode(&self.shared.greeting.borrow().state);
            let sent = Instant::now();
            let state: Beat = exchange.ask(BEAT_PATH, body, BEAT_DEADLINE).await?;
            let trip = sent.elapsed();
            self.put(Event::LinkBeat {
                site: self.site.clone(),
                trip,
            })
            .await;
            theirs.send_replace(Some(state));
        }
    }

    /// Says hello, and again whenever that may bring something; returns when it fails.
    async fn greet<F: Future<Output = ()>>(
        &self,
        mut exchange: Exchange,
        mut heard: watch::Receiver<Option<Beat>>,
        greeted: impl Fn(Hello) -> F,
    ) -> Result<std::convert::Infallible, LinkFault> {
        let mut greeting = self.shared.greeting.clone();
        let mut first = true;
        loop {
            let ours = greeting.borrow_and_update().clone();
            let body = match std::mem::take(&mut first) {
                true => ours.body.clone(),
                false => ours.body_again.clone(),
            };
            let hello: Hello = exchange.ask(HELLO_PATH, body, HELLO_DEADLINE).await?;
            self.check(&hello)?;
            let met = (ours.state, hello.state);
            greeted(hello).await;
            wait_for_news(met, &mut greeting, &mut heard).await?;
        }
    }

    fn check(&self, hello: &Hello) -> Result<(), LinkFault> {
        let said = &hello.announcement.site;
        if *said != self.site {
            return Err(LinkFault::Useless(format!("it announces itself as {said}")));
        }
        hello
            .check()
            .map_err(|fault| LinkFault::Useless(fault.to_string()))
    }

    /// Only fails when the owner is gone, and then this task is about to be ended.
    async fn put(&self, event: Event) {
        let _ = self.shared.events.send(event).await;
    }
}

/// Posts what is to be told. What the peer does not want is lost: beats judge the path.
async fn carry(mut exchange: Exchange, messages: &mut mpsc::Receiver<Message>) {
    while let Some((path, body)) = messages.recv().await {
        let told = exchange.ask::<()>(path, body, HELLO_DEADLINE).await;
        if let Err(fault) = told {
            tracing::debug!(path, %fault, "not told");
        }
    }
}

enum Attempt {
    WasUp,
    Failed(Failure),
}

async fn wait_for_news(
    met: (Beat, Beat),
    greeting: &mut watch::Receiver<Arc<Greeting>>,
    heard: &mut watch::Receiver<Option<Beat>>,
) -> Result<(), LinkFault> {
    loop {
        let ours = greeting.borrow().state;
        let theirs = heard.borrow_and_update().unwrap_or(met.1);
        if worth_a_hello(met, ours, theirs) {
            return Ok(());
        }
        let changed = tokio::select! {
            changed = greeting.changed() => changed,
            changed = heard.changed() => changed,
        };
        changed.map_err(|_| LinkFault::Broken("the agent is stopping".into()))?;
    }
}

/// What was already said about a peer that cannot be reached: each thing once, until it is.
#[derive(Default)]
pub(super) struct Complaints(HashSet<String>);

impl Complaints {
    /// More different things than this are not said.
    const MAX: usize = 32;

    pub(super) fn say(&mut self, who: &dyn std::fmt::Display, what: &str, failure: Failure) {
        if self.0.len() >= Self::MAX || !self.0.insert(what.to_owned()) {
            return;
        }
        match failure {
            Failure::Unreachable => info!(peer = %who, "no link yet: {what}"),
            Failure::Refused => warn!(peer = %who, "no link: {what}"),
        }
    }

    fn forget(&mut self) {
        self.0.clear();
    }
}
