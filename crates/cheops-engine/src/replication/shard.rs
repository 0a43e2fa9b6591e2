//! One shard: a thread that owns a share of the replicants. Events in, one write, then effects out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cheops_core::eventual::{Glance, Mark, Tuning};
use cheops_core::{
    Answer, Birth, Boot, Call, CallId, Change, ClientId, Effect, Event, MeshKey, Now, Outcome,
    Output, ReplicantId, Site, Submission, Table, Wait,
};
use cheops_model::SiteName;
use tokio::sync::{oneshot, watch};

use super::aside::{give_way, step_back};
use super::caller::{Caller, Job};
use super::disk::{Disk, DiskFault};
use super::index::Index;
use super::limits::{
    DISK_PAUSE, INBOX_MAX, NAP_MAX, STEP_BYTES_MAX, STEP_EVENTS_MAX, STEP_RECORDS_MAX,
};
use super::links::Outlets;
use super::reread::{Reread, reader};
use crate::picture::Picture;

/// Why a request was not taken. Nothing happened and nothing will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Too much waits already.
    Busy,
    /// The disk is full.
    NoRoom,
    /// The agent stops, or its records cannot be used.
    Stopped,
}

/// What a client hears.
pub(super) type Reply = Result<Answer, NotTaken>;

/// What happens to a shard.
pub(super) enum Input {
    Submit {
        submission: Box<Submission>,
        reply: oneshot::Sender<Reply>,
    },
    /// With a content that is still coming in.
    Stream {
        submission: Box<Submission>,
        reply: oneshot::Sender<Reply>,
    },
    /// That content is whole.
    Complete {
        op: Box<cheops_core::Operation>,
        wait_ms: u64,
        reply: oneshot::Sender<Reply>,
    },
    Cancel {
        op: cheops_core::OperationId,
        reply: oneshot::Sender<Reply>,
    },
    Event(Box<Event>),
    /// Of a call that this life of the shard made.
    Outcome {
        life: u64,
        call: CallId,
        outcome: Box<Outcome>,
    },
    /// This site takes changes from elsewhere again.
    Release,
    /// A look at the state.
    Look(Box<dyn FnOnce(&Site) + Send>),
    Stop,
}

/// The door of a shard.
#[derive(Clone)]
pub(super) struct Inbox {
    inputs: mpsc::Sender<Input>,
    waiting: Arc<AtomicUsize>,
}

impl Inbox {
    /// For what may be refused.
    pub(super) fn offer(&self, input: Input) -> Result<(), NotTaken> {
        if self.waiting.load(Ordering::Relaxed) >= INBOX_MAX {
            return Err(NotTaken::Busy);
        }
        self.put(input)
    }

    /// For what has a bound of its own: outcomes, changes of links, people's decisions.
    pub(super) fn put(&self, input: Input) -> Result<(), NotTaken> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.inputs.send(input).map_err(|_| NotTaken::Stopped)
    }
}

/// What a shard starts from.
pub(super) struct Seed {
    pub(super) number: u8,
    /// When the clock of the shards stood at 0.
    pub(super) started: Instant,
    pub(super) here: SiteName,
    pub(super) key: MeshKey,
    pub(super) tuning: Tuning,
    pub(super) incarnation: u64,
    /// Who may share replicants with an earlier disk of this site.
    pub(super) peers: Vec<SiteName>,
    pub(super) pictures: watch::Receiver<Arc<Picture>>,
    pub(super) disk: Arc<Disk>,
    pub(super) index: Arc<Index>,
    pub(super) outlets: Outlets,
    pub(super) caller: Caller,
}

/// Starts the thread; returns when its records are read.
pub(super) fn start(seed: Seed) -> Result<(Inbox, std::thread::JoinHandle<()>), DiskFault> {
    let (inputs, inbox) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let door = Inbox {
        inputs,
        waiting: waiting.clone(),
    };
    let reread = Arc::new(Reread::new(seed.disk.clone(), seed.number));
    let mut shard = Shard {
        reread,
        started: seed.started,
        wake_ms: None,
        life: 0,
        clients: BTreeMap::new(),
        next_client: 0,
        door: door.clone(),
        down: BTreeSet::new(),
        forgotten: None,
        mesh: BTreeMap::new(),
        seed,
    };
    let known = shard.seed.incarnation;
    shard.seed.incarnation = shard.seed.disk.life_of(shard.seed.number, known)?;
    let site = shard.recover()?;
    let name = format!("log-{}", shard.seed.number);
    let thread = std::thread::Builder::new().name(name);
    let thread = thread
        .spawn(move || shard.run(site, &inbox, &waiting))
        .map_err(|error| DiskFault::Unusable(format!("no thread: {error}")))?;
    Ok((door, thread))
}

struct Shard {
    seed: Seed,
    reread: Arc<Reread>,
    started: Instant,
    wake_ms: Option<u64>,
    /// Counts starts from the records within this process: calls of an earlier one tell nothing.
    life: u64,
    clients: BTreeMap<ClientId, oneshot::Sender<Reply>>,
    next_client: u64,
    door: Inbox,
    /// Who is out of reach, to be told again after a start from the records.
    down: BTreeSet<SiteName>,
    /// A run of this site that others know and its disk does not.
    forgotten: Option<Boot>,
    /// Who was removed or taken in again, as it was last told: the same.
    mesh: BTreeMap<SiteName, Event>,
}

/// Whether the loop goes on.
#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    Stop,
}

impl Shard {
    fn run(mut self, mut site: Site, inbox: &Receiver<Input>, waiting: &AtomicUsize) {
        step_back();
        loop {
            let first = match inbox.recv_timeout(self.nap()) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut out = Output::new();
            let mut fresh = Vec::new();
            let mut then = Then::GoOn;
            let mut taken = 0;
            let mut next = first;
            if next.is_none() {
                self.tick(&mut site, &mut out);
            }
            while let Some(input) = next {
                taken += 1;
                then = self.take(&mut site, input, &mut fresh, &mut out);
                let full = taken == STEP_EVENTS_MAX
                    || out.bytes() > STEP_BYTES_MAX
                    || out.records() > STEP_RECORDS_MAX;
                if then == Then::Stop || full {
                    break;
                }
                give_way();
                next = inbox.try_recv().ok();
            }
            waiting.fetch_sub(taken, Ordering::Relaxed);
            let finished = self.finish(&mut site, out);
            let finished = finished.and_then(|()| match self.forgotten.take() {
                Some(boot) => self.begin_anew(boot).map(|anew| site = anew),
                None => Ok(()),
            });
            if let Err(fault) = finished {
                match self.start_again(fault, &fresh, inbox, waiting) {
                    Some(again) => site = again,
                    None => return,
                }
            }
            if then == Then::Stop {
                return;
            }
        }
    }

    /// The core says when it wants to be woken only when that changes: a time that has come is over.
    fn tick(&mut self, site: &mut Site, out: &mut Output) {
        let now = self.now();
        self.wake_ms = self.wake_ms.filter(|at_ms| *at_ms > now.monotonic_ms);
        site.step(now, Event::Tick, out);
    }

    fn take(
        &mut self,
        site: &mut Site,
        input: Input,
        fresh: &mut Vec<ClientId>,
        out: &mut Output,
    ) -> Then {
        let now = self.now();
        match input {
            Input::Submit { submission, reply } => {
                let client = self.enter(reply, fresh);
                let submission = *submission;
                site.step(now, Event::Submit { client, submission }, out);
            }
            Input::Stream { submission, reply } => {
                let client = self.enter(reply, fresh);
                let submission = *submission;
                site.step(now, Event::Stream { client, submission }, out);
            }
            Input::Complete { op, wait_ms, reply } => {
                let client = self.enter(reply, fresh);
                let complete = Event::Complete {
                    client,
                    op: *op,
                    wait_ms,
                };
                site.step(now, complete, out);
            }
            Input::Cancel { op, reply } => {
                let client = self.enter(reply, fresh);
                site.step(now, Event::Cancel { client, op }, out);
            }
            Input::Event(event) => {
                if let Event::Message { envelope, .. } = &*event
                    && envelope.to > Some(site.boot())
                {
                    self.forgotten = envelope.to;
                }
                self.remember(&event);
                site.step(now, *event, out);
            }
            Input::Outcome {
                life,
                call,
                outcome,
            } => {
                if life == self.life {
                    let outcome = *outcome;
                    site.step(now, Event::Outcome { call, outcome }, out);
                }
            }
            Input::Release => {
                for id in held_back(site) {
                    site.step(now, Event::Hurry(id), out);
                }
            }
            Input::Look(look) => look(site),
            Input::Stop => return Then::Stop,
        }
        Then::GoOn
    }

    /// What nobody tells twice, and a start from the records would forget.
    fn remember(&mut self, event: &Event) {
        match event {
            Event::Up(site) => _ = self.down.remove(site),
            Event::Down(site) => _ = self.down.insert(site.clone()),
            Event::Remove(site) | Event::Readmit(site) => {
                self.mesh.insert(site.clone(), event.clone());
            }
            _ => (),
        }
    }

    fn enter(&mut self, reply: oneshot::Sender<Reply>, fresh: &mut Vec<ClientId>) -> ClientId {
        self.next_client += 1;
        let client = ClientId(self.next_client);
        self.clients.insert(client, reply);
        fresh.push(client);
        client
    }

    /// Writes, then shows the index what changed, then fulfils what was wished.
    fn finish(&mut self, site: &mut Site, out: Output) -> Result<(), DiskFault> {
        if let Some(fault) = self.reread.take_fault() {
            return Err(fault);
        }
        if out.is_silent() {
            site.rest();
            return Ok(());
        }
        let mut changed = BTreeSet::new();
        let (disk, number) = (&self.seed.disk, self.seed.number);
        let effects = out.commit(|changes: Vec<Change>| {
            changed.extend(changes.iter().filter_map(replicant_of));
            disk.persist(number, changes)
        })?;
        for id in changed {
            self.seed.index.put(id, site.glance(id), &self.seed.here);
            give_way();
        }
        for effect in effects {
            self.fulfil(site, effect);
            give_way();
        }
        site.rest();
        Ok(())
    }

    fn fulfil(&mut self, site: &Site, effect: Effect) {
        match effect {
            Effect::Send { to, envelope } => {
                self.seed.outlets.send(&to, self.seed.number, &envelope);
            }
            Effect::Call {
                id,
                replicant,
                service,
                call,
            } => {
                let job = self.job(site, replicant, service, call);
                let door = self.door.clone();
                self.seed.caller.call(job, door, (self.life, id));
            }
            Effect::Answer { client, answer } => {
                if let Some(reply) = self.clients.remove(&client) {
                    // Whoever has gone away does not hear it.
                    let _ = reply.send(Ok(answer));
                }
            }
            Effect::Wake { at_ms } => self.wake_ms = Some(at_ms),
        }
    }

    /// A call with what has to be known for it. A request that runs as its client made it tells everything itself, and
    /// there are many of those.
    fn job(&self, site: &Site, replicant: ReplicantId, service: String, call: Call) -> Job {
        let asked = |op: &cheops_core::Operation| self.seed.caller.asked(op);
        let glance = site.glance(replicant);
        let glance = glance.as_ref();
        let made = glance.filter(|_| !matches!(call, Call::Run { .. }));
        let settled = glance.filter(|_| matches!(call, Call::Settle { .. }));
        Job {
            create: made.and_then(Glance::create).and_then(asked),
            latest: made.and_then(|_| site.latest(replicant)).and_then(asked),
            desired: settled.map(Glance::desired).unwrap_or_default(),
            origin: made.and_then(|glance| glance.origin().cloned()),
            sites: glance.map_or_else(Vec::new, |glance| glance.rows().keys().cloned().collect()),
            replicant,
            service,
            call,
        }
    }

    /// The state in memory is ahead of the disk: it goes, and is read again as soon as the disk
    /// takes writes. Until then requests are refused.
    fn start_again(
        &mut self,
        mut fault: DiskFault,
        fresh: &[ClientId],
        inbox: &Receiver<Input>,
        waiting: &AtomicUsize,
    ) -> Option<Site> {
        for (client, reply) in std::mem::take(&mut self.clients) {
            // Those that had come with this very write have left no trace.
            let answer = match fresh.contains(&client) {
                true => Err(NotTaken::NoRoom),
                false => Ok(Answer::OutcomeUnknown),
            };
            let _ = reply.send(answer);
        }
        let mut said = false;
        loop {
            match &fault {
                DiskFault::Unusable(why) => {
                    tracing::error!(shard = self.seed.number, why, "replication has stopped");
                    return None;
                }
                DiskFault::Full | DiskFault::Later(_) if !said => {
                    tracing::warn!(shard = self.seed.number, ?fault, "the disk takes no writes");
                    said = true;
                }
                DiskFault::Full | DiskFault::Later(_) => (),
            }
            if self.refuse_for(DISK_PAUSE, inbox, waiting) == Then::Stop {
                return None;
            }
            match self.recover() {
                Ok(site) => {
                    tracing::info!(shard = self.seed.number, "the disk takes writes again");
                    return Some(site);
                }
                Err(next) => fault = next,
            }
        }
    }

    fn refuse_for(
        &mut self,
        time: Duration,
        inbox: &Receiver<Input>,
        waiting: &AtomicUsize,
    ) -> Then {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(input) = inbox.recv_timeout(left) else {
                return Then::GoOn;
            };
            waiting.fetch_sub(1, Ordering::Relaxed);
            match input {
                Input::Submit { reply, .. }
                | Input::Stream { reply, .. }
                | Input::Complete { reply, .. }
                | Input::Cancel { reply, .. } => {
                    let _ = reply.send(Err(NotTaken::NoRoom));
                }
                Input::Event(event) => self.remember(&event),
                // What is not looked at is asked again; outcomes are of a life that is over.
                Input::Outcome { .. } | Input::Look(_) | Input::Release => (),
                Input::Stop => return Then::Stop,
            }
        }
    }

    /// This disk is not the one that others have heard of: nothing is done before they have told what there is.
    fn begin_anew(&mut self, known: Boot) -> Result<Site, DiskFault> {
        tracing::warn!(
            shard = self.seed.number,
            ?known,
            "other sites know of later runs of this one: its disk is new, or older than it was"
        );
        for (_, reply) in std::mem::take(&mut self.clients) {
            let _ = reply.send(Ok(Answer::OutcomeUnknown));
        }
        let (disk, number) = (&self.seed.disk, self.seed.number);
        self.seed.incarnation = disk.begin_life(number, known.incarnation)?;
        self.seed.peers = super::others(&self.seed.pictures.borrow());
        self.recover()
    }

    fn recover(&mut self) -> Result<Site, DiskFault> {
        self.life += 1;
        self.wake_ms = None;
        let found = Box::new(self.reread.at_start()?.inspect(|(table, key, value)| {
            self.index_mark(*table, key, value);
        }));
        let birth = Birth {
            me: self.seed.here.clone(),
            key: self.seed.key.clone(),
            tuning: self.seed.tuning.clone(),
            incarnation: self.seed.incarnation,
            peers: self.seed.peers.clone(),
            found,
            archive: Some(self.reread.clone()),
            reader: reader(),
            bug: None,
        };
        let mut out = Output::new();
        let mut site = Site::start(birth, self.now(), &mut out);
        for record in site.quarantined() {
            tracing::error!(table = ?record.table, error = %record.error, "a record cannot be read");
        }
        for event in self.mesh.values().cloned() {
            site.step(self.now(), event, &mut out);
        }
        for down in self.down.clone() {
            site.step(self.now(), Event::Down(down), &mut out);
        }
        for glance in site.awake() {
            let id = glance.id();
            self.seed.index.put(id, Some(glance), &self.seed.here);
        }
        self.finish(&mut site, out)?;
        self.seed.disk.set_marked(self.seed.number)?;
        Ok(site)
    }

    /// What rests is not looked at: its mark tells all that requests need to know.
    fn index_mark(&self, table: Table, key: &[u8], value: &[u8]) {
        let id = key.try_into().map(u128::from_be_bytes);
        if let (Table::Marks, Ok(id)) = (table, id)
            && let Ok(Mark::Resting(summary)) = cheops_core::record::decode(value)
        {
            self.seed.index.put_resting(ReplicantId(id), &summary);
        }
    }

    fn now(&self) -> Now {
        Now {
            monotonic_ms: self.started.elapsed().as_millis() as u64,
        }
    }

    fn nap(&self) -> Duration {
        let now_ms = self.now().monotonic_ms;
        let until_wake = self
            .wake_ms
            .map(|at| Duration::from_millis(at.saturating_sub(now_ms)));
        until_wake.map_or(NAP_MAX, |wait| wait.min(NAP_MAX))
    }
}

/// Replicants with something that waits because this site is held.
fn held_back(site: &Site) -> Vec<ReplicantId> {
    let waits = |glance: &cheops_core::eventual::Glance<'_>| {
        let note = glance.rows().get(site.name()).and_then(|row| row.note);
        note.is_some_and(|(_, status)| status == Wait::Held.status())
    };
    site.awake()
        .filter(waits)
        .map(|glance| glance.id())
        .collect()
}

/// The replicant whose record a change is.
fn replicant_of(change: &Change) -> Option<ReplicantId> {
    if change.table != Table::Replicants {
        return None;
    }
    let id: [u8; 16] = change.key.get(..16)?.try_into().ok()?;
    Some(ReplicantId(u128::from_be_bytes(id)))
}
