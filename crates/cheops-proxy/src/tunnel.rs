//! `CONNECT` at the forward proxy: a tunnel that ends in this agent.
//!
//! A client asks for one to reach a service over TLS. It does not lead to the service's address:
//! what comes through it is served as if it had come to the service's own listener, with the
//! service's `tls`, so scopes work inside it and nothing else can be reached.

use std::rc::Rc;

use http::{Request, Response};
use hyper::body::Incoming;

use crate::body::Body;
use crate::doorway::Doorway;
use crate::entry::Connection;
use crate::intake::Signs;
use crate::listen;
use crate::problem::Problem;
use crate::sweep::Idle;

/// Agrees to a tunnel, or says why not.
pub(crate) fn open(
    connection: &Connection,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let worker = connection.worker.clone();
    let service = connection.doorway.choose_tunnel(request.uri())?;
    let seat = worker.seat().ok_or(Problem::TooManyConnections)?;
    let upgrade = hyper::upgrade::on(&mut request);
    let inner = Rc::new(Connection {
        doorway: Rc::new(Doorway::within_tunnel(&service)),
        forwarded: connection.forwarded.clone(),
        idle: Idle::new(worker.client_idle.get()),
        signs: Signs::default(),
        begun: Default::default(),
        worker,
    });
    tokio::task::spawn_local(async move {
        let _seat = seat;
        // A client that asks for a tunnel and leaves is no event of ours.
        if let Ok(upgraded) = upgrade.await {
            listen::serve_tunnel(inner, upgraded).await;
        }
    });
    Ok(Response::new(Body::empty()))
}
