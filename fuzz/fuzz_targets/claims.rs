//! Any text as a host, a path or a carrier: no panic, and what is accepted as a host prints as one that
//! is accepted and equal.

#![no_main]

use cheops_proxy::{Carrier, HostClaim, PathClaim};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(host) = text.parse::<HostClaim>() {
        let printed = host.to_string();
        assert_eq!(printed.parse::<HostClaim>().expect("it was one"), host);
        assert!(!printed.contains(['/', '@', ' ', '\r', '\n']), "{printed}");
    }
    if text.parse::<PathClaim>().is_ok() {
        assert!(text.starts_with('/') && !text.contains(['?', '#', '%']));
    }
    let _ = text.parse::<Carrier>();
});
