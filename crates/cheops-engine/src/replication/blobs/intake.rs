//! A content that a client brings: written to disk as it comes, and handed on meanwhile to the service
//! that is asked whether it wants it. The service gets the end of it only when it is whole on the disk
//! and that is on record: until then it cannot have done anything with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cheops_blob::{BlobError, Pin, Reference, Upload};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use super::Blobs;
use super::limits::{HOLD_TIME, PIECES_MAX};

/// Why a content was not taken in. Nothing of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// The disk is full, or what contents may take of it.
    NoRoom,
    /// No content may be as long.
    TooLong,
    /// Too many come at once.
    Busy,
    /// The disk failed.
    Failed,
}

impl From<BlobError> for NotKept {
    fn from(fault: BlobError) -> NotKept {
        match fault {
            BlobError::Full => NotKept::NoRoom,
            BlobError::TooLong => NotKept::TooLong,
            BlobError::Damaged(_) | BlobError::Io(_) => NotKept::Failed,
        }
    }
}

/// What becomes of a content that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Fate {
    Coming,
    /// On disk, and on record.
    Whole,
    /// Its client has gone, or there was no room.
    Broken,
}

/// A piece on its way to the service.
pub(in super::super) enum Handed {
    Piece(Bytes),
    Last(Bytes),
}

/// A content that comes, as whoever hands it to a service sees it.
pub(in super::super) struct Coming {
    pieces: Option<mpsc::Receiver<Handed>>,
    fate: watch::Receiver<Fate>,
    /// If it was said.
    length: Option<u64>,
    bytes: Arc<AtomicU64>,
}

impl Coming {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The part of a [`Coming`] that one call takes.
pub(in super::super) struct Taken {
    pub(in super::super) pieces: mpsc::Receiver<Handed>,
    pub(in super::super) length: Option<u64>,
    fate: watch::Receiver<Fate>,
}

impl Taken {
    pub(in super::super) fn parts(self) -> (mpsc::Receiver<Handed>, Option<u64>, Ending) {
        (self.pieces, self.length, Ending(self.fate))
    }
}

/// To wait for the end of a content.
pub(in super::super) struct Ending(watch::Receiver<Fate>);

impl Ending {
    /// [`Fate::Whole`] or [`Fate::Broken`].
    pub(in super::super) async fn fate(mut self) -> Fate {
        let ended = self.0.wait_for(|fate| *fate != Fate::Coming).await;
        ended.map_or(Fate::Broken, |fate| *fate)
    }
}

/// What goes to the thread that writes.
enum Step {
    Piece(Bytes),
    End,
}

/// A content that a client brings. Dropped before it is whole, it leaves nothing.
pub struct Intake {
    blobs: Blobs,
    id: u128,
    steps: mpsc::Sender<Step>,
    kept: Option<oneshot::Receiver<Result<Pin, BlobError>>>,
    fate: watch::Sender<Fate>,
    go: Option<oneshot::Sender<()>>,
}

impl Blobs {
    /// Takes a content in; with its length if that was said.
    pub(in super::super) fn take_in(&self, length: Option<u64>) -> Result<Intake, NotKept> {
        let turn = self.0.uploading.clone().try_acquire_owned();
        let turn = turn.map_err(|_| NotKept::Busy)?;
        let upload = self.0.store.begin(length)?;
        self.mark_used();
        let (steps, steps_in) = mpsc::channel(PIECES_MAX);
        let (handed, pieces) = mpsc::channel(PIECES_MAX);
        let (kept_in, kept) = oneshot::channel();
        let (go, go_in) = oneshot::channel();
        let (fate, fate_in) = watch::channel(Fate::Coming);
        let id = rand::random();
        let bytes = Arc::new(AtomicU64::new(0));
        let coming = Coming {
            pieces: Some(pieces),
            fate: fate_in,
            length,
            bytes: bytes.clone(),
        };
        self.uploads().insert(id, coming);
        let writer = Writer {
            steps: steps_in,
            handed,
            go: go_in,
            bytes,
            _turn: turn,
        };
        self.runtime()
            .spawn_blocking(move || writer.run(upload, kept_in));
        Ok(Intake {
            blobs: self.clone(),
            id,
            steps,
            kept: Some(kept),
            fate,
            go: Some(go),
        })
    }

    pub(in super::super) fn hold(&self, intake: Intake) {
        self.runtime().spawn(async move {
            tokio::time::sleep(HOLD_TIME).await;
            drop(intake);
        });
    }

    /// What comes in under that number, for the one call that hands it on.
    pub(in super::super) fn take_coming(&self, id: u128) -> Option<Taken> {
        let mut uploads = self.uploads();
        let coming = uploads.get_mut(&id)?;
        Some(Taken {
            pieces: coming.pieces.take()?,
            length: coming.length,
            fate: coming.fate.clone(),
        })
    }
}

impl Intake {
    /// What stands for it in an operation until it is whole.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// The next piece; waits while the disk or the service is behind.
    pub async fn push(&mut self, piece: Bytes) -> Result<(), NotKept> {
        match self.steps.send(Step::Piece(piece)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.verdict().await.err().unwrap_or(NotKept::Failed)),
        }
    }

    /// Ends when it cannot be kept, and says why. May be given up and waited for again.
    pub async fn broken(&mut self) -> NotKept {
        let ended = match &mut self.kept {
            Some(kept) => kept.await,
            None => return NotKept::Failed,
        };
        self.kept = None;
        match ended {
            Ok(Err(fault)) => fault.into(),
            Ok(Ok(_)) | Err(_) => NotKept::Failed,
        }
    }

    /// To say later that no service takes it.
    pub fn valve(&self) -> Valve {
        Valve(self.blobs.clone(), self.id)
    }

    /// All of it has come. When this returns `Ok`, it survives a power cut; it is not collected while
    /// this value is held.
    pub async fn finish(&mut self) -> Result<Reference, NotKept> {
        // If the thread has ended, it says why.
        let _ = self.steps.send(Step::End).await;
        self.verdict().await
    }

    /// It is on record: the service may have the end of it.
    pub fn release(&mut self) {
        self.fate.send_replace(Fate::Whole);
        if let Some(go) = self.go.take() {
            let _ = go.send(());
        }
    }

    async fn verdict(&mut self) -> Result<Reference, NotKept> {
        let kept = match self.kept.take() {
            Some(kept) => kept.await,
            None => return Err(NotKept::Failed),
        };
        let pin = kept.map_err(|_| NotKept::Failed)??;
        let of = pin.reference();
        // The operation that names it is on disk, or never will be, before this value goes.
        self.pin_until_dropped(pin);
        Ok(of)
    }

    fn pin_until_dropped(&mut self, pin: Pin) {
        let (held, kept) = oneshot::channel();
        let _ = held.send(Ok(pin));
        self.kept = Some(kept);
    }
}

/// Between a content that comes and the service that is asked about it.
pub struct Valve(Blobs, u128);

impl Valve {
    /// No service takes it now: it goes to the disk alone.
    pub fn close(&self) {
        if let Some(coming) = self.0.uploads().get_mut(&self.1) {
            coming.pieces = None;
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.fate.send_if_modified(|fate| {
            let coming = *fate == Fate::Coming;
            if coming {
                *fate = Fate::Broken;
            }
            coming
        });
        self.blobs.uploads().remove(&self.id);
        self.blobs.0.nudge.notify_one();
    }
}

struct Writer {
    steps: mpsc::Receiver<Step>,
    handed: mpsc::Sender<Handed>,
    go: oneshot::Receiver<()>,
    bytes: Arc<AtomicU64>,
    _turn: OwnedSemaphorePermit,
}

impl Writer {
    fn run(mut self, mut upload: Upload, kept: oneshot::Sender<Result<Pin, BlobError>>) {
        // One piece is held back: only when the next one is there is it known not to be the last.
        let mut held: Option<Bytes> = None;
        loop {
            match self.steps.blocking_recv() {
                Some(Step::Piece(piece)) => {
                    if let Err(fault) = upload.write(&piece) {
                        drop(upload);
                        let _ = kept.send(Err(fault));
                        return;
                    }
                    self.bytes.store(upload.bytes(), Ordering::Relaxed);
                    if let Some(before) = held.replace(piece) {
                        // Nobody takes it if the service was not asked, or has answered.
                        let _ = self.handed.blocking_send(Handed::Piece(before));
                    }
                }
                Some(Step::End) => break,
                None => return,
            }
        }
        let finished = upload.finish();
        let whole = finished.is_ok();
        let told = kept.send(finished).is_ok();
        if whole && told && self.go.blocking_recv().is_ok() {
            let last = held.unwrap_or_default();
            let _ = self.handed.blocking_send(Handed::Last(last));
        }
    }
}
