//! What waits for the writer: bounded in number and in bytes, taken in groups.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::limits::{GROUP_BATCHES_MAX, GROUP_BYTES_MAX, QUEUE_BATCHES_MAX, QUEUE_BYTES_MAX};
use crate::store::Done;
use crate::{Batch, Table};

/// Something for the writer to do.
pub(super) enum Job {
    Store(Batch, Done),
    Chore(Chore, Done),
}

/// What is done alone, between two groups.
pub(super) enum Chore {
    Quarantine(Table, Vec<u8>),
    /// Let the database grow no further than this many bytes.
    Bound(u64),
}

/// What the writer does next.
pub(super) enum Work {
    Group(Vec<(Batch, Done)>),
    Chore(Chore, Done),
    /// Nothing came within the time given.
    Idle,
    /// Nothing will come any more.
    End,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    drained: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    /// Adds `job`, once there is room. Given back if the writer has ended.
    pub(super) fn add(&self, job: Job) -> Result<(), Job> {
        let mut waiting = self.lock();
        while waiting.is_full() && !waiting.closed {
            waiting = self.drained.wait(waiting).expect(UNBROKEN);
        }
        if waiting.closed {
            return Err(job);
        }
        waiting.bytes += job.bytes();
        waiting.jobs.push_back(job);
        self.filled.notify_one();
        Ok(())
    }

    /// Takes what is next: as many batches as came together, or one chore.
    pub(super) fn take(&self, patience: Option<Duration>) -> Work {
        let mut waiting = self.lock();
        while waiting.jobs.is_empty() && !waiting.closed {
            let Some(patience) = patience else {
                waiting = self.filled.wait(waiting).expect(UNBROKEN);
                continue;
            };
            let (woken, late) = self.filled.wait_timeout(waiting, patience).expect(UNBROKEN);
            waiting = woken;
            if late.timed_out() && waiting.jobs.is_empty() {
                return Work::Idle;
            }
        }
        let work = waiting.take();
        self.drained.notify_all();
        work
    }

    /// Takes nothing more in; what is in is still given out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }

    /// The writer has ended: whoever still waits is let go, unanswered.
    pub(super) fn abandon(&self) {
        self.close();
        let left = std::mem::take(&mut self.lock().jobs);
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect(UNBROKEN)
    }
}

const UNBROKEN: &str = "nothing panics while it holds the queue";

impl Waiting {
    fn is_full(&self) -> bool {
        self.jobs.len() >= QUEUE_BATCHES_MAX || self.bytes >= QUEUE_BYTES_MAX
    }

    fn take(&mut self) -> Work {
        let mut group = Vec::new();
        let mut bytes = 0;
        while group.len() < GROUP_BATCHES_MAX && bytes < GROUP_BYTES_MAX {
            match self.jobs.pop_front() {
                Some(Job::Store(batch, done)) => {
                    bytes += batch.bytes();
                    group.push((batch, done));
                }
                Some(Job::Chore(chore, done)) if group.is_empty() => {
                    return Work::Chore(chore, done);
                }
                Some(chore) => {
                    self.jobs.push_front(chore);
                    break;
                }
                None => break,
            }
        }
        self.bytes -= bytes;
        if group.is_empty() {
            return Work::End;
        }
        Work::Group(group)
    }
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Job::Store(batch, _) => batch.bytes(),
            Job::Chore(..) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(bytes: usize) -> Job {
        let mut batch = Batch::new();
        batch.put(Table::Log, b"", vec![0; bytes]).unwrap();
        Job::Store(batch, Box::new(drop))
    }

    fn sizes(queue: &Queue) -> Vec<usize> {
        let mut sizes = Vec::new();
        loop {
            match queue.take(Some(Duration::ZERO)) {
                Work::Group(group) => sizes.push(group.len()),
                Work::Chore(..) => sizes.push(0),
                Work::Idle | Work::End => return sizes,
            }
        }
    }

    #[test]
    fn what_gathered_becomes_one_group_within_its_bounds() {
        let queue = Queue::default();
        let add = |job| assert!(queue.add(job).is_ok());
        (0..GROUP_BATCHES_MAX + 1).for_each(|_| add(job(1)));
        assert_eq!(sizes(&queue), [GROUP_BATCHES_MAX, 1]);
        (0..17).for_each(|_| add(job(1 << 20)));
        assert_eq!(sizes(&queue), [GROUP_BYTES_MAX >> 20, 1]);
    }

    #[test]
    fn a_chore_is_done_alone_and_in_its_turn() {
        let queue = Queue::default();
        let add = |job| assert!(queue.add(job).is_ok());
        add(job(1));
        add(Job::Chore(Chore::Bound(1), Box::new(drop)));
        add(job(1));
        add(job(1));
        assert_eq!(sizes(&queue), [1, 0, 2]);
    }

    #[test]
    fn whoever_finds_it_full_waits_and_goes_on_when_it_is_drained() {
        let queue = Queue::default();
        for _ in 0..QUEUE_BATCHES_MAX {
            assert!(queue.add(job(1)).is_ok());
        }
        std::thread::scope(|scope| {
            let late = scope.spawn(|| queue.add(job(1)).is_ok());
            assert!(matches!(queue.take(None), Work::Group(_)));
            assert!(late.join().unwrap());
        });
    }

    #[test]
    fn a_closed_queue_gives_out_what_it_has_and_takes_nothing_in() {
        let queue = Queue::default();
        assert!(queue.add(job(1)).is_ok());
        queue.close();
        assert!(queue.add(job(1)).is_err());
        assert!(matches!(queue.take(None), Work::Group(_)));
        assert!(matches!(queue.take(None), Work::End));
    }
}
