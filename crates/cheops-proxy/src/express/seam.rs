//! The two places where bytes from outside pass as bytes, alone, for the fuzzer.

use super::{answer, lines, request};

/// The head that passes of the first request of `bytes`, and its body; `None` if it is left to the
/// HTTP library. What the agent adds to the head is not in it.
pub fn request(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut room = lines::room();
    let ordinary = request::read(bytes, &mut room)?;
    let mut head = Vec::new();
    ordinary.lines.write(ordinary.without, &mut head);
    head.extend_from_slice(b"\r\n");
    Some((head, ordinary.body))
}

/// The head that passes of an answer, and how long its body is; `None` if it is left to the HTTP
/// library.
pub fn answer(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut room = lines::room();
    let plain = answer::read(bytes, &mut room)?;
    let mut head = Vec::new();
    plain.lines.write(plain.without, &mut head);
    head.extend_from_slice(b"\r\n");
    Some((head, plain.length))
}
