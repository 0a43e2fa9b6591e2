//! What a host asks for comes about: messages on their way, calls at its service, answers.

use crate::world::{Happening, SETTLE_MS, World, name_of};
use cheops_core::{Call, CallId, Effect, Envelope, Message, Outcome, ReplicantId};
use std::collections::BTreeSet;

impl World {
    pub(crate) fn effect(&mut self, host: usize, effect: Effect) {
        match effect {
            Effect::Send { to, envelope } => {
                let to = (0..self.settings.sites).find(|index| name_of(index + 1) == to);
                if let Some(to) = to {
                    self.note_asked(to, &envelope);
                    self.post(host, to, envelope);
                }
            }
            Effect::Call {
                id,
                replicant,
                service: _,
                call,
            } => {
                self.note_call(host, replicant, &call);
                let (at_ms, run) = (
                    self.now_ms + self.rng.between(1, self.settings.slow_ms),
                    self.hosts[host].run,
                );
                self.tell(|world| {
                    format!(
                        "{} calls {id:?}: {}",
                        world.hosts[host].name,
                        crate::trace::call(&call)
                    )
                });
                self.at(
                    at_ms,
                    Happening::Arrive {
                        host,
                        run,
                        id,
                        replicant,
                        call,
                    },
                );
            }
            Effect::Answer { client, answer } => {
                self.tell(|world| {
                    format!("{} answers {client:?}: {answer:?}", world.hosts[host].name)
                });
                if !self.canceller_hears(host, client, &answer) {
                    self.client_hears(client, answer);
                }
            }
            Effect::Wake { at_ms } => {
                let here = &self.hosts[host];
                let run = here.run;
                // From the host's clock to the world's, never too early.
                let elapsed = at_ms.saturating_sub(here.ahead_ms);
                let at_ms = elapsed
                    .saturating_mul(1_000)
                    .div_ceil(1_000 + here.fast)
                    .saturating_add(1);
                self.at(at_ms, Happening::Wake { host, run });
            }
        }
    }

    pub(crate) fn post(&mut self, from: usize, to: usize, envelope: Envelope) {
        let (copies, mishap) =
            self.network
                .copies(from, to, self.hostile, &self.settings, &mut self.rng);
        self.counts.mishaps += u64::from(mishap);
        for _ in 0..copies {
            let (settings, rng) = (&self.settings, &mut self.rng);
            let at_ms =
                self.network
                    .arrival_ms(self.now_ms, (from, to), self.hostile, settings, rng);
            let what = Happening::Deliver {
                to,
                from,
                envelope: envelope.clone(),
            };
            self.at(at_ms, what);
        }
    }

    /// Who was asked to order what, and under whom.
    fn note_asked(&mut self, to: usize, envelope: &Envelope) {
        let (history, now_ms) = (&mut self.history, self.now_ms);
        match &envelope.message {
            Some(Message::Submit { submission, epoch }) => match epoch {
                Some(epoch) => _ = history.asked.insert((submission.op.id, epoch.clone())),
                None => _ = history.brought.insert((to, submission.op.id), now_ms),
            },
            Some(Message::Append { header, .. }) => {
                let reign = (header.id, header.epoch.clone());
                history.reigns.entry(reign).or_insert(now_ms);
            }
            _ => (),
        }
    }

    pub(crate) fn note_call(&mut self, host: usize, replicant: ReplicantId, call: &Call) {
        let Call::Run { op, .. } = call else { return };
        let Some(chain) = self.history.chains.get(&(host, replicant)) else {
            return;
        };
        let at = chain.iter().find(
            |(_, (_, body))| matches!(body, cheops_core::eventual::Body::Run(o) if o.id == op.id),
        );
        if let Some((index, (epoch, _))) = at {
            let disk = self.hosts[host].incarnation;
            let called = (host, disk, replicant, epoch.clone(), *index);
            self.history.called.push(called);
        }
    }

    pub(crate) fn arrive(
        &mut self,
        host: usize,
        run: u64,
        id: CallId,
        replicant: ReplicantId,
        call: Call,
    ) {
        let mapped = self.mapped(host);
        let now_ms = self.now_ms;
        let restored = self
            .history
            .restores
            .iter()
            .any(|restore| restore.host == host);
        if let (Call::Create { op, .. } | Call::Run { op, .. }, true) =
            (&call, restored && self.hosts[host].run != run)
        {
            // Done for a disk that is no more.
            self.history.lost.insert((host, op.id));
        }
        let flaky = self.hosts[host].service.flaky;
        if matches!(call, Call::Create { .. }) && self.rng.chance(flaky / 2) {
            // The agent gives up; the service does it later, within what is known of it.
            let late_ms = self.now_ms + self.rng.between(1, SETTLE_MS * 3 / 2);
            let disk = self.hosts[host].incarnation;
            self.at(
                late_ms,
                Happening::Linger {
                    host,
                    disk,
                    replicant,
                    call,
                },
            );
            self.counts.failures += 1;
            let outcome = Outcome::Unknown;
            return self.at(
                self.now_ms + 1,
                Happening::Return {
                    host,
                    run,
                    id,
                    outcome,
                },
            );
        }
        let one = &mut self.hosts[host];
        let before = one.service.done.len();
        let outcome = one
            .service
            .run(now_ms, replicant, &call, &mapped, &mut self.rng);
        let done = one.service.done.len() > before;
        self.counts.failures += u64::from(matches!(outcome, Outcome::Unknown | Outcome::NotSent));
        if done {
            self.tell(|world| {
                format!(
                    "{} service did {}",
                    world.hosts[host].name,
                    crate::trace::call(&call)
                )
            });
        }
        let at_ms = self.now_ms + self.rng.between(1, self.settings.slow_ms);
        self.at(
            at_ms,
            Happening::Return {
                host,
                run,
                id,
                outcome,
            },
        );
    }

    /// The service does what nobody waits for any more.
    pub(crate) fn linger(&mut self, of: (usize, u64), replicant: ReplicantId, call: &Call) {
        let (host, disk) = of;
        if let (Call::Create { op, .. }, true) = (call, self.hosts[host].incarnation != disk) {
            // Done for a disk that is no more.
            self.history.lost.insert((host, op.id));
        }
        let (mapped, now_ms) = (self.mapped(host), self.now_ms);
        self.tell(|world| {
            format!(
                "{} service at last: {}",
                world.hosts[host].name,
                crate::trace::call(call)
            )
        });
        self.hosts[host]
            .service
            .execute(now_ms, replicant, call, &mapped, &mut self.rng);
    }

    pub(crate) fn mapped(&self, host: usize) -> BTreeSet<String> {
        let Some(core) = &self.hosts[host].core else {
            return BTreeSet::new();
        };
        let name = &self.hosts[host].name;
        core.replicants()
            .filter_map(|view| view.rows.get(name)?.local.clone())
            .collect()
    }
}
