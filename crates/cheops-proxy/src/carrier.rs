//! How a scope follows the workflow through a black box.
//!
//! `header`: the service passes `X-Scope` on. `baggage`: it passes W3C baggage on.
//! `correlate:HEADER`: it passes that header on, and the agent remembers the scope by its value.

use std::fmt::Write;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::headers;

/// One way; the first that yields a scope wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// `X-Scope` stays on the request to the service.
    Header,
    /// A member of W3C baggage.
    Baggage,
    /// Remembered by the value of this header.
    Correlate(Correlate),
}

/// A header that the service passes on, and the form of value it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correlate {
    pub(crate) header: HeaderName,
    pub(crate) form: Form,
}

/// What a value has to look like for the service to pass it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `1d2c3b4a-…`.
    Uuid,
    /// `req-1d2c3b4a-…`, lower case: anything else is dropped in silence.
    RequestUuid,
    /// `00-<trace id>-<span id>-01`; the trace id is the key, and a client's own is kept.
    TraceParent,
}

/// Why a text is not a carrier.
#[derive(Debug)]
pub struct CarrierFault(String);

impl std::fmt::Display for CarrierFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} is not `header`, `baggage` or `correlate:HEADER`",
            self.0
        )
    }
}

impl std::error::Error for CarrierFault {}

impl FromStr for Carrier {
    type Err = CarrierFault;

    fn from_str(text: &str) -> Result<Carrier, CarrierFault> {
        let fault = || CarrierFault(text.to_owned());
        match (text, text.split_once(':')) {
            ("header", _) => Ok(Carrier::Header),
            ("baggage", _) => Ok(Carrier::Baggage),
            (_, Some(("correlate", name))) => {
                let lower = name.trim().to_ascii_lowercase();
                let header = HeaderName::from_str(&lower).map_err(|_| fault())?;
                let ours = lower.starts_with("x-cheops-") || header == headers::SCOPE;
                if ours || header == http::header::HOST {
                    return Err(fault());
                }
                Ok(Carrier::Correlate(Correlate {
                    form: Form::of(&header),
                    header,
                }))
            }
            _ => Err(fault()),
        }
    }
}

impl Form {
    fn of(header: &HeaderName) -> Form {
        match header.as_str() {
            "traceparent" => Form::TraceParent,
            "x-openstack-request-id" => Form::RequestUuid,
            _ => Form::Uuid,
        }
    }

    /// A value for the service, made of a key.
    pub(crate) fn spell(self, key: u128) -> String {
        let hex = format!("{key:032x}");
        let uuid = || {
            let parts = [
                &hex[..8],
                &hex[8..12],
                &hex[12..16],
                &hex[16..20],
                &hex[20..],
            ];
            parts.join("-")
        };
        match self {
            Form::Uuid => uuid(),
            Form::RequestUuid => format!("req-{}", uuid()),
            Form::TraceParent => format!("00-{hex}-{}-01", &hex[16..]),
        }
    }

    /// The key that a value was made of, if it has the form.
    pub(crate) fn read(self, value: &[u8]) -> Option<u128> {
        let text = std::str::from_utf8(value).ok()?;
        match self {
            Form::Uuid => uuid(text),
            Form::RequestUuid => uuid(text.strip_prefix("req-")?),
            Form::TraceParent => {
                let id = text
                    .get(3..35)
                    .filter(|_| text.len() >= 55 && text.as_bytes()[2] == b'-');
                hex(id?).filter(|key| *key != 0)
            }
        }
    }
}

fn uuid(text: &str) -> Option<u128> {
    let dashes = [8, 13, 18, 23];
    let bytes = text.as_bytes();
    if bytes.len() != 36 || dashes.iter().any(|at| bytes[*at] != b'-') {
        return None;
    }
    hex(&text.replace('-', ""))
}

fn hex(text: &str) -> Option<u128> {
    let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    (text.len() == 32 && text.bytes().all(lower)).then(|| u128::from_str_radix(text, 16).ok())?
}

/// The member of W3C baggage that carries a scope.
const BAGGAGE_KEY: &str = "cheops-scope";

/// The scope in the request's baggage.
pub(crate) fn from_baggage(headers: &HeaderMap) -> Option<Vec<u8>> {
    members(headers).into_iter().find_map(|member| {
        let (key, value) = member.split_once('=')?;
        let value = value.split(';').next().unwrap_or_default();
        (key.trim() == BAGGAGE_KEY).then(|| percent_decode(value.trim()))
    })
}

/// Takes the scope out of the baggage, and puts another in if there is one.
pub(crate) fn set_baggage(headers: &mut HeaderMap, scope: Option<&str>) {
    let ours = |member: &str| {
        member
            .split('=')
            .next()
            .is_some_and(|k| k.trim() == BAGGAGE_KEY)
    };
    let mut kept: Vec<String> = members(headers).into_iter().filter(|m| !ours(m)).collect();
    kept.extend(scope.map(|scope| format!("{BAGGAGE_KEY}={}", percent_encode(scope))));
    match HeaderValue::from_str(&kept.join(",")) {
        Ok(value) if !kept.is_empty() => headers.insert(headers::BAGGAGE, value),
        _ => headers.remove(headers::BAGGAGE),
    };
}

fn members(headers: &HeaderMap) -> Vec<String> {
    let values = headers
        .get_all(headers::BAGGAGE)
        .iter()
        .filter_map(|v| v.to_str().ok());
    values
        .flat_map(|v| v.split(','))
        .map(|m| m.trim().to_owned())
        .filter(|m| !m.is_empty())
        .collect()
}

fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn percent_decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text
            .get(at + 1..at + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_are_read_and_ours_are_refused() {
        assert_eq!("header".parse::<Carrier>().unwrap(), Carrier::Header);
        assert_eq!("baggage".parse::<Carrier>().unwrap(), Carrier::Baggage);
        let Carrier::Correlate(correlate) = "correlate:X-Request-Id".parse().unwrap() else {
            panic!("a correlation")
        };
        assert_eq!(
            (correlate.header.as_str(), correlate.form),
            ("x-request-id", Form::Uuid)
        );
        for bad in [
            "",
            "Header",
            "correlate:",
            "correlate:x-scope",
            "correlate:a b",
            "correlate",
        ] {
            assert!(bad.parse::<Carrier>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_form_reads_back_what_it_spells() {
        let key = 0x1d2c_3b4a_1111_4222_8333_4444_5555_6666;
        for form in [Form::Uuid, Form::RequestUuid, Form::TraceParent] {
            let value = form.spell(key);
            assert_eq!(form.read(value.as_bytes()), Some(key), "{value:?}");
        }
        for bad in [
            "",
            "abc",
            "req-1d2c3b4a",
            "1D2C3B4A-1111-4222-8333-444455556666",
        ] {
            assert_eq!(Form::Uuid.read(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn baggage_carries_a_scope_beside_other_members() {
        let mut headers = HeaderMap::new();
        headers.append(
            headers::BAGGAGE,
            HeaderValue::from_static("user=7, cheops-scope=old"),
        );
        set_baggage(&mut headers, Some("image: DC 1 & DC 2"));
        assert_eq!(from_baggage(&headers).unwrap(), b"image: DC 1 & DC 2");
        assert_eq!(
            headers[headers::BAGGAGE]
                .to_str()
                .unwrap()
                .split(',')
                .count(),
            2
        );
        set_baggage(&mut headers, None);
        assert_eq!(headers[headers::BAGGAGE], "user=7");
        assert_eq!(from_baggage(&headers), None);
    }
}
