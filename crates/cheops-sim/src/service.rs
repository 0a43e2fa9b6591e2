//! A black-box REST service: mints ids, refuses, runs out of room, times out after doing it, lags, restarts.

use std::collections::{BTreeMap, BTreeSet};

use cheops_core::operation::{DoubtBy, Fields, Found, Kind, Operation, Refusal};
use cheops_core::{Call, OperationId, Outcome, ReplicantId};

use crate::rng::Rng;

/// A thing of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    /// What it has.
    pub fields: Fields,
    /// The operation id that was written into it, if the profile does so.
    pub mark: Option<OperationId>,
    /// Who made it; nobody if it was there before.
    pub made_for: Option<ReplicantId>,
    /// Busy until then.
    pub ready_ms: u64,
}

/// What the service did.
#[derive(Clone, Debug)]
pub struct Done {
    /// When.
    pub at_ms: u64,
    /// For whom.
    pub replicant: ReplicantId,
    /// By which operation; none for a settle or a delete.
    pub op: Option<(OperationId, Kind)>,
    /// On what.
    pub local: String,
    /// What kind of call.
    pub deed: Deed,
}

/// Kinds of calls that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Made it.
    Made,
    /// Ran an operation.
    Ran,
    /// Wrote fields.
    Settled,
    /// Removed it.
    Removed,
}

/// One service.
#[derive(Debug, Default)]
pub struct Service {
    /// What there is.
    pub things: BTreeMap<String, Thing>,
    /// What was done, in order.
    pub done: Vec<Done>,
    /// Does not listen until then.
    pub down_until_ms: u64,
    /// Has no room until then.
    pub full_until_ms: u64,
    /// Millionths of calls that are executed and not answered, or answered 500.
    pub flaky: u64,
    /// A value that only this site refuses.
    pub picky: Option<String>,
    /// Ids are numbers.
    pub numbers: bool,
    /// What was there before anybody came.
    pub strangers: BTreeMap<String, Thing>,
    minted: u64,
}

impl Service {
    /// Puts things there that are nobody's replica.
    pub fn populate(&mut self, rng: &mut Rng) {
        for number in 0..rng.between(0, 3) {
            let fields = Fields::from([
                ("name".to_string(), format!("old{number}")),
                ("a".into(), "v1".into()),
            ]);
            let local = self.mint(rng);
            let thing = Thing {
                fields,
                mark: None,
                made_for: None,
                ready_ms: 0,
            };
            self.things.insert(local, thing);
        }
        self.strangers = self.things.clone();
    }

    /// Runs a call. The outcome is what the agent will hear if it is still there.
    pub fn run(
        &mut self,
        now_ms: u64,
        replicant: ReplicantId,
        call: &Call,
        mapped: &BTreeSet<String>,
        rng: &mut Rng,
    ) -> Outcome {
        if self.down_until_ms > now_ms {
            return Outcome::NotSent;
        }
        let flaky = rng.chance(self.flaky);
        if flaky && rng.chance(400_000) {
            // Lost before it was done.
            return Outcome::Unknown;
        }
        let outcome = self.execute(now_ms, replicant, call, mapped, rng);
        if flaky { Outcome::Unknown } else { outcome }
    }

    /// Does it, whoever listens.
    pub fn execute(
        &mut self,
        now_ms: u64,
        replicant: ReplicantId,
        call: &Call,
        mapped: &BTreeSet<String>,
        rng: &mut Rng,
    ) -> Outcome {
        match call {
            Call::Create { op, fields } => {
                if let Some(refused) = self.refuse(now_ms, fields) {
                    return refused;
                }
                let local = self.mint(rng);
                let lag = if rng.chance(200_000) {
                    rng.between(100, 1_500)
                } else {
                    0
                };
                let thing = Thing {
                    fields: fields.clone(),
                    mark: Some(op.id),
                    made_for: Some(replicant),
                    ready_ms: now_ms + lag,
                };
                self.things.insert(local.clone(), thing);
                self.record(now_ms, replicant, Some(op), &local, Deed::Made);
                Outcome::Applied {
                    status: 201,
                    local: Some(local),
                    body: b"{}".to_vec(),
                }
            }
            Call::Run { op, local } => {
                self.run_operation(now_ms, replicant, op, local.as_deref(), rng)
            }
            Call::Settle {
                local,
                fields,
                unset,
            } => {
                if let Some(refused) = self
                    .refuse_on(now_ms, local)
                    .or_else(|| self.refuse(now_ms, fields))
                {
                    return refused;
                }
                let thing = self.things.get_mut(local).expect("it was looked up");
                thing.fields.extend(fields.clone());
                thing.fields.retain(|field, _| !unset.contains(field));
                self.record(now_ms, replicant, None, local, Deed::Settled);
                ok(200)
            }
            Call::Delete { local, only_if, .. } => {
                let Some(thing) = self.things.get(local) else {
                    return ok(404);
                };
                if only_if
                    .as_ref()
                    .is_some_and(|fields| !contains(&thing.fields, fields))
                {
                    return refused(Refusal::Verdict, 412);
                }
                self.things.remove(local);
                self.record(now_ms, replicant, None, local, Deed::Removed);
                ok(204)
            }
            Call::Probe { how, op, fields } => {
                let ours = |(id, thing): &(&String, &Thing)| match how {
                    DoubtBy::Mark => thing.mark == Some(op.id),
                    DoubtBy::Match => !mapped.contains(*id) && contains(&thing.fields, fields),
                    DoubtBy::Nothing => false,
                };
                let mut found = self.things.iter().filter(ours).map(|(id, _)| id.clone());
                Outcome::Found(match (found.next(), found.next()) {
                    (None, _) => Found::None,
                    (Some(id), None) => Found::Ours(id),
                    (Some(_), Some(_)) => Found::Several,
                })
            }
        }
    }

    fn run_operation(
        &mut self,
        now_ms: u64,
        replicant: ReplicantId,
        op: &Operation,
        local: Option<&str>,
        rng: &mut Rng,
    ) -> Outcome {
        let Some(local) = local else {
            // Queued: it names its own resource, if any.
            if let Some(refused) = self.refuse(now_ms, &op.fields) {
                return refused;
            }
            self.record(now_ms, replicant, Some(op), "", Deed::Ran);
            return ok(200);
        };
        if let Some(refused) = self
            .refuse_on(now_ms, local)
            .or_else(|| self.refuse(now_ms, &op.fields))
        {
            return refused;
        }
        let thing = self.things.get_mut(local).expect("it was looked up");
        if op.kind == Kind::Update {
            thing.fields.extend(op.fields.clone());
        } else if rng.chance(100_000) {
            thing.ready_ms = now_ms + rng.between(50, 500);
        }
        self.record(now_ms, replicant, Some(op), local, Deed::Ran);
        ok(200)
    }

    fn refuse(&self, now_ms: u64, fields: &Fields) -> Option<Outcome> {
        let bad = |value: &String| value == "bad" || Some(value) == self.picky.as_ref();
        if fields.values().any(bad) {
            return Some(refused(Refusal::Verdict, 400));
        }
        (self.full_until_ms > now_ms).then(|| refused(Refusal::NoRoom, 507))
    }

    fn refuse_on(&self, now_ms: u64, local: &str) -> Option<Outcome> {
        match self.things.get(local) {
            None => Some(refused(Refusal::Verdict, 404)),
            Some(thing) if thing.ready_ms > now_ms => Some(refused(Refusal::NotReady, 409)),
            Some(_) => None,
        }
    }

    fn mint(&mut self, rng: &mut Rng) -> String {
        self.minted += 1;
        if self.numbers {
            return self.minted.to_string();
        }
        let hex = format!("{:032x}", rng.wide());
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }

    fn record(
        &mut self,
        at_ms: u64,
        replicant: ReplicantId,
        op: Option<&Operation>,
        local: &str,
        deed: Deed,
    ) {
        let op = op.map(|op| (op.id, op.kind));
        self.done.push(Done {
            at_ms,
            replicant,
            op,
            local: local.to_string(),
            deed,
        });
    }
}

fn contains(whole: &Fields, part: &Fields) -> bool {
    part.iter()
        .all(|(field, value)| whole.get(field) == Some(value))
}

fn ok(status: u16) -> Outcome {
    Outcome::Applied {
        status,
        local: None,
        body: Vec::new(),
    }
}

fn refused(class: Refusal, status: u16) -> Outcome {
    Outcome::Refused {
        class,
        status,
        body: Vec::new(),
    }
}
