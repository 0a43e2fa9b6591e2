//! Pipes of the kernel, through which long bodies pass without being copied: from a service's socket
//! into one, and from there to the client's.
//!
//! A connection has one only while there is something in it. So a slow service holds none, and a slow
//! client one, which is memory that no process is seen to hold: a thread has a few, and where there
//! is none left, bodies are copied.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::io::retry_on_intr;
use rustix::pipe::{self, PipeFlags, SpliceFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::limits;

/// The pipes of one thread.
#[derive(Default)]
pub(crate) struct Pipes {
    /// Empty, all of them.
    idle: RefCell<Vec<Rc<Ends>>>,
    taken: Cell<usize>,
}

struct Ends {
    read: OwnedFd,
    write: OwnedFd,
}

impl Ends {
    /// `None` if there is none to be had, or only a tiny one: a user has so much of them.
    fn open() -> Option<Ends> {
        let (read, write) = pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        let grown = pipe::fcntl_setpipe_size(&write, limits::PIPE_BYTES);
        let room = grown.or_else(|_| pipe::fcntl_getpipe_size(&write)).ok()?;
        (room >= limits::PIPED_BYTES_MIN).then_some(Ends { read, write })
    }
}

impl Pipes {
    /// An empty one, unless all are taken.
    pub(super) fn take(self: &Rc<Pipes>) -> Option<Pipe> {
        let taken = self.taken.get();
        if taken >= limits::PIPES_MAX {
            return None;
        }
        let idle = self.idle.borrow_mut().pop();
        let ends = idle.or_else(|| Ends::open().map(Rc::new))?;
        self.taken.set(taken + 1);
        Some(Pipe {
            pipes: self.clone(),
            ends,
            held: 0,
        })
    }
}

/// One that is taken, until it is dropped.
pub(super) struct Pipe {
    pipes: Rc<Pipes>,
    ends: Rc<Ends>,
    /// Bytes in it.
    held: usize,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.pipes.taken.set(self.pipes.taken.get() - 1);
        // What is left of one body must not get into the next.
        if self.held == 0 {
            self.pipes.idle.borrow_mut().push(self.ends.clone());
        }
    }
}

impl Pipe {
    /// Takes what has come, and at most `most`; nothing at its end. A fault takes nothing either.
    pub(super) fn poll_fill(
        &mut self,
        from: &TcpStream,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        // Else "would block" could mean that the pipe is full.
        assert_eq!(self.held, 0, "a pipe is filled when it is empty");
        let most = most.min(limits::PIPE_BYTES);
        loop {
            ready!(from.poll_read_ready(cx))?;
            let filled = from.try_io(Interest::READABLE, || splice(from, &self.ends.write, most));
            match filled {
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => (),
                Err(fault) => return Poll::Ready(Err(fault)),
                Ok(filled) => {
                    self.held = filled;
                    return Poll::Ready(Ok(filled));
                }
            }
        }
    }

    /// Gives all that is in it.
    pub(super) fn poll_drain(
        &mut self,
        to: &TcpStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.held > 0 {
            ready!(to.poll_write_ready(cx))?;
            let drained = to.try_io(Interest::WRITABLE, || {
                splice(&self.ends.read, to, self.held)
            });
            match drained {
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => (),
                Err(fault) => return Poll::Ready(Err(fault)),
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(drained) => self.held -= drained,
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn splice(from: impl AsFd, to: impl AsFd, most: usize) -> io::Result<usize> {
    let (from, to) = (from.as_fd(), to.as_fd());
    let moved = retry_on_intr(|| pipe::splice(from, None, to, None, most, SpliceFlags::NONBLOCK));
    Ok(moved?)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Both ends of a connection.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    async fn fill(pipe: &mut Pipe, from: &TcpStream, most: usize) -> io::Result<usize> {
        poll_fn(|cx| pipe.poll_fill(from, most, cx)).await
    }

    #[tokio::test]
    async fn what_comes_goes_on_in_order_and_no_more_of_it_than_asked() {
        let (mut service, from) = connection().await;
        let (to, mut client) = connection().await;
        let pipes = Rc::<Pipes>::default();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let asked = sent.len() - 7;
        let passing = async {
            let mut left = asked;
            while left > 0 {
                let mut pipe = pipes.take().unwrap();
                left -= fill(&mut pipe, &from, left).await.unwrap();
                poll_fn(|cx| pipe.poll_drain(&to, cx)).await.unwrap();
            }
        };
        let mut heard = vec![0; asked];
        let (written, (), read) = tokio::join!(
            service.write_all(&sent),
            passing,
            client.read_exact(&mut heard)
        );
        written.unwrap();
        read.unwrap();
        assert!(heard == sent[..asked]);
        assert_eq!((pipes.taken.get(), pipes.idle.borrow().len()), (0, 1));
        drop(service);
        let mut pipe = pipes.take().unwrap();
        assert_eq!(fill(&mut pipe, &from, 9).await.unwrap(), 7, "the rest");
        poll_fn(|cx| pipe.poll_drain(&to, cx)).await.unwrap();
        assert_eq!(fill(&mut pipe, &from, 9).await.unwrap(), 0, "the end");
    }

    #[tokio::test]
    async fn a_full_client_is_waited_for_and_one_that_has_gone_is_not() {
        let (mut service, from) = connection().await;
        let (to, client) = connection().await;
        let pipes = Rc::<Pipes>::default();
        let mut pipe = pipes.take().unwrap();
        let piece = vec![1; 64 * 1024];
        let stuck = loop {
            service.write_all(&piece).await.unwrap();
            fill(&mut pipe, &from, piece.len()).await.unwrap();
            let drained = poll_fn(|cx| Poll::Ready(pipe.poll_drain(&to, cx))).await;
            if drained.is_pending() {
                break pipe;
            }
        };
        drop(client);
        let mut pipe = stuck;
        let drained = poll_fn(|cx| pipe.poll_drain(&to, cx)).await;
        assert!(drained.is_err());
    }

    #[tokio::test]
    async fn so_many_are_taken_and_only_empty_ones_are_used_again() {
        let pipes = Rc::<Pipes>::default();
        let mut taken: Vec<Pipe> = std::iter::from_fn(|| pipes.take()).collect();
        assert_eq!(taken.len(), limits::PIPES_MAX);
        let (mut service, from) = connection().await;
        service.write_all(b"left").await.unwrap();
        assert_eq!(fill(&mut taken[0], &from, 9).await.unwrap(), 4);
        drop(taken);
        assert_eq!(pipes.idle.borrow().len(), limits::PIPES_MAX - 1);
        let again: Vec<Pipe> = std::iter::from_fn(|| pipes.take()).collect();
        assert_eq!(again.len(), limits::PIPES_MAX);
    }

    #[tokio::test]
    async fn a_service_that_breaks_off_fills_nothing() {
        let (service, from) = connection().await;
        let pipes = Rc::<Pipes>::default();
        let mut pipe = pipes.take().unwrap();
        service.set_zero_linger().unwrap();
        drop(service);
        assert!(fill(&mut pipe, &from, 9).await.is_err());
        assert_eq!(pipe.held, 0);
    }
}
