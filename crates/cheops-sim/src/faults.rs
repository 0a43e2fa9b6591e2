//! What goes wrong, and the end of it.

use std::collections::BTreeSet;

use cheops_core::{Event, OperationId};

use crate::history::Restore;
use crate::world::{Backup, Happening, World};

impl World {
    /// Something breaks, or is mended for a while.
    pub fn fault(&mut self) {
        if !self.hostile {
            return;
        }
        let host = self.rng.below(self.hosts.len());
        let settings = self.settings.clone();
        let lasts = self.rng.between(200, 8_000);
        let until_ms = self.now_ms + lasts;
        match self.rng.below(12) {
            0..=4 if settings.apart => {
                self.counts.cuts += 1;
                self.network.halve();
                self.tell(|_| "the network is in two halves".into());
            }
            0..=2 if settings.loss > 0 => {
                self.counts.cuts += 1;
                self.network.tear(&mut self.rng);
                self.tell(|_| "the network is torn".into());
            }
            3 | 4 => {
                self.network.heal();
                self.tell(|_| "the network is whole".into());
            }
            5 if settings.flaky > 0 => {
                self.counts.outages += 1;
                self.hosts[host].service.down_until_ms = until_ms;
            }
            6 if settings.flaky > 0 => {
                self.counts.outages += 1;
                self.hosts[host].service.full_until_ms = until_ms;
            }
            7 => {
                self.counts.outages += u64::from(settings.flaky > 0);
                self.hosts[host].service.flaky = settings.flaky;
            }
            8 if settings.crash > 0 && self.hosts[host].core.is_some() => self.crash(host),
            9 if settings.crash > 0 => {
                self.counts.freezes += 1;
                self.hosts[host].frozen_until_ms = until_ms;
                self.history.disturbed.insert(host);
                self.tell(|world| {
                    format!(
                        "{} stands still until {until_ms} ms",
                        world.hosts[host].name
                    )
                });
            }
            10 => self.tell_reach(),
            _ => (),
        }
        if self.rng.chance(settings.promote) {
            self.promote_someone();
        }
        if self.rng.chance(200_000) && settings.restore > 0 {
            self.back_up(host);
        }
        if self.rng.chance(settings.restore) {
            self.restore(host);
        }
        let pause = self.rng.between(10, 2 * settings.fault_every_ms);
        self.at(self.now_ms + pause, Happening::Fault);
    }

    /// Agents hear from their links who is in reach; not always in time.
    fn tell_reach(&mut self) {
        for host in 0..self.hosts.len() {
            for other in 0..self.hosts.len() {
                let name = self.hosts[other].name.clone();
                let cut = self.network.is_cut(host, other) || self.hosts[other].core.is_none();
                if host != other {
                    self.step(
                        host,
                        if cut {
                            Event::Down(name)
                        } else {
                            Event::Up(name)
                        },
                    );
                }
            }
        }
    }

    fn back_up(&mut self, host: usize) {
        let chains = self
            .history
            .chains
            .iter()
            .filter(|((of, _), _)| *of == host);
        let chains = chains
            .map(|((_, id), chain)| (*id, chain.clone()))
            .collect();
        let taken = self.history.outboxes.iter().filter(|(of, _)| *of == host);
        let outbox = taken.map(|(_, op)| *op).collect();
        let disk = self.hosts[host].disk.back_up();
        self.hosts[host].backup = Some(Backup {
            at_ms: self.now_ms,
            disk,
            chains,
            outbox,
        });
    }

    fn restore(&mut self, host: usize) {
        let Some(backup) = self.hosts[host].backup.take() else {
            return;
        };
        if self.hosts[host].core.is_some() {
            self.crash(host);
        }
        self.counts.restores += 1;
        self.history.disturbed.insert(host);
        self.tell(|world| {
            format!(
                "the disk of {} is put back to {} ms",
                world.hosts[host].name, backup.at_ms
            )
        });
        let before = self.kept();
        self.history.chains.retain(|(of, _), _| *of != host);
        self.history.seen.retain(|(of, _)| *of != host);
        for (id, chain) in backup.chains {
            self.history.chains.insert((host, id), chain);
        }
        self.history.outboxes.retain(|(of, _)| *of != host);
        let taken = backup.outbox.into_iter().map(|op| (host, op));
        self.history.outboxes.extend(taken);
        let kept = self.kept();
        let gone = before.difference(&kept).copied();
        self.history.gone.extend(gone);
        self.history.restores.push(Restore {
            host,
            backup_ms: backup.at_ms,
            at_ms: self.now_ms,
        });
        self.note_lost();
        let one = &mut self.hosts[host];
        one.disk.put_back(&backup.disk);
        one.incarnation += 1;
    }

    /// What stands in a log, or waits to be brought to one, on any disk.
    fn kept(&self) -> BTreeSet<OperationId> {
        let chains = self.history.chains.values().flatten();
        let logged = chains.map(|(_, (_, body))| body.operation());
        let taken = self.history.outboxes.iter().map(|(_, op)| *op);
        logged.chain(taken).collect()
    }

    /// What services did and no disk knows of any more.
    fn note_lost(&mut self) {
        let known: BTreeSet<OperationId> = self
            .history
            .chains
            .values()
            .flatten()
            .map(|(_, (_, body))| body.operation())
            .collect();
        for restore in self.history.restores.clone() {
            let done = self.hosts[restore.host].service.done.iter();
            let since =
                done.filter(|done| done.at_ms >= restore.backup_ms && done.at_ms <= restore.at_ms);
            for (op, _) in since.filter_map(|done| done.op) {
                if !known.contains(&op) {
                    self.history.lost.insert((restore.host, op));
                }
            }
        }
    }

    /// Faults off: everything runs and is connected.
    pub fn heal(&mut self) {
        self.hostile = false;
        self.network.heal();
        let now_ms = self.now_ms;
        for host in &mut self.hosts {
            host.service.down_until_ms = now_ms;
            host.service.full_until_ms = now_ms;
            host.service.flaky = 0;
        }
        for host in 0..self.hosts.len() {
            self.start(host);
        }
        self.tell(|_| "faults off".into());
        self.tell_reach();
    }
}
