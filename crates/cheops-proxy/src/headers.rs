//! Which headers pass, which are ours, and what an answer says of who answered.

use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime};

use cheops_model::SiteName;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::host;

/// The scope of a request.
pub(crate) const SCOPE: HeaderName = HeaderName::from_static("x-scope");
/// The sites whose services answered.
pub(crate) const SERVED_BY: HeaderName = HeaderName::from_static("x-cheops-served-by");
/// The service that the scope says nothing of.
pub(crate) const UNBOUND: HeaderName = HeaderName::from_static("x-cheops-unbound");
/// Between agents: the envelope of a forwarded request.
pub(crate) const ENVELOPE: HeaderName = HeaderName::from_static("x-cheops-mesh");
/// Between agents: the `Host` the client asked for.
pub(crate) const HOST: HeaderName = HeaderName::from_static("x-cheops-host");
/// Between agents: the homes of values that the request shows.
pub(crate) const HOMES: HeaderName = HeaderName::from_static("x-cheops-homes");
/// Between agents: the problem was found before the service was called.
pub(crate) const NOTHING_HAPPENED: HeaderName =
    HeaderName::from_static("x-cheops-nothing-happened");
/// Between agents: the protocol that the client wants to leave HTTP for.
pub(crate) const UPGRADE_ASKED: HeaderName = HeaderName::from_static("x-cheops-upgrade");
/// Between agents: the service agreed to it.
pub(crate) const UPGRADED: HeaderName = HeaderName::from_static("x-cheops-upgraded");
/// How long each agent took.
pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
/// W3C baggage.
pub(crate) const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// The operation that a request became.
pub(crate) const OPERATION: HeaderName = HeaderName::from_static("x-cheops-operation");
/// Where it can be asked for.
pub(crate) const OPERATION_URL: HeaderName = HeaderName::from_static("x-cheops-operation-url");
/// The replicant that a request was about.
pub(crate) const RESOURCE: HeaderName = HeaderName::from_static("x-cheops-resource");
/// Sites of the plan that had not applied it when it was answered.
pub(crate) const PENDING: HeaderName = HeaderName::from_static("x-cheops-pending");
/// Sites that a joined answer lacks.
pub(crate) const PARTIAL: HeaderName = HeaderName::from_static("x-cheops-partial");
/// The site whose replica is known to be behind.
pub(crate) const STALE: HeaderName = HeaderName::from_static("x-cheops-stale");

/// Sets a header; a value that no header can hold is left out.
pub(crate) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Removes what belongs to one hop alone, and what only an agent may say. A scope goes too: the
/// carriers put it back for a service that asked for it.
pub(crate) fn clean(headers: &mut HeaderMap) {
    // A request rarely has more than these; the list grows where one does.
    let mut doomed: Vec<HeaderName> = Vec::new();
    for name in headers.keys() {
        if is_hop_or_ours(name.as_str()) {
            doomed.push(name.clone());
        }
    }
    for name in doomed {
        if name == header::CONNECTION {
            named_by_connection(headers);
        }
        headers.remove(name);
    }
}

/// What one look at the headers of a request tells: looking one up costs as much as all of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Something is there that [`clean`] removes.
    pub(crate) unclean: bool,
    /// It asks to leave HTTP.
    pub(crate) upgrade: bool,
    /// It has baggage.
    pub(crate) baggage: bool,
    /// How often `Host` is given.
    pub(crate) hosts: u32,
    /// And whether each is a host.
    pub(crate) bad_host: bool,
}

impl Survey {
    pub(crate) fn of(headers: &HeaderMap) -> Survey {
        let mut survey = Survey::default();
        for (name, value) in headers {
            let name = name.as_str();
            match name.as_bytes().first() {
                Some(b'h') if name == "host" => {
                    survey.hosts += 1;
                    survey.bad_host |= !host::is_host(value.as_bytes());
                }
                Some(b'b') => survey.baggage |= name == "baggage",
                Some(b'u') if name == "upgrade" => {
                    (survey.upgrade, survey.unclean) = (true, true);
                }
                Some(b'c' | b'k' | b'p' | b't' | b'x') => survey.unclean |= is_hop_or_ours(name),
                _ => (),
            }
        }
        survey
    }
}

/// The first byte decides for nearly every header, without a comparison of texts.
#[inline]
fn is_hop_or_ours(name: &str) -> bool {
    match name.as_bytes().first() {
        Some(b'c') => name == "connection",
        Some(b'k') => name == "keep-alive",
        Some(b'p') => matches!(
            name,
            "proxy-connection" | "proxy-authenticate" | "proxy-authorization"
        ),
        Some(b't') => matches!(name, "te" | "transfer-encoding"),
        Some(b'u') => name == "upgrade",
        Some(b'x') => name == "x-scope" || name.starts_with("x-cheops-"),
        _ => false,
    }
}

/// `Connection: a, b` makes `a` and `b` headers of this hop.
fn named_by_connection(headers: &mut HeaderMap) {
    let mut named: Vec<HeaderName> = Vec::new();
    for value in headers.get_all(header::CONNECTION) {
        let tokens = value
            .as_bytes()
            .split(|b| *b == b',')
            .map(<[u8]>::trim_ascii);
        for token in tokens {
            let end_to_end = token.eq_ignore_ascii_case(b"host")
                || token.eq_ignore_ascii_case(b"content-length");
            if !end_to_end && let Ok(name) = HeaderName::from_bytes(token) {
                named.push(name);
            }
        }
    }
    for name in named {
        headers.remove(name);
    }
}

/// HTTP/2 may split cookies over several headers; HTTP/1.1 services read one.
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    // Whether any header is repeated is known without looking one up.
    if headers.len() == headers.keys_len() {
        return;
    }
    let all = headers.get_all(header::COOKIE);
    if all.iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = all.iter().map(HeaderValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]));
    headers.insert(header::COOKIE, joined.expect("joined of header values"));
}

/// Header values that are the same for every request of this agent: made once, shared.
pub(crate) struct Stamps {
    /// `1.1 site1`.
    pub(crate) via: HeaderValue,
    /// `site1`.
    pub(crate) served_by: HeaderValue,
    /// `agent;desc="site1";dur=`.
    timing_prefix: String,
    /// The lines of an answer that name this site, up to the digits of the time it took.
    answer_lines: String,
    /// `Date`, and until when it is right.
    date: RefCell<(String, Option<Instant>)>,
}

impl Stamps {
    pub(crate) fn new(here: &SiteName) -> Stamps {
        let value = |text: &str| HeaderValue::from_str(text).expect("a site name fits a header");
        // A pseudonym is a token: no blanks.
        let via = format!("1.1 {}", here.as_str().replace(' ', "_"));
        let timing_prefix = format!("agent;desc=\"{here}\";dur=");
        Stamps {
            via: value(&via),
            served_by: value(here.as_str()),
            answer_lines: format!(
                "{SERVED_BY}: {here}\r\nvia: {via}\r\n{SERVER_TIMING}: {timing_prefix}"
            ),
            timing_prefix,
            date: RefCell::default(),
        }
    }

    /// Writes the lines of an answer that say who answered and how long it took.
    pub(crate) fn write_answer(&self, out: &mut Vec<u8>, took_us: u64) {
        out.extend_from_slice(self.answer_lines.as_bytes());
        out.extend_from_slice(spell_ms(took_us, &mut [0; 24]));
        out.extend_from_slice(b"\r\n");
    }

    /// Writes the line that says when it was answered. The text is made once a second.
    pub(crate) fn write_date(&self, out: &mut Vec<u8>, now: Instant) {
        let mut date = self.date.borrow_mut();
        if date.1.is_none_or(|until| until <= now) {
            let time = SystemTime::now();
            let past = time.duration_since(SystemTime::UNIX_EPOCH);
            let past = Duration::from_nanos(past.unwrap_or_default().subsec_nanos().into());
            let line = format!("date: {}\r\n", httpdate::fmt_http_date(time));
            *date = (line, Some(now + Duration::from_secs(1) - past));
        }
        out.extend_from_slice(date.0.as_bytes());
    }

    /// Adds this agent's time, in milliseconds with three digits.
    pub(crate) fn timing(&self, headers: &mut HeaderMap, took_us: u64) {
        let mut digits = [0; 24];
        let digits = spell_ms(took_us, &mut digits);
        // As long as it has to be: a value with room left would be copied once more.
        let mut text = Vec::with_capacity(self.timing_prefix.len() + digits.len());
        text.extend_from_slice(self.timing_prefix.as_bytes());
        text.extend_from_slice(digits);
        let value = HeaderValue::from_maybe_shared(bytes::Bytes::from(text));
        headers.append(SERVER_TIMING, value.expect("digits fit a header"));
    }
}

/// Microseconds as milliseconds with three digits, at the end of `buffer`.
fn spell_ms(mut us: u64, buffer: &mut [u8; 24]) -> &[u8] {
    let mut at = buffer.len();
    for place in 0.. {
        if us == 0 && place > 4 {
            break;
        }
        at -= 1;
        if place == 3 {
            buffer[at] = b'.';
            continue;
        }
        buffer[at] = b'0' + (us % 10) as u8;
        us /= 10;
    }
    &buffer[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn hop_headers_ours_and_the_ones_connection_names_are_removed() {
        let mut headers = map(&[
            ("host", "a"),
            ("connection", "close, X-Secret, host"),
            ("x-secret", "1"),
            ("x-scope", "a: b"),
            ("x-cheops-served-by", "forged"),
            ("x-cheops-mesh", "forged"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "secret"),
            ("content-type", "text/plain"),
            ("x-request-id", "7"),
        ]);
        clean(&mut headers);
        let mut left: Vec<_> = headers.keys().map(|name| name.as_str()).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-type", "host", "x-request-id"]);
    }

    #[test]
    fn one_look_tells_what_a_request_has() {
        assert_eq!(
            Survey::of(&map(&[
                ("host", "a"),
                ("accept", "b"),
                ("x-request-id", "7")
            ])),
            Survey {
                hosts: 1,
                ..Survey::default()
            }
        );
        let unclean = [
            "connection",
            "te",
            "keep-alive",
            "proxy-authorization",
            "x-cheops-host",
            "upgrade",
        ];
        for name in unclean {
            let survey = Survey::of(&map(&[(name, "a")]));
            assert!(survey.unclean, "{name}");
            assert_eq!(survey.upgrade, name == "upgrade");
        }
        let survey = Survey::of(&map(&[("host", "a"), ("host", "b/c"), ("baggage", "x")]));
        assert!(survey.baggage && survey.bad_host && survey.hosts == 2);
    }

    #[test]
    fn timing_has_three_digits() {
        let mut headers = HeaderMap::new();
        let stamps = Stamps::new(&"DC 1".parse().unwrap());
        stamps.timing(&mut headers, 7);
        stamps.timing(&mut headers, 12_340);
        stamps.timing(&mut headers, u64::MAX);
        let all: Vec<_> = headers.get_all(SERVER_TIMING).iter().collect();
        assert_eq!(
            all,
            [
                "agent;desc=\"DC 1\";dur=0.007",
                "agent;desc=\"DC 1\";dur=12.340",
                "agent;desc=\"DC 1\";dur=18446744073709551.615"
            ]
        );
    }
}
