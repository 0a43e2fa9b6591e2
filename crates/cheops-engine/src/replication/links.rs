//! What sites tell each other about replicants: frames on a connection of their own, one way each.
//!
//! A frame may be lost, never repeated and never torn: what is not said is said again by the core.
//! So a queue that is full drops, and a link that is given up takes its queue along.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cheops_core::{Envelope, Event};
use cheops_model::{Mark, SiteName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::limits::{FRAME_BYTES_MAX, OUTLET_BYTES_MAX, WRITE_TIME_MAX};
use super::shard::{Inbox, Input};
use crate::mesh::Dialer;
use crate::picture::Picture;

/// Before each frame: its length, then the shard it is for.
const HEAD_BYTES: usize = 5;

/// To every peer, a queue and a task that empties it.
#[derive(Clone)]
pub(super) struct Outlets(Arc<Inner>);

struct Inner {
    dialer: Dialer,
    pictures: watch::Receiver<Arc<Picture>>,
    runtime: Handle,
    queues: Mutex<HashMap<SiteName, Queue>>,
}

#[derive(Clone)]
struct Queue {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    bytes: Arc<AtomicUsize>,
}

impl Outlets {
    pub(super) fn new(
        dialer: Dialer,
        pictures: watch::Receiver<Arc<Picture>>,
        runtime: Handle,
    ) -> Outlets {
        Outlets(Arc::new(Inner {
            dialer,
            pictures,
            runtime,
            queues: Mutex::default(),
        }))
    }

    /// Says it to that site's shard of the same number, or loses it.
    pub(super) fn send(&self, to: &SiteName, shard: u8, envelope: &Envelope) {
        if self.0.pictures.borrow().mark(to) != Mark::Connected {
            return;
        }
        let Some(frame) = frame(shard, envelope) else {
            return;
        };
        let queue = self.queue(to);
        let length = frame.len();
        if queue.bytes.load(Ordering::Relaxed) + length > OUTLET_BYTES_MAX {
            return;
        }
        queue.bytes.fetch_add(length, Ordering::Relaxed);
        // The task ends with the agent alone.
        let _ = queue.frames.send(frame);
    }

    fn queue(&self, to: &SiteName) -> Queue {
        let mut queues = self.0.queues.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(queue) = queues.get(to) {
            return queue.clone();
        }
        let (sender, frames) = mpsc::unbounded_channel();
        let queue = Queue {
            frames: sender,
            bytes: Arc::default(),
        };
        queues.insert(to.clone(), queue.clone());
        let outlet = Outlet {
            to: to.clone(),
            frames,
            bytes: queue.bytes.clone(),
            dialer: self.0.dialer.clone(),
            pictures: self.0.pictures.clone(),
        };
        self.0.runtime.spawn(outlet.run());
        queue
    }
}

fn frame(shard: u8, envelope: &Envelope) -> Option<Vec<u8>> {
    let mut frame = vec![0; HEAD_BYTES - 1];
    frame.push(shard);
    let mut frame = postcard::to_extend(envelope, frame).ok()?;
    let length = frame.len() - HEAD_BYTES;
    if length > FRAME_BYTES_MAX {
        tracing::error!(length, "a message about a replicant is too long to be sent");
        return None;
    }
    frame[..4].copy_from_slice(&(length as u32).to_be_bytes());
    Some(frame)
}

struct Outlet {
    to: SiteName,
    frames: mpsc::UnboundedReceiver<Vec<u8>>,
    bytes: Arc<AtomicUsize>,
    dialer: Dialer,
    pictures: watch::Receiver<Arc<Picture>>,
}

impl Outlet {
    async fn run(mut self) {
        loop {
            let Some(first) = self.frames.recv().await else {
                return;
            };
            self.bytes.fetch_sub(first.len(), Ordering::Relaxed);
            match self.dialer.dial_log(&self.to).await {
                Ok(stream) => {
                    let ended = self.speak(stream, first).await;
                    tracing::debug!(to = %self.to, ?ended, "a connection for logs ended");
                }
                Err(error) => tracing::debug!(to = %self.to, %error, "no connection for logs"),
            }
            // What waited was meant for the connection that is gone.
            while let Ok(frame) = self.frames.try_recv() {
                self.bytes.fetch_sub(frame.len(), Ordering::Relaxed);
            }
        }
    }

    async fn speak<S>(&mut self, stream: S, first: Vec<u8>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut reader, mut writer) = tokio::io::split(stream);
        write(&mut writer, &first).await?;
        let mut nothing = [0; 1];
        loop {
            let mut frames = tokio::select! {
                frame = self.frames.recv() => match frame {
                    Some(frame) => frame,
                    None => return Ok(()),
                },
                // The other side says nothing here: whatever comes is the end.
                _ = reader.read(&mut nothing) => return Err(io::ErrorKind::ConnectionReset.into()),
                () = given_up(&mut self.pictures, &self.to) => return Err(io::ErrorKind::TimedOut.into()),
            };
            // What has gathered goes out together.
            while frames.len() < FRAME_BYTES_MAX
                && let Ok(frame) = self.frames.try_recv()
            {
                frames.extend(frame);
            }
            self.bytes.fetch_sub(frames.len(), Ordering::Relaxed);
            tokio::select! {
                written = write(&mut writer, &frames) => written?,
                () = given_up(&mut self.pictures, &self.to) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(writer: &mut W, frames: &[u8]) -> io::Result<()> {
    let writing = async {
        writer.write_all(frames).await?;
        writer.flush().await
    };
    timeout(WRITE_TIME_MAX, writing).await?
}

pub(super) async fn given_up(pictures: &mut watch::Receiver<Arc<Picture>>, site: &SiteName) {
    let gone = |picture: &Arc<Picture>| picture.mark(site) != Mark::Connected;
    if pictures.wait_for(gone).await.is_err() {
        // The mesh has ended, and the agent with it.
        std::future::pending::<()>().await;
    }
}

/// Hears what a peer says until the link to it is given up: a path that is cut ends no connection.
pub(super) async fn hear<R>(
    peer: SiteName,
    stream: R,
    inboxes: Arc<[Inbox]>,
    pictures: &mut watch::Receiver<Arc<Picture>>,
) where
    R: AsyncRead + Unpin,
{
    // The peer may be here before our own link to it is up.
    let up = |picture: &Arc<Picture>| picture.mark(&peer) == Mark::Connected;
    let lost = async {
        if timeout(WRITE_TIME_MAX, pictures.wait_for(up)).await.is_ok() {
            given_up(pictures, &peer).await;
        }
    };
    tokio::select! {
        () = listen(peer.clone(), stream, inboxes) => (),
        () = lost => (),
    }
}

/// Reads what a peer says, until it ends or says what nobody understands.
async fn listen<R>(peer: SiteName, mut stream: R, inboxes: Arc<[Inbox]>)
where
    R: AsyncRead + Unpin,
{
    loop {
        let (shard, envelope) = match read(&mut stream).await {
            Ok(Some(read)) => read,
            Ok(None) => {
                tracing::warn!(%peer, "a message about replicants cannot be read; is its agent of another version?");
                return;
            }
            Err(fault) => {
                tracing::debug!(%peer, %fault, "a connection for logs ended");
                return;
            }
        };
        let Some(inbox) = inboxes.get(usize::from(shard)) else {
            tracing::warn!(%peer, shard, "a message for a shard that is not there");
            return;
        };
        let event = Event::Message {
            from: peer.clone(),
            envelope,
        };
        // If there is no room it is lost, like any message.
        let _ = inbox.offer(Input::Event(Box::new(event)));
    }
}

async fn read<R: AsyncRead + Unpin>(stream: &mut R) -> io::Result<Option<(u8, Envelope)>> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if length > FRAME_BYTES_MAX {
        return Ok(None);
    }
    // Read as it comes: a length alone reserves nothing.
    let mut body = Vec::with_capacity(length.min(64 << 10));
    let read = stream.take(length as u64).read_to_end(&mut body).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let envelope = postcard::take_from_bytes(&body);
    Ok(envelope
        .ok()
        .filter(|(_, left)| left.is_empty())
        .map(|(envelope, _)| (head[4], envelope)))
}

/// Tells the shards who comes into reach, who goes out of it, who was removed, and that this site
/// takes changes from elsewhere again.
pub(super) async fn follow(mut pictures: watch::Receiver<Arc<Picture>>, inboxes: Arc<[Inbox]>) {
    let mut told = Told::default();
    loop {
        let picture = pictures.borrow_and_update().clone();
        for event in told.news(&picture) {
            for inbox in inboxes.iter() {
                let _ = inbox.put(Input::Event(Box::new(event.clone())));
            }
        }
        if std::mem::replace(&mut told.held, picture.view.held) && !picture.view.held {
            for inbox in inboxes.iter() {
                let _ = inbox.put(Input::Release);
            }
        }
        if pictures.changed().await.is_err() {
            return;
        }
    }
}

/// What the shards know of other sites.
#[derive(Default)]
struct Told {
    up: BTreeSet<SiteName>,
    down: BTreeSet<SiteName>,
    removed: BTreeSet<SiteName>,
    /// Sites that are part of the mesh: a core may remember from before a restart that they were removed.
    members: BTreeSet<SiteName>,
    held: bool,
}

impl Told {
    /// What of a picture is new to them. Removals come first: nothing more is said to such a site.
    fn news(&mut self, picture: &Picture) -> Vec<Event> {
        let removed = &picture.view.removed;
        let mut news = Vec::new();
        for site in removed.difference(&self.removed) {
            self.members.remove(site);
            news.push(Event::Remove(site.clone()));
        }
        self.removed.clone_from(removed);
        let members = picture.view.sites.keys();
        for site in members.filter(|site| !removed.contains(*site)) {
            if self.members.insert(site.clone()) {
                news.push(Event::Readmit(site.clone()));
            }
            if *site == picture.here {
                continue;
            }
            if picture.mark(site) == Mark::Connected {
                self.down.remove(site);
                if self.up.insert(site.clone()) {
                    news.push(Event::Up(site.clone()));
                }
            } else {
                self.up.remove(site);
                if self.down.insert(site.clone()) {
                    news.push(Event::Down(site.clone()));
                }
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use cheops_core::Boot;

    use super::*;

    fn envelope(number: u64) -> Envelope {
        Envelope {
            from: Boot::default(),
            to: None,
            number,
            message: None,
        }
    }

    #[tokio::test]
    async fn frames_read_back_and_torn_ones_end_the_connection() {
        let mut bytes = frame(2, &envelope(7)).unwrap();
        bytes.extend(frame(0, &envelope(8)).unwrap());
        let mut stream = &bytes[..];
        assert_eq!(read(&mut stream).await.unwrap(), Some((2, envelope(7))));
        assert_eq!(read(&mut stream).await.unwrap(), Some((0, envelope(8))));
        assert!(read(&mut stream).await.is_err());

        let torn = &bytes[..bytes.len() - 1];
        let mut stream = torn;
        read(&mut stream).await.unwrap();
        assert!(read(&mut stream).await.is_err());
    }

    #[tokio::test]
    async fn a_length_or_a_content_that_cannot_be_is_refused() {
        let long = [0xff, 0xff, 0xff, 0xff, 0];
        assert_eq!(read(&mut &long[..]).await.unwrap(), None);
        let garbage = [0, 0, 0, 3, 0, 0xff, 0xff, 0xff];
        assert_eq!(read(&mut &garbage[..]).await.unwrap(), None);
    }
}
