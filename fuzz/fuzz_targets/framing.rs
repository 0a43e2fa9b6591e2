//! Any bytes of a client: the framing is followed the same way however they are cut, what is refused
//! never lets a whole head pass, and a second reader, who knows nothing of the first, finds the same
//! requests in what passed.

#![no_main]

use cheops_proxy::framing::Framing;
use libfuzzer_sys::fuzz_target;

mod reader;

use reader::read_again;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how the others are cut.
    let Some((cut, bytes)) = bytes.split_first() else {
        return;
    };
    let whole = Framing::default().read(bytes);
    let mut framing = Framing::default();
    let mut passed = 0;
    let mut pieces = Ok(());
    for piece in bytes.chunks(usize::from(*cut).max(1)) {
        if let Err((of_piece, why)) = framing.read(piece) {
            passed += of_piece;
            pieces = Err(why);
            break;
        }
        passed += piece.len();
    }
    // A line that is wrong in two ways may be refused for either, as it is cut.
    assert_eq!(whole.is_err(), pieces.is_err(), "{whole:?} {pieces:?}");
    if let Err((at, _)) = whole {
        assert!(passed < bytes.len());
        assert!(at < bytes.len(), "at least one byte is refused");
        read_again(&bytes[..at]);
    } else {
        read_again(bytes);
    }
});
