//! Clients that create, update, delete and act, at any site, with keys and retries; and the people who look after it.

use cheops_core::eventual::{Repair, ReplicaState, Stage};
use cheops_core::operation::{DoubtBy, Fields, Form, Handover, Kind, Mode, Repeat};
use cheops_core::{Answer, ClientId, Event, Operation, OperationId, ReplicantId, Submission};
use cheops_model::SiteName;
use std::collections::BTreeSet;

use crate::history::{Request, Try};
use crate::service::Deed;
use crate::world::{Happening, World};

impl World {
    /// A new request.
    pub fn client_acts(&mut self) {
        if self.counts.tries >= self.settings.requests * 3
            || self.history.requests.len() as u64 >= self.settings.requests
        {
            return;
        }
        let known = self.known_replicants();
        let submission = match self.rng.below(10) {
            _ if known.is_empty() => self.draw_create(),
            0..=1 => self.draw_create(),
            2 => self.draw_queue(),
            _ => {
                let hot = self.rng.chance(self.settings.hot);
                let of = if hot {
                    known[0]
                } else {
                    known[self.rng.below(known.len())]
                };
                self.draw_change(of)
            }
        };
        let host = self.rng.below(self.hosts.len());
        self.first_try(host, submission);
        let pause = self
            .rng
            .between(20, 2 * self.settings.rough_ms / self.settings.requests);
        self.at(self.now_ms + pause, Happening::Client);
    }

    fn first_try(&mut self, host: usize, submission: Submission) {
        let op = submission.op.id;
        let mut hosts: BTreeSet<usize> = submission
            .sites
            .iter()
            .filter_map(|site| self.host_of(site))
            .collect();
        if submission.form == Form::Queue {
            hosts.insert(host);
        }
        if submission.op.kind == Kind::Rescope {
            self.history.widen(submission.op.replicant, &hosts);
        }
        let request = Request {
            submission: submission.clone(),
            tries: Vec::new(),
            hosts,
        };
        self.history.requests.insert(op, request);
        self.draw_cancel(host, &submission);
        self.one_try(host, submission);
    }

    fn one_try(&mut self, host: usize, mut submission: Submission) {
        submission.op.origin = self.hosts[host].name.clone();
        submission.attempt = self.rng.draw();
        let op = submission.op.id;
        let tries = &mut self
            .history
            .requests
            .get_mut(&op)
            .expect("it was handed in")
            .tries;
        tries.push(Try {
            at_ms: self.now_ms,
            host,
            digest: submission.op.digest,
            answer: None,
        });
        let number = tries.len() - 1;
        self.tell(|world| {
            let (name, op) = (&world.hosts[host].name, &submission.op);
            let sites: Vec<&str> = submission.sites.iter().map(SiteName::as_str).collect();
            format!(
                "client at {name}: {:?} {:?} on {:?} {:?} to {:?} try {number} at {sites:?}",
                op.kind, op.id, op.replicant, op.fields, op.sites
            )
        });
        self.ask(host, op, number, submission);
        let at_ms = self.now_ms + self.rng.between(500, 6_000);
        self.at(at_ms, Happening::Retry { op });
    }

    /// The same once more, perhaps elsewhere, if it was not answered well.
    pub fn client_retries(&mut self, op: OperationId) {
        if op.is_passing() {
            // Without a key, another try is another request.
            return;
        }
        let request = &self.history.requests[&op];
        let done = request
            .tries
            .iter()
            .any(|one| matches!(&one.answer, Some((_, answer)) if !is_retried(answer)));
        let nosy = done && self.rng.chance(100_000);
        let request = &self.history.requests[&op];
        if (done && !nosy) || request.tries.len() >= 3 || !self.hostile || self.rng.chance(400_000)
        {
            return;
        }
        let mut submission = request.submission.clone();
        let queued = submission.form == Form::Queue;
        let same = request.tries[0].host;
        if nosy && self.rng.chance(500_000) {
            submission.op.digest ^= 1;
        }
        let host = if queued || self.rng.chance(500_000) {
            same
        } else {
            self.rng.below(self.hosts.len())
        };
        self.one_try(host, submission);
    }

    /// An answer.
    pub fn client_hears(&mut self, client: ClientId, answer: Answer) {
        let Some((op, number)) = self.asking.remove(&client) else {
            return;
        };
        let now_ms = self.now_ms;
        if let Some(request) = self.history.requests.get_mut(&op) {
            request.tries[number].answer = Some((now_ms, answer));
        }
    }

    fn host_of(&self, site: &SiteName) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == *site)
    }

    fn known_replicants(&self) -> Vec<ReplicantId> {
        let created = |request: &&Request| {
            request.submission.op.kind == Kind::Create && request.submission.form == Form::Replica
        };
        self.history
            .requests
            .values()
            .filter(created)
            .map(|request| request.submission.op.replicant)
            .collect()
    }

    fn draw_sites(&mut self) -> Vec<SiteName> {
        let mut sites: Vec<SiteName> = self.hosts.iter().map(|host| host.name.clone()).collect();
        for at in (1..sites.len()).rev() {
            sites.swap(at, self.rng.below(at + 1));
        }
        let count = self.rng.between(2, sites.len() as u64) as usize;
        sites.truncate(count);
        sites
    }

    fn draw_mode(&mut self) -> Mode {
        if self.rng.chance(250_000) {
            Mode::Async
        } else {
            Mode::Wait(
                self.rng
                    .between(self.settings.hasty_ms, 10 * self.settings.hasty_ms),
            )
        }
    }

    fn draw_value(&mut self) -> String {
        match self.rng.below(30) {
            0 => "bad".into(),
            1 if self.settings.picky => "picky".into(),
            _ => format!("v{}", self.rng.draw() % 1_000_000),
        }
    }

    fn draw_create(&mut self) -> Submission {
        let OperationId(id) = OperationId::lasting(self.rng.wide());
        let mut fields = Fields::from([("name".to_string(), format!("n{}", id as u32))]);
        let value = self.draw_value();
        fields.insert("a".into(), value);
        let sites = self.draw_sites();
        let doubt = [
            DoubtBy::Mark,
            DoubtBy::Match,
            DoubtBy::Match,
            DoubtBy::Nothing,
        ][self.rng.below(4)];
        let handover = if self.rng.chance(self.settings.auto) {
            Handover::Auto
        } else {
            Handover::ByHand
        };
        let op = self.operation(
            id,
            ReplicantId(id),
            Kind::Create,
            fields,
            Repeat::Never,
            None,
        );
        let mode = self.draw_mode();
        Submission {
            doubt,
            handover,
            mode,
            ..Submission::new(op, sites, "thing", 0)
        }
    }

    fn draw_change(&mut self, of: ReplicantId) -> Submission {
        let mut made = self.history.requests[&OperationId(of.0)].submission.clone();
        for earlier in self.history.about(of) {
            let new = |site: &&SiteName| !made.sites.contains(site);
            let new: Vec<SiteName> = earlier
                .submission
                .op
                .sites
                .iter()
                .filter(new)
                .cloned()
                .collect();
            made.sites.extend(new);
        }
        if self.rng.chance(self.settings.rescope) {
            return self.draw_rescope(of, made);
        }
        let kind = [
            Kind::Update,
            Kind::Update,
            Kind::Update,
            Kind::Action,
            Kind::Delete,
        ][self.rng.below(5)];
        let mut fields = Fields::new();
        if kind == Kind::Update {
            let field = ["a", "b", "c"][self.rng.below(3)];
            fields.insert(field.into(), self.draw_value());
        }
        let repeat = if self.rng.chance(600_000) && kind == Kind::Update {
            Repeat::Safe
        } else {
            Repeat::Never
        };
        let ttl_ms = (kind == Kind::Action && self.rng.chance(400_000))
            .then(|| self.rng.between(300, 5_000));
        let id = self.rng.wide();
        let mut op = self.operation(id, of, kind, fields, repeat, ttl_ms);
        let mode = self.draw_mode();
        let waits = matches!(mode, Mode::Wait(_));
        if waits && repeat == Repeat::Safe && self.settings.passing_ms.is_some() {
            op.id = OperationId::passing(id);
        }
        Submission { op, mode, ..made }
    }

    fn draw_rescope(&mut self, of: ReplicantId, made: Submission) -> Submission {
        let id = self.rng.wide();
        let mut op = self.operation(id, of, Kind::Rescope, Fields::new(), Repeat::Safe, None);
        op.sites = self.draw_sites();
        let mut sites = made.sites.clone();
        sites.extend(
            op.sites
                .iter()
                .filter(|site| !made.sites.contains(site))
                .cloned(),
        );
        let mode = self.draw_mode();
        Submission {
            op,
            sites,
            mode,
            ..made
        }
    }

    fn draw_queue(&mut self) -> Submission {
        let mut made = self.draw_create();
        made.op.kind = [Kind::Create, Kind::Action, Kind::Update][self.rng.below(3)];
        made.op.ttl_ms = self
            .rng
            .chance(400_000)
            .then(|| self.rng.between(300, 5_000));
        made.form = Form::Queue;
        made.sites.truncate(1);
        made
    }

    fn operation(
        &mut self,
        id: u128,
        replicant: ReplicantId,
        kind: Kind,
        fields: Fields,
        repeat: Repeat,
        ttl_ms: Option<u64>,
    ) -> Operation {
        let origin = self.hosts[0].name.clone();
        Operation {
            fields,
            repeat,
            digest: self.rng.draw(),
            ttl_ms,
            ..Operation::new(OperationId::lasting(id), replicant, kind, origin)
        }
    }

    /// Mends what is shown as diverged or in doubt.
    pub fn operator_looks(&mut self) {
        for host in 0..self.hosts.len() {
            let name = self.hosts[host].name.clone();
            let Some(core) = &self.hosts[host].core else {
                continue;
            };
            let mut orders = Vec::new();
            for view in core.replicants() {
                let row = &view.rows[&name];
                let next = view
                    .log
                    .iter()
                    .find(|(index, ..)| *index == row.applied + 1)
                    .map(|(.., stage)| stage.clone());
                match (row.state, &row.local) {
                    (ReplicaState::Diverged, _) => orders.push((view.id, Repair::Settle)),
                    (ReplicaState::InDoubt, Some(_)) if next == Some(Stage::InDoubt) => {
                        orders.push((view.id, Repair::Skip));
                    }
                    (ReplicaState::InDoubt, None) if !self.was_made(host, view.id) => {
                        orders.push((view.id, Repair::Retry));
                    }
                    _ => (),
                }
            }
            for (replicant, how) in orders {
                self.repair(host, replicant, how);
            }
        }
        if self.rng.chance(500_000) && self.hostile {
            let pause = self.rng.between(3_000, 10_000);
            self.at(self.now_ms + pause, Happening::Operator);
        }
    }

    fn was_made(&self, host: usize, replicant: ReplicantId) -> bool {
        let made =
            |done: &crate::service::Done| done.replicant == replicant && done.deed == Deed::Made;
        self.hosts[host].service.done.iter().any(made)
    }

    /// Somebody is told to lead.
    pub fn promote_someone(&mut self) {
        let host = self.rng.below(self.hosts.len());
        let Some(core) = &self.hosts[host].core else {
            return;
        };
        let ids: Vec<ReplicantId> = core.replicants().map(|view| view.id).collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[self.rng.below(ids.len())];
        self.counts.promotions += 1;
        self.tell(|world| format!("{} is told to lead {id:?}", world.hosts[host].name));
        self.step(host, Event::Promote(id));
    }
}

fn is_retried(answer: &Answer) -> bool {
    matches!(answer, Answer::Unavailable(_) | Answer::OutcomeUnknown)
}
