//! The one task that owns the state of the mesh: events in, views out.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cheops_core::membership::{Ledger, Report, Reports};
use cheops_model::SiteName;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use super::announcement::Announcement;
use super::clock::{Clocks, Now};
use super::decide::{DecideError, Decision};
use super::join::join;
use super::link::{Link, Message, Shared};
use super::members::Members;
use super::message::{Beat, Greeting, Hello};
use super::post::{self, Letter};
use super::refused::Origin;
use super::roster::{Change, Effects, Refusal, Roster, Via};
use super::saved::{Saved, keep_saved};
use super::standing::Decisions;
use super::view::{Backlogs, View};
use super::wanted::Wanted;
use crate::events::Bus;
use crate::limits::{CONTROL_CONNECTIONS_MAX, LETTERS_MAX, LINK_DATAGRAMS_MAX, REFRESH_INTERVAL};

/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_millis(200);

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
    /// A datagram, and how it came.
    Datagram { sealed: Bytes, origin: Origin },
    /// A site below told how it is.
    Reported {
        site: SiteName,
        reports: Reports<SiteName>,
    },
    /// How it is here.
    Report(Box<Report>),
    /// Requests go to that site.
    Used { site: SiteName },
    /// An operator decides.
    Decide {
        site: SiteName,
        decision: Decision,
        /// Gets the version of the view that shows it.
        reply: oneshot::Sender<Result<u64, DecideError>>,
    },
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
    pub(super) roster: Roster,
    pub(super) members: Members,
    pub(super) outlets: Outlets,
    shared: Shared,
    pub(super) links: HashMap<SiteName, Handle>,
    pub(super) accepted: HashMap<SiteName, VecDeque<oneshot::Sender<()>>>,
    tasks: JoinSet<()>,
    saver: JoinHandle<()>,
    /// Times or round trips have changed since the last view.
    pub(super) refresh: bool,
    pub(super) events: Bus,
    /// Datagrams to be sent; none without a socket.
    pub(super) letters: Option<mpsc::Sender<Letter>>,
    sender: Option<JoinHandle<()>>,
    pub(super) routes: Arc<BTreeMap<SiteName, String>>,
    pub(super) backlogs: watch::Receiver<Arc<Backlogs>>,
    /// Sites to keep a link to for a while.
    pub(super) wanted: Wanted,
    /// Sites that were joined through.
    pub(super) joined: HashSet<SiteName>,
    pub(super) decisions: Decisions,
    pub(super) configured_parent: Option<SiteName>,
    pub(super) links_all_max: usize,
    pub(super) folder: PathBuf,
    pub(super) clocks: Clocks,
    /// How it is here and below, and what of it the parent was told.
    pub(super) reports: Ledger<SiteName>,
}

/// What an owner starts from.
pub(super) struct Estate {
    pub(super) roster: Roster,
    pub(super) members: Members,
    pub(super) outlets: Outlets,
    pub(super) shared: Shared,
    pub(super) folder: PathBuf,
    pub(super) events: Bus,
    pub(super) socket: Option<Arc<UdpSocket>>,
    pub(super) routes: Arc<BTreeMap<SiteName, String>>,
    pub(super) backlogs: watch::Receiver<Arc<Backlogs>>,
    pub(super) decisions: Decisions,
    pub(super) configured_parent: Option<SiteName>,
    pub(super) links_all_max: usize,
}

/// How a link is steered.
pub(super) struct Handle {
    addresses: watch::Sender<Vec<String>>,
    wake: Arc<Notify>,
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) task: AbortHandle,
}

impl Owner {
    pub(super) fn new(estate: Estate) -> Owner {
        let Estate {
            roster,
            members,
            outlets,
            shared,
            folder,
            events,
            socket,
            routes,
            backlogs,
            decisions,
            configured_parent,
            links_all_max,
        } = estate;
        let saver = tokio::spawn(keep_saved(folder.clone(), outlets.saved.subscribe()));
        let mut tasks = JoinSet::new();
        let mut letters = None;
        let mut sender = None;
        if let Some(socket) = socket {
            let (put, inbox) = mpsc::channel(LETTERS_MAX);
            tasks.spawn(post::receive(socket.clone(), shared.events.clone()));
            sender = Some(tokio::spawn(post::send(socket, inbox)));
            letters = Some(put);
        }
        Owner {
            roster,
            members,
            outlets,
            shared,
            links: HashMap::new(),
            accepted: HashMap::new(),
            tasks,
            saver,
            refresh: false,
            events,
            letters,
            sender,
            routes,
            backlogs,
            wanted: Wanted::default(),
            joined: HashSet::new(),
            decisions,
            configured_parent,
            links_all_max,
            folder,
            clocks: Clocks::new(Now::read()),
            reports: Ledger::default(),
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
            let wake = tokio::time::Instant::from_std(self.members.wake());
            tokio::select! {
                event = events.recv() => match event {
                    None | Some(Event::Stop) => break,
                    Some(event) => self.take(event),
                },
                _ = ticks.tick() => self.tend(),
                () = sleep_until(wake) => self.tick(),
                // Joins end by themselves, links when they are not wanted any more.
                Some(ended) = self.tasks.join_next() => {
                    let panicked = ended.is_err_and(|fault| fault.is_panic());
                    assert!(!panicked, "links and joins do not panic");
                }
            }
        }
        self.stop().await;
    }

    fn take(&mut self, event: Event) {
        let now = Now::read();
        let mut effects = Effects::default();
        let reply = self.step(event, now, &mut effects);
        self.carry_out(effects);
        // Answered last, so that the answer holds what the question brought.
        match reply {
            None => (),
            Some(PendingReply::Hello(reply, outcome)) => {
                let _ = reply.send(outcome.map(|hello| {
                    let greeting = self.outlets.greeting.borrow();
                    match hello {
                        Which::First => greeting.body.clone(),
                        Which::Again => greeting.body_again.clone(),
                    }
                }));
            }
            Some(PendingReply::Decision(reply, outcome)) => {
                let version = self.outlets.view.borrow().version;
                let _ = reply.send(outcome.map(|()| version));
            }
        }
    }

    fn tick(&mut self) {
        let now = Now::read();
        let mut wishes = Vec::new();
        let mut effects = Effects::default();
        self.members.tick(now.instant, &mut wishes);
        self.heed(wishes, now, &mut effects);
        self.carry_out(effects);
    }

    fn step(&mut self, event: Event, now: Now, effects: &mut Effects) -> Option<PendingReply> {
        match event {
            Event::Met { site, address } => {
                self.joined.insert(site.clone());
                self.roster.meet(&site, &address, now, effects);
                self.introduce(&site);
            }
            Event::Accepted { site, end } => self.accept(site, end, now, effects),
            Event::Greeted { hello, ip, reply } => {
                let which = if hello.again {
                    Which::Again
                } else {
                    Which::First
                };
                let outcome = self.greet(*hello, Via::Accepted(ip), now, effects);
                return Some(PendingReply::Hello(reply, outcome.map(|()| which)));
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
                self.wanted.greeted(&site);
                let via = Via::Dialled(&address, ip);
                // Refused only if there is no room, which the roster has said.
                let _ = self.greet(*hello, via, now, effects);
            }
            Event::LinkBeat { site, trip } => {
                self.refresh |= self.roster.beat(&site, trip, now);
                let mut wishes = Vec::new();
                self.members.linked(&site, trip, now.instant, &mut wishes);
                self.heed(wishes, now, effects);
            }
            Event::LinkDown { site } => {
                if self.roster.tree().parent(&self.roster.here().site) == Some(&site) {
                    // A parent that comes back is told everything.
                    self.reports.forget_told();
                }
                self.roster.link_down(&site, effects);
            }
            Event::Datagram { sealed, origin } => {
                let mut wishes = Vec::new();
                let members = &mut self.members;
                match members.receive(&sealed, origin, now.instant, &mut wishes) {
                    Some(from) => self.refresh |= self.roster.heard(&from, now).is_some(),
                    None => self.refresh = true,
                }
                self.heed(wishes, now, effects);
            }
            Event::Reported { site, reports } => self.take_reports(&site, reports),
            Event::Report(report) => self.report(*report),
            Event::Used { site } => self.used(&site, now, effects),
            Event::Decide {
                site,
                decision,
                reply,
            } => {
                let decided = self.decide(&site, &decision, effects);
                return Some(PendingReply::Decision(reply, decided));
            }
            Event::Announce(announcement) => {
                self.configured_parent = announcement.parent.clone();
                self.announce(*announcement, effects);
            }
            Event::Stop => unreachable!("the loop ends before"),
        }
        None
    }

    /// Takes a hello, and with it what others told its sender.
    fn greet(
        &mut self,
        hello: Hello,
        via: Via<'_>,
        now: Now,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let announcement = hello.announcement.clone();
        let told: Vec<_> = hello
            .known
            .iter()
            .map(|known| (known.site.clone(), known.standing.clone()))
            .collect();
        let mut wishes = Vec::new();
        let own = told.iter().find(|(site, _)| *site == announcement.site);
        if let Some((site, Some(standing))) = own {
            let swim = &mut self.members.swim;
            swim.hear_return(site, standing.clone(), &mut wishes);
            self.heed(std::mem::take(&mut wishes), now, effects);
        }
        self.roster.greet(hello, via, now, effects)?;
        self.members
            .greeted(&announcement, now.instant, &mut wishes);
        for (site, standing) in told {
            self.introduce(&site);
            if let Some(standing) = standing {
                self.members
                    .swim
                    .hear_decision(&site, standing, &mut wishes);
            }
        }
        self.heed(wishes, now, effects);
        Ok(())
    }

    /// What the roster knows, membership is to know too; until it is heard it counts as away.
    pub(super) fn introduce(&mut self, site: &SiteName) {
        let known = self.roster.known(site);
        if let Some(address) = known.and_then(|known| known.advertise()) {
            let address = address.as_str().into();
            self.members.swim.meet(site, address, &mut Vec::new());
        }
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
        let away = self.roster.heard(&site, now) == Some(false);
        effects.wake = away.then_some(site);
    }

    pub(super) fn carry_out(&mut self, effects: Effects) {
        if effects.say {
            let greeting = self.roster.hello().greeting(self.links_all_max);
            self.outlets.greeting.send_replace(Arc::new(greeting));
        }
        for site in effects.dial {
            self.dial(site);
        }
        // After the links: who has one is judged by it.
        if effects.publish {
            self.publish(Change::Matter);
        } else if effects.judge {
            self.publish(Change::Times);
        }
        if effects.save {
            self.outlets
                .saved
                .send_replace(Arc::new(self.roster.saved()));
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
        if !self.wants_link(&site) || self.roster.known(&site).is_none() {
            return;
        }
        let (sender, addresses) = watch::channel(addresses);
        let (message_in, messages) = mpsc::channel(LINK_DATAGRAMS_MAX);
        let wake = Arc::new(Notify::new());
        let link = Link {
            site: site.clone(),
            addresses,
            wake: wake.clone(),
            messages,
            shared: self.shared.clone(),
        };
        let task = self.tasks.spawn(link.run());
        self.links.insert(
            site,
            Handle {
                addresses: sender,
                wake,
                messages: message_in,
                task,
            },
        );
    }

    async fn stop(mut self) {
        let mut wishes = Vec::new();
        self.members.swim.leave(&mut wishes);
        self.heed(wishes, Now::read(), &mut Effects::default());
        self.letters = None;
        if let Some(mut sender) = self.sender.take()
            && timeout(FAREWELL, &mut sender).await.is_err()
        {
            sender.abort();
        }
        self.tasks.shutdown().await;
        self.accepted.clear();
        drop(self.outlets);
        let _ = self.saver.await;
    }
}

/// Which hello is answered.
enum Which {
    First,
    Again,
}

/// An answer that is given when what was asked for is done.
enum PendingReply {
    Hello(
        oneshot::Sender<Result<Bytes, Refusal>>,
        Result<Which, Refusal>,
    ),
    Decision(
        oneshot::Sender<Result<u64, DecideError>>,
        Result<(), DecideError>,
    ),
}
