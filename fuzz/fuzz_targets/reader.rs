//! A second reader of HTTP/1, which knows nothing of the first.

/// Reads requests as a plain service would, and panics at what two services could read two ways.
pub fn read_again(mut bytes: &[u8]) {
    while let Some(end) = find(bytes, b"\r\n\r\n") {
        let head = &bytes[..end];
        let lines = head.split(|byte| *byte == b'\n');
        assert!(
            lines.clone().rev().skip(1).all(|line| line.ends_with(b"\r")),
            "a lone line feed passed"
        );
        let lines: Vec<&[u8]> = lines.skip_while(|line| *line == b"\r").collect();
        if lines.first().is_some_and(|line| line.starts_with(b"CONNECT ")) {
            return;
        }
        let all = |name: &str| -> Vec<&[u8]> {
            let named = lines.iter().skip(1).filter_map(|line| {
                let colon = line.iter().position(|byte| *byte == b':')?;
                let same = line[..colon].eq_ignore_ascii_case(name.as_bytes());
                same.then(|| line[colon + 1..].trim_ascii())
            });
            named.collect()
        };
        if !all("upgrade").is_empty() {
            return;
        }
        let (lengths, codings) = (all("content-length"), all("transfer-encoding"));
        assert!(lengths.len() + codings.len() <= 1, "two framings passed");
        bytes = &bytes[end + 4..];
        if let Some(length) = lengths.first() {
            let text = std::str::from_utf8(length).expect("digits");
            assert!(text.bytes().all(|byte| byte.is_ascii_digit()));
            let length: u64 = text.parse().expect("a number");
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            bytes = bytes.get(length..).unwrap_or_default();
        } else if !codings.is_empty() {
            match skip_chunks(bytes) {
                Some(rest) => bytes = rest,
                None => return,
            }
        }
    }
}

fn skip_chunks(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let end = find(bytes, b"\r\n")?;
        let size = bytes[..end].split(|byte| *byte == b';').next()?;
        let size = std::str::from_utf8(size).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a hexadecimal size passed");
        bytes = &bytes[end + 2..];
        if size == 0 {
            while !bytes.starts_with(b"\r\n") {
                bytes = &bytes[find(bytes, b"\r\n")? + 2..];
            }
            return Some(&bytes[2..]);
        }
        bytes = bytes.get(size..)?;
        match bytes.get(..2) {
            Some(end) => assert_eq!(end, b"\r\n", "a chunk that is longer passed"),
            None => return None,
        }
        bytes = &bytes[2..];
    }
}

pub fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
