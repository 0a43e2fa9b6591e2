//! What happens at this site, told as it happens: the source of `GET /v1/events`.
//!
//! Any part may publish and any thread may listen. A listener that is too slow loses the oldest
//! notices and is told how many; nobody waits for it. The last few are kept for whoever comes back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::limits::{NOTICES_KEPT, NOTICES_WAITING_MAX};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Grows by one with each; starts anew with the agent.
    pub id: u64,
    /// When, by this site's clock.
    pub time: SystemTime,
    /// What kind of thing, in kebab case: `site-mark`, `clock-jumped`, …
    pub kind: &'static str,
    /// A JSON object.
    pub body: Value,
}

/// Where notices are published and listened to. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bus(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    next_id: u64,
    kept: VecDeque<Arc<Notice>>,
    /// Gone when the agent stops, and every listener with it.
    sender: Option<broadcast::Sender<Arc<Notice>>>,
}

/// One who listens.
#[derive(Debug)]
pub struct Listener {
    /// Notices from before, still to be told.
    earlier: VecDeque<Arc<Notice>>,
    receiver: Option<broadcast::Receiver<Arc<Notice>>>,
}

/// What a listener gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The next notice.
    Notice(Arc<Notice>),
    /// That many were lost, because they were not taken in time.
    Missed(u64),
}

impl Default for Bus {
    fn default() -> Bus {
        Bus::new()
    }
}

impl Bus {
    /// A bus on which nothing has happened.
    pub fn new() -> Bus {
        Bus(Arc::new(Mutex::new(State {
            next_id: 1,
            kept: VecDeque::new(),
            sender: Some(broadcast::Sender::new(NOTICES_WAITING_MAX)),
        })))
    }

    /// Tells everybody who listens. `body` is to be a JSON object; never waits.
    pub fn publish(&self, kind: &'static str, body: &impl Serialize) {
        let body = serde_json::to_value(body).unwrap_or_default();
        let mut state = self.state();
        let notice = Arc::new(Notice {
            id: state.next_id,
            time: SystemTime::now(),
            kind,
            body,
        });
        state.next_id += 1;
        if state.kept.len() == NOTICES_KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(notice.clone());
        if let Some(sender) = &state.sender {
            // Nobody listening is no fault.
            let _ = sender.send(notice);
        }
    }

    /// Listens from now on; with `after`, from the notice after that one, if it is still kept.
    pub fn listen(&self, after: Option<u64>) -> Listener {
        let state = self.state();
        let missed = |notice: &&Arc<Notice>| after.is_some_and(|after| notice.id > after);
        Listener {
            earlier: state.kept.iter().filter(missed).cloned().collect(),
            receiver: state.sender.as_ref().map(broadcast::Sender::subscribe),
        }
    }

    /// Ends every listener, now and later: the agent stops.
    pub fn close(&self) {
        self.state().sender = None;
    }

    /// A panic while a notice was being put in leaves the queue usable.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// The next thing; none when the agent stops.
    pub async fn next(&mut self) -> Option<Heard> {
        if let Some(notice) = self.earlier.pop_front() {
            return Some(Heard::Notice(notice));
        }
        match self.receiver.as_mut()?.recv().await {
            Ok(notice) => Some(Heard::Notice(notice)),
            Err(RecvError::Lagged(count)) => Some(Heard::Missed(count)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn numbers(listener: &mut Listener, count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        for _ in 0..count {
            match listener.next().await {
                Some(Heard::Notice(notice)) => numbers.push(notice.id),
                other => panic!("{other:?}"),
            }
        }
        numbers
    }

    #[tokio::test]
    async fn a_listener_gets_what_comes_and_on_return_what_it_missed() {
        let bus = Bus::new();
        let mut listener = bus.listen(None);
        for n in 0..3 {
            bus.publish("test", &json!({ "n": n }));
        }
        assert_eq!(numbers(&mut listener, 3).await, [1, 2, 3]);
        let mut back = bus.listen(Some(1));
        bus.publish("test", &json!({}));
        assert_eq!(numbers(&mut back, 3).await, [2, 3, 4]);
        bus.close();
        assert_eq!(back.next().await, None);
        assert_eq!(bus.listen(None).next().await, None);
    }

    #[tokio::test]
    async fn a_slow_listener_is_told_how_much_it_lost() {
        let bus = Bus::new();
        let mut listener = bus.listen(None);
        for _ in 0..NOTICES_WAITING_MAX + 5 {
            bus.publish("test", &json!({}));
        }
        assert_eq!(listener.next().await, Some(Heard::Missed(5)));
        assert_eq!(numbers(&mut listener, 1).await, [6]);
    }
}
