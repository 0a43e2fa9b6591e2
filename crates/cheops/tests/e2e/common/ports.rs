//! Ports that nobody uses: below those that the system gives to connections, each handed out once.

use std::net::{SocketAddr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// An address that was free a moment ago.
pub(crate) fn free() -> SocketAddr {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    // Two test programs at once begin far from each other.
    let next = NEXT.get_or_init(|| AtomicU32::new(std::process::id().wrapping_mul(7_919)));
    loop {
        let port = FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT;
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
