//! Any bytes of a client and of a service on the short way: what passes is one request, or one head of
//! an answer, to a second reader too; it is made of lines that came, and says nothing of one hop.

#![no_main]

use cheops_proxy::framing::Framing;
use cheops_proxy::seam;
use libfuzzer_sys::fuzz_target;

mod reader;

use reader::{find, read_again};

fuzz_target!(|bytes: &[u8]| {
    // As on a connection: nothing is read that the framing has not let pass.
    let passed = match Framing::default().read(bytes) {
        Ok(()) => bytes,
        Err((passed, _)) => &bytes[..passed],
    };
    if let Some((head, body)) = seam::request(passed) {
        check(&head, bytes);
        let whole = [&head, body].concat();
        let mut framing = Framing::default();
        assert_eq!(framing.read(&whole), Ok(()));
        assert!(framing.is_between_requests(), "more is to come of it");
        read_again(&whole);
        assert_eq!(length(&head).unwrap_or(0), body.len());
    }
    if let Some((head, len)) = seam::answer(bytes) {
        check(&head, bytes);
        assert_eq!(length(&head).unwrap_or(0), len);
    }
});

/// What holds of both heads.
fn check(head: &[u8], came: &[u8]) {
    assert_eq!(find(head, b"\r\n\r\n"), Some(head.len() - 4), "one head");
    for line in lines(head) {
        assert!(find(came, line).is_some(), "a line that never came");
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r') && !line.contains(&0));
    }
    for name in ["connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "x-scope"] {
        assert!(value(head, name).is_none(), "{name} passed");
    }
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head[..head.len() - 4].split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn value<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    lines(head).skip(1).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let same = line[..colon].eq_ignore_ascii_case(name.as_bytes());
        same.then(|| line[colon + 1..].trim_ascii())
    })
}

fn length(head: &[u8]) -> Option<usize> {
    std::str::from_utf8(value(head, "content-length")?).expect("digits").parse().ok()
}
