//! What the connections of one thread read into and write from, one at a time.

use crate::limits;

/// Nothing in it lives longer than one poll: what has to wait takes its buffer along.
pub(crate) struct Scratch {
    /// Always [`limits::SERVICE_BUFFER_BYTES_MAX`] long.
    pub(super) bytes: Vec<u8>,
    pub(super) out: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

/// What was read and has to wait for more.
pub(super) struct Held {
    buffer: Vec<u8>,
    len: usize,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            bytes: buffer(),
            out: Vec::new(),
            spare: Vec::new(),
        }
    }
}

fn buffer() -> Vec<u8> {
    vec![0; limits::SERVICE_BUFFER_BYTES_MAX]
}

impl Scratch {
    /// Takes the buffer away with what was read into it.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        let next = self.spare.pop().unwrap_or_else(buffer);
        std::mem::replace(&mut self.bytes, next)
    }

    /// Takes back a buffer that was taken away.
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < limits::SPARE_BUFFERS_MAX {
            self.spare.push(buffer);
        }
    }

    /// Takes the buffer away, of which so much was read into it.
    pub(super) fn put_aside(&mut self, len: usize) -> Held {
        Held {
            buffer: self.take_bytes(),
            len,
        }
    }

    /// Goes on with what was put aside, and tells how much it is.
    pub(super) fn take_up(&mut self, held: Held) -> usize {
        let other = std::mem::replace(&mut self.bytes, held.buffer);
        self.give_back(other);
        held.len
    }
}
