//! Which instances of a service answer.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A probe that takes longer has failed.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);

/// How instances are probed.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// A path that answers 2xx or 3xx while the instance is well; without one, a connection counts.
    pub path: Option<String>,
}

impl Health {
    /// Whether there is anything to choose: one instance is tried whatever a probe would say.
    pub(super) fn probes(&self, known: &[SocketAddr]) -> bool {
        known.len() > 1
    }

    /// The instances that answer, or all of them if none does: a request shows it best.
    pub(super) async fn usable(&self, known: &[SocketAddr]) -> Vec<SocketAddr> {
        if !self.probes(known) {
            return known.to_vec();
        }
        let mut probes = tokio::task::JoinSet::new();
        for address in known {
            let (health, address) = (self.clone(), *address);
            probes.spawn(async move { (address, health.answers(address).await) });
        }
        let mut well: Vec<SocketAddr> = Vec::new();
        while let Some(probed) = probes.join_next().await {
            well.extend(
                probed
                    .ok()
                    .filter(|(_, answers)| *answers)
                    .map(|(address, _)| address),
            );
        }
        well.sort();
        if well.is_empty() {
            known.to_vec()
        } else {
            well
        }
    }

    /// Whether an instance is well. Takes 1 s at most.
    pub async fn answers(&self, address: SocketAddr) -> bool {
        matches!(
            timeout(PROBE_TIME_MAX, self.probe(address)).await,
            Ok(Some(()))
        )
    }

    async fn probe(&self, address: SocketAddr) -> Option<()> {
        let stream = TcpStream::connect(address).await.ok()?;
        let Some(path) = &self.path else {
            return Some(());
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        let request = hyper::Request::get(path)
            .header(hyper::header::HOST, address.to_string())
            .body(Empty::<Bytes>::new())
            .ok()?;
        let response = tokio::select! {
            response = sender.send_request(request) => response.ok()?,
            _ = connection => return None,
        };
        let status = response.status();
        (status.is_success() || status.is_redirection()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::super::{Addresses, follow};
    use super::*;

    #[tokio::test]
    async fn an_instance_that_is_gone_is_left_out_and_the_last_ones_stay() {
        let down = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let down_address = down.local_addr().unwrap();
        drop(down);
        let alive = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive_address = alive.local_addr().unwrap();
        let health = Health::default();
        assert_eq!(
            health.usable(&[down_address, alive_address]).await,
            [alive_address]
        );
        drop(alive);
        let both = [down_address, alive_address];
        assert_eq!(health.usable(&both).await, both);
    }

    #[tokio::test]
    async fn one_address_is_there_at_once_and_is_never_probed() {
        let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let mut endpoints = follow(Addresses(vec![address]), Health::default());
        let known = endpoints
            .wait_for(|now| !now.addresses.is_empty())
            .await
            .unwrap();
        assert_eq!(known.addresses, [address]);
    }
}
