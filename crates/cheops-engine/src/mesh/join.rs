//! An address to join through: tried until a site of the mesh shows its certificate there.
//!
//! From then on the link to that site tries the address, for ever too.

use std::time::Instant;

use cheops_model::SiteName;
use hyper::StatusCode;
use tokio::time::sleep;
use tracing::info;

use super::connect::Connected;
use super::exchange::{Exchange, LinkFault};
use super::link::{Complaints, Shared};
use super::message::{HELLO_PATH, Hello};
use super::owner::Event;
use super::pause::{Failure, Pauses};
use crate::limits::HELLO_DEADLINE;

/// Tries `address` until it is known who is there.
pub(super) async fn join(here: SiteName, address: String, shared: Shared) {
    let mut pauses = Pauses::new();
    let mut complaints = Complaints::default();
    loop {
        let started = Instant::now();
        let failure = match shared.connector.connect(&address).await {
            Ok(connected) if connected.peer != here => {
                let _ = shared
                    .events
                    .send(Event::Met {
                        site: connected.peer,
                        address,
                    })
                    .await;
                return;
            }
            Ok(connected) => match ask_who(connected, &shared).await {
                Own::Ourselves => {
                    info!(
                        address,
                        "this address to join through is our own; it is left out"
                    );
                    return;
                }
                Own::Other(fault) => {
                    complaints.say(&address, &fault.to_string(), Failure::Refused);
                    Failure::Refused
                }
            },
            Err(fault) => {
                complaints.say(&address, &fault.to_string(), fault.failure());
                fault.failure()
            }
        };
        sleep(pauses.after(failure, started.elapsed(), rand::random())).await;
    }
}

/// Who has our own site's name.
enum Own {
    Ourselves,
    Other(LinkFault),
}

/// A hello tells ourselves from another agent that claims our name.
async fn ask_who(connected: Connected, shared: &Shared) -> Own {
    match greet(connected, shared).await {
        Ok(_) => Own::Other(LinkFault::Useless(
            "it has our name and took our hello".into(),
        )),
        Err(LinkFault::Refused {
            status: StatusCode::MISDIRECTED_REQUEST,
            ..
        }) => Own::Ourselves,
        Err(fault) => Own::Other(fault),
    }
}

async fn greet(connected: Connected, shared: &Shared) -> Result<Hello, LinkFault> {
    let (mut exchange, work) = Exchange::open(connected.stream).await?;
    let body = shared.greeting.borrow().body.clone();
    tokio::select! {
        hello = exchange.ask(HELLO_PATH, body, HELLO_DEADLINE) => hello,
        ended = work => Err(match ended {
            Ok(()) => LinkFault::Broken("closed by the peer".into()),
            Err(fault) => fault.into(),
        }),
    }
}
