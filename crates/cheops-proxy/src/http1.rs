//! HTTP/1 with a client, on a connection that holds next to nothing while the client asks nothing.
//!
//! The HTTP library keeps its buffers, some 16 KB, for as long as it has a connection. So it has one
//! only while something is asked that does not go the short way (`express`), and what has been quiet
//! for a while is taken back from it.

use std::pin::Pin;
use std::rc::Rc;

use hyper::server::conn::http1::{Builder, UpgradeableConnection};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use crate::entry::{self, Connection};
use crate::express::{self, Next};
use crate::intake::Intake;
use crate::limits;
use crate::sweep::Outcome;
use crate::transport::Transport;

/// Serves a client until either ends it.
pub(crate) async fn speak<S: Transport>(connection: Rc<Connection>, stream: S) {
    let mut stream = Intake::new(stream, connection.signs.clone());
    while express::serve(&connection, &mut stream).await == Next::Library {
        match serve(connection.clone(), stream).await {
            Some(quiet) => stream = quiet,
            None => return,
        }
    }
}

/// Serves a client for as long as it asks. The connection, if it can go on.
async fn serve<S: Transport>(
    connection: Rc<Connection>,
    mut stream: Intake<S>,
) -> Option<Intake<S>> {
    let (worker, doorway) = (connection.worker.clone(), connection.doorway.clone());
    let (idle, signs) = (connection.idle.clone(), connection.signs.clone());
    loop {
        let connection = connection.clone();
        let answer = service_fn(move |request| entry::serve(connection.clone(), request));
        let serving = Builder::new()
            .header_read_timeout(None)
            .max_buf_size(limits::HEAD_BYTES_MAX)
            .max_header_size(limits::HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        // Boxed, or a connection at rest would hold its room.
        let mut serving = Box::new(serving);
        let kept = worker.sweep.keep(
            Pin::new(&mut *serving),
            Some(idle.clone()),
            || doorway.is_closed(),
            UpgradeableConnection::graceful_shutdown,
            || signs.are_quiet(),
        );
        if kept.await == Outcome::Over {
            return None;
        }
        let parts = serving.into_parts()?;
        stream = parts.io.into_inner();
        // All of it are whole requests, since nothing is midway: they are answered first.
        if !stream.put_back(parts.read_buf) {
            return Some(stream);
        }
    }
}
