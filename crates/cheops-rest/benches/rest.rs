//! How long a request takes to be classified, and a body to be rewritten. `cargo bench -p cheops-rest`.

#![allow(missing_docs)]

fn main() {}
