//! What happened, as an outsider saw it: requests, answers, logs as they were on disk. The laws are checked on it.

use std::collections::{BTreeMap, BTreeSet};

use cheops_core::eventual::{Body, Kept, ReplicantView, Runs, Stage};
use cheops_core::record::decode;
use cheops_core::{Answer, Change, Epoch, OperationId, ReplicantId, Site, Submission, Table};

/// One try of a client.
#[derive(Clone, Debug)]
pub struct Try {
    /// When it was handed in.
    pub at_ms: u64,
    /// Where.
    pub host: usize,
    /// The digest it had.
    pub digest: u64,
    /// When it was answered, and what.
    pub answer: Option<(u64, Answer)>,
}

/// One request with its retries.
#[derive(Clone, Debug)]
pub struct Request {
    /// As first handed in.
    pub submission: Submission,
    /// In order.
    pub tries: Vec<Try>,
    /// Where the resource was meant to be.
    pub hosts: BTreeSet<usize>,
}

impl Request {
    /// When a client first heard that it was done or will be.
    pub fn acknowledged_ms(&self) -> Option<u64> {
        let good = |answer: &Answer| match answer {
            Answer::Service { status, .. } => *status < 300,
            Answer::Accepted => true,
            _ => false,
        };
        let heard = self.tries.iter().filter_map(|one| one.answer.as_ref());
        heard
            .filter(|(_, answer)| good(answer))
            .map(|(at, _)| *at)
            .min()
    }

    /// True if every try was answered 503.
    pub fn is_unavailable(&self) -> bool {
        let unavailable = |one: &Try| matches!(one.answer, Some((_, Answer::Unavailable(_))));
        self.tries.iter().all(unavailable)
    }
}

/// The log of one replicant on one disk, never folded.
pub type Chain = BTreeMap<u64, (Epoch, Body)>;

/// A disk that was put back.
#[derive(Clone, Copy, Debug)]
pub struct Restore {
    /// Whose.
    pub host: usize,
    /// What it holds now was written before.
    pub backup_ms: u64,
    /// Put back then.
    pub at_ms: u64,
}

/// Everything seen.
#[derive(Debug, Default)]
pub struct History {
    /// By operation.
    pub requests: BTreeMap<OperationId, Request>,
    /// By host and replicant.
    pub chains: BTreeMap<(usize, ReplicantId), Chain>,
    /// What somebody was told not to happen: where and when.
    pub cancelled: BTreeMap<OperationId, (usize, u64)>,
    /// Where and when an entry was given up as too late.
    pub expired: BTreeMap<(usize, OperationId), u64>,
    /// Operations that lost a position: where the logs parted, and the epoch of that position.
    pub cut: BTreeMap<OperationId, (u64, Epoch)>,
    /// What a site had to bring to another leader.
    pub offered: BTreeSet<OperationId>,
    /// Requests on a disk that has nothing to do with them.
    pub strays: BTreeSet<(usize, OperationId)>,
    /// What was shown as in doubt somewhere.
    pub doubted: BTreeSet<OperationId>,
    /// Disks put back.
    pub restores: Vec<Restore>,
    /// Hosts that stopped or whose clock jumped.
    pub disturbed: BTreeSet<usize>,
    /// Entries called, in order: host, incarnation of its disk, replicant, epoch, index.
    pub called: Vec<(usize, u64, ReplicantId, Epoch, u64)>,
    /// What a conflict stands for that was made of folded entries.
    pub remains: BTreeMap<OperationId, BTreeSet<OperationId>>,
    /// Requests brought to the leader of that very reign.
    pub asked: BTreeSet<(OperationId, Epoch)>,
    /// Requests brought to a site, whoever leads: where, and when last.
    pub brought: BTreeMap<(usize, OperationId), u64>,
    /// What stood in a log of that host at any time, on the disk it has.
    pub seen: BTreeSet<(usize, OperationId)>,
    /// Since when a reign was heard of.
    pub reigns: BTreeMap<(ReplicantId, Epoch), u64>,
    /// Calls a person asked for again: they may be done twice.
    pub retried: BTreeSet<(usize, ReplicantId)>,
    /// What only a disk knew that was put back: nobody can know that it was done.
    pub lost: BTreeSet<(usize, OperationId)>,
    /// What each host is to bring to others.
    pub outboxes: BTreeSet<(usize, OperationId)>,
    /// What no disk had in a log or to bring to one any more when one of them was put back.
    pub gone: BTreeSet<OperationId>,
    /// The most a site ever held in memory.
    pub peak_weight: usize,
}

impl History {
    /// Sees a batch on its way to a disk. `core` is what the site will be then.
    pub fn see(&mut self, now_ms: u64, host: usize, changes: &[Change], core: &Site) {
        let runs = |id: ReplicantId| core.replicant(id).map(|view| view.runs);
        self.note_cut(host, changes, &runs);
        self.note_strays(host, changes);
        self.note_taken(now_ms, host, changes, core);
        for change in changes.iter().filter(|change| change.table == Table::Log) {
            let (id, index) = split(&change.key);
            let Some(value) = &change.value else {
                // Folded entries stay in the history; what lost its position does not.
                let chain = self.chains.entry((host, id)).or_default();
                let epoch = chain.get(&index).map(|(epoch, _)| epoch);
                if runs(id).is_some_and(|runs| runs.epoch_at(index) != epoch) {
                    chain.remove(&index);
                }
                continue;
            };
            let kept: Kept = decode(value).expect("what is written can be read");
            let chain = self.chains.entry((host, id)).or_default();
            if kept.stage == Stage::Expired {
                self.expired
                    .entry((host, kept.entry.body.operation()))
                    .or_insert(now_ms);
            }
            if kept.stage == Stage::InDoubt {
                self.doubted.insert(kept.entry.body.operation());
            }
            self.seen.insert((host, kept.entry.body.operation()));
            chain.insert(index, (kept.entry.epoch, kept.entry.body));
        }
    }

    /// What loses its position in this batch, and where the logs part.
    fn note_cut(
        &mut self,
        host: usize,
        changes: &[Change],
        runs: &impl Fn(ReplicantId) -> Option<Runs>,
    ) {
        let removed = |change: &&Change| change.table == Table::Log && change.value.is_none();
        let mut forks: BTreeMap<ReplicantId, u64> = BTreeMap::new();
        for change in changes.iter().filter(removed) {
            let (id, index) = split(&change.key);
            let entry = self.chains.get(&(host, id)).and_then(|c| c.get(&index));
            let (Some((epoch, body)), Some(runs)) = (entry, runs(id)) else {
                continue;
            };
            if runs.epoch_at(index) == Some(epoch) {
                continue;
            }
            let fork = *forks.entry(id).or_insert(index - 1);
            self.cut
                .entry(body.operation())
                .or_insert_with(|| (fork, epoch.clone()));
        }
    }

    /// What a site brings to a leader: requests it took with 202, and what the folded end of a lost log came to.
    fn note_taken(&mut self, now_ms: u64, host: usize, changes: &[Change], core: &Site) {
        let removed = |change: &&Change| change.table == Table::Log && change.value.is_none();
        let removed = changes
            .iter()
            .filter(removed)
            .map(|change| split(&change.key));
        let removed: BTreeSet<_> = removed.collect();
        for change in changes
            .iter()
            .filter(|change| change.table == Table::Outbox)
        {
            let op = operation(&change.key);
            match change.value {
                Some(_) => self.outboxes.insert((host, op)),
                None => self.outboxes.remove(&(host, op)),
            };
            let kept = core.outbox().find(|kept| kept.id == op);
            if core.is_taken(op) && !self.seen.contains(&(host, op)) {
                self.brought.insert((host, op), u64::MAX);
            } else if let Some(until) = self.brought.get_mut(&(host, op))
                && *until == u64::MAX
            {
                *until = now_ms;
            }
            if self.requests.contains_key(&op) {
                continue;
            }
            // The message that told it to leave them may have told that they are parked: then they are brought to nobody.
            let parked = |view: &ReplicantView| view.parked.iter().any(|parked| parked.id == op);
            let at_once = || core.replicants().find(parked).map(|view| view.id);
            let of = kept.map(|kept| kept.replicant);
            let of = of.or_else(|| change.value.as_ref().and_then(|_| at_once()));
            let Some(of) = of else {
                continue;
            };
            let runs = core.replicant(of).map(|view| view.runs);
            let chain = self.chains.get(&(host, of)).into_iter().flatten();
            let lost = chain.filter(|(index, (epoch, _))| {
                let stands = runs.as_ref().and_then(|runs| runs.epoch_at(**index));
                // What stood in the log until now was not folded: it has to be brought as itself.
                stands != Some(epoch) && !removed.contains(&(of, **index))
            });
            // Several sites may have folded the same: each saw a part of it.
            let lost = lost.map(|(_, (_, body))| body.operation());
            self.remains.entry(op).or_default().extend(lost);
        }
    }

    /// Requests taken in by a site that has nothing to do with them.
    fn note_strays(&mut self, host: usize, changes: &[Change]) {
        for change in changes
            .iter()
            .filter(|change| change.table == Table::Outbox && change.value.is_some())
        {
            let op = operation(&change.key);
            self.offered.insert(op);
            if self
                .requests
                .get(&op)
                .is_some_and(|request| !request.hosts.contains(&host))
            {
                self.strays.insert((host, op));
            }
        }
    }

    /// Somebody wants a resource at these hosts too.
    pub fn widen(&mut self, id: ReplicantId, hosts: &BTreeSet<usize>) {
        let about = |request: &&mut Request| request.submission.op.replicant == id;
        for request in self.requests.values_mut().filter(about) {
            request.hosts.extend(hosts);
        }
    }

    /// True if a disk that could have been the only one to know what was heard at `at_ms` was put back to before. What is
    /// heard was said at some time since `asked_ms`.
    pub fn is_excused(&self, hosts: &BTreeSet<usize>, asked_ms: u64, at_ms: u64) -> bool {
        let lost = |restore: &Restore| {
            hosts.contains(&restore.host) && restore.backup_ms <= at_ms && asked_ms <= restore.at_ms
        };
        self.restores.iter().any(lost)
    }

    /// The requests about one replicant.
    pub fn about(&self, id: ReplicantId) -> impl Iterator<Item = &Request> {
        self.requests
            .values()
            .filter(move |request| request.submission.op.replicant == id)
    }
}

/// Whose a key of the outbox is.
fn operation(key: &[u8]) -> OperationId {
    let id = key[..16].try_into().map(u128::from_be_bytes);
    OperationId(id.expect("a key of the outbox has 16 bytes"))
}

fn split(key: &[u8]) -> (ReplicantId, u64) {
    let id = u128::from_be_bytes(key[..16].try_into().expect("a key of the log has 24 bytes"));
    let index = u64::from_be_bytes(key[16..].try_into().expect("a key of the log has 24 bytes"));
    (ReplicantId(id), index)
}
