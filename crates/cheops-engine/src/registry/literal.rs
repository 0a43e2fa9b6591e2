//! Sources that need no registry: addresses as written, and names looked up again and again.

use std::io;
use std::net::SocketAddr;

use super::Source;

/// Addresses as written.
#[derive(Clone, Debug)]
pub struct Addresses(pub Vec<SocketAddr>);

impl Source for Addresses {
    async fn look(&mut self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.0.clone())
    }

    fn changes(&self) -> bool {
        false
    }
}

/// `host:port` names, looked up by the system's resolver.
#[derive(Clone, Debug)]
pub struct Names(pub Vec<String>);

impl Source for Names {
    async fn look(&mut self) -> io::Result<Vec<SocketAddr>> {
        let mut found = Vec::new();
        let mut fault = None;
        for name in &self.0 {
            match tokio::net::lookup_host(name).await {
                Ok(addresses) => found.extend(addresses),
                Err(error) => fault = Some(io::Error::other(format!("{name}: {error}"))),
            }
        }
        // A resolver shuffles its answers; requests go round them in turn anyway.
        found.sort();
        found.dedup();
        match fault {
            Some(fault) if found.is_empty() => Err(fault),
            _ => Ok(found),
        }
    }

    fn changes(&self) -> bool {
        true
    }
}
