//! The one task that owns the state of the mesh: events in, views out.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use cheops_model::{Mark, SiteName};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use super::announcement::Announcement;
use super::join::join;
use super::link::{Link, Shared};
use super::message::{Beat, Greeting, Hello};
use super::roster::{Change, Effects, Now, Refusal, Roster, Via};
use super::saved::{Saved, keep_saved};
use super::view::View;
use crate::limits::{CONTROL_CONNECTIONS_MAX, REFRESH_INTERVAL};

/// What happens to the mesh.
pub(super) enum Event {
    /// `site` showed its certificate under `address`.
    Met { site: SiteName, address: String },
    /// A peer opened a control connection; dropping `end` closes it.
    Accepted {
        site: SiteName,
        end: oneshot::Sender<()>,
    },
    /// A peer said hello.
    Greeted {
        hello: Box<Hello>,
        ip: IpAddr,
        reply: oneshot::Sender<Result<Bytes, Refusal>>,
    },
    /// A peer's beat.
    Heard {
        site: SiteName,
        reply: oneshot::Sender<Beat>,
    },
    /// Our hello was answered.
    LinkGreeted {
        site: SiteName,
        address: String,
        hello: Box<Hello>,
        ip: IpAddr,
    },
    /// Our beat was answered.
    LinkBeat { site: SiteName, trip: Duration },
    /// Our link is gone.
    LinkDown { site: SiteName },
    /// This site says something new of itself.
    Announce(Box<Announcement>),
    /// Save what is to be saved, and end.
    Stop,
}

/// Where the owner puts what others read.
pub(super) struct Outlets {
    pub(super) view: watch::Sender<Arc<View>>,
    pub(super) greeting: watch::Sender<Arc<Greeting>>,
    pub(super) saved: watch::Sender<Arc<Saved>>,
}

/// The owner.
pub(super) struct Owner {
    roster: Roster,
    outlets: Outlets,
    shared: Shared,
    links: HashMap<SiteName, Handle>,
    accepted: HashMap<SiteName, VecDeque<oneshot::Sender<()>>>,
    tasks: JoinSet<()>,
    saver: JoinHandle<()>,
    /// Times or round trips have changed since the last view.
    refresh: bool,
}

/// How a link is steered.
struct Handle {
    addresses: watch::Sender<Vec<String>>,
    wake: Arc<Notify>,
}

impl Owner {
    pub(super) fn new(roster: Roster, outlets: Outlets, shared: Shared, folder: PathBuf) -> Owner {
        let saver = tokio::spawn(keep_saved(folder, outlets.saved.subscribe()));
        Owner {
            roster,
            outlets,
            shared,
            links: HashMap::new(),
            accepted: HashMap::new(),
            tasks: JoinSet::new(),
            saver,
            refresh: false,
        }
    }

    /// Runs until told to stop.
    pub(super) async fn run(
        mut self,
        first: Effects,
        here: SiteName,
        addresses: Vec<String>,
        mut events: mpsc::Receiver<Event>,
    ) {
        self.carry_out(first);
        for address in addresses {
            self.tasks
                .spawn(join(here.clone(), address, self.shared.clone()));
        }
        let mut ticks = interval(REFRESH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    None | Some(Event::Stop) => break,
                    Some(event) => self.take(event),
                },
                _ = ticks.tick() => self.refresh(),
                // Only joins end by themselves; a site whose link is gone for good would look away.
                Some(ended) = self.tasks.join_next() => {
                    ended.expect("links and joins neither panic nor are cancelled");
                }
            }
        }
        self.stop().await;
    }

    fn take(&mut self, event: Event) {
        let now = Now {
            instant: Instant::now(),
            time: SystemTime::now(),
        };
        let mut effects = Effects::default();
        let reply = self.step(event, now, &mut effects);
        self.carry_out(effects);
        // Answered last, so that the answer holds what the question brought.
        if let Some((reply, outcome)) = reply {
            let body = outcome.map(|()| self.outlets.greeting.borrow().body.clone());
            let _ = reply.send(body);
        }
    }

    fn step(&mut self, event: Event, now: Now, effects: &mut Effects) -> Option<PendingReply> {
        match event {
            Event::Met { site, address } => self.roster.meet(&site, &address, now, effects),
            Event::Accepted { site, end } => self.accept(site, end, now, effects),
            Event::Greeted { hello, ip, reply } => {
                let outcome = self.roster.greet(*hello, Via::Accepted(ip), now, effects);
                return Some((reply, outcome));
            }
            Event::Heard { site, reply } => {
                self.refresh |= self.roster.heard(&site, now).is_some();
                let _ = reply.send(self.outlets.greeting.borrow().state);
            }
            Event::LinkGreeted {
                site,
                address,
                hello,
                ip,
            } => {
                debug_assert_eq!(site, hello.announcement.site, "checked by the link");
                let via = Via::Dialled(&address, ip);
                // Refused only if there is no room, which the roster has said.
                let _ = self.roster.greet(*hello, via, now, effects);
            }
            Event::LinkBeat { site, trip } => self.refresh |= self.roster.beat(&site, trip, now),
            Event::LinkDown { site } => self.roster.link_down(&site, now, effects),
            Event::Announce(announcement) => self.roster.announce(*announcement, effects),
            Event::Stop => unreachable!("the loop ends before"),
        }
        None
    }

    fn accept(
        &mut self,
        site: SiteName,
        end: oneshot::Sender<()>,
        now: Now,
        effects: &mut Effects,
    ) {
        let open = self.accepted.entry(site.clone()).or_default();
        open.retain(|end| !end.is_closed());
        open.push_back(end);
        if open.len() > CONTROL_CONNECTIONS_MAX {
            open.pop_front();
        }
        let away = self
            .roster
            .heard(&site, now)
            .is_some_and(|mark| mark != Mark::Connected);
        effects.wake = away.then_some(site);
    }

    fn carry_out(&mut self, effects: Effects) {
        if effects.say {
            let greeting = self.roster.hello().greeting();
            self.outlets.greeting.send_replace(Arc::new(greeting));
        }
        if effects.publish {
            self.publish(Change::Matter);
        }
        if effects.save {
            self.outlets
                .saved
                .send_replace(Arc::new(self.roster.saved()));
        }
        for site in effects.dial {
            self.dial(site);
        }
        if let Some(handle) = effects.wake.and_then(|site| self.links.get(&site)) {
            handle.wake.notify_one();
        }
    }

    /// Starts the link to a site, or tells it where the site is now.
    fn dial(&mut self, site: SiteName) {
        let addresses = self.roster.addresses(&site);
        if let Some(handle) = self.links.get(&site) {
            handle.addresses.send_if_modified(|old| {
                let changed = *old != addresses;
                *old = addresses;
                changed
            });
            return;
        }
        let (sender, addresses) = watch::channel(addresses);
        let wake = Arc::new(Notify::new());
        let link = Link {
            site: site.clone(),
            addresses,
            wake: wake.clone(),
            shared: self.shared.clone(),
        };
        self.tasks.spawn(link.run());
        self.links.insert(
            site,
            Handle {
                addresses: sender,
                wake,
            },
        );
    }

    fn refresh(&mut self) {
        if self.refresh {
            self.publish(Change::Times);
        }
    }

    fn publish(&mut self, change: Change) {
        self.refresh = false;
        self.outlets
            .view
            .send_replace(Arc::new(self.roster.view(change)));
    }

    async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.accepted.clear();
        drop(self.outlets);
        let _ = self.saver.await;
    }
}

type PendingReply = (oneshot::Sender<Result<Bytes, Refusal>>, Result<(), Refusal>);
