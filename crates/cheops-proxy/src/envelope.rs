//! What one agent tells another about a request it forwards, in one header.
//!
//! `service=image;target=site2;entry=site1;visited=site1;hops=0;deadline=60000`. It is believed
//! only on a connection whose certificate names an agent of this mesh; from anybody else the
//! header is removed.

use std::fmt::Write;
use std::time::Duration;

use cheops_model::{ServiceName, SiteName};
use http::HeaderValue;

use crate::limits;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The registered name of the service.
    pub(crate) service: ServiceName,
    /// The site whose service is to be called.
    pub(crate) target: SiteName,
    /// The site where the workflow entered the mesh: what `here` means in its scope.
    pub(crate) entry: SiteName,
    /// The sites this request came through, in order.
    pub(crate) visited: Vec<SiteName>,
    /// Calls made so far along the workflow.
    pub(crate) hops: u32,
    /// Time left for the service.
    pub(crate) deadline: Duration,
}

impl Envelope {
    pub(crate) fn to_header(&self) -> HeaderValue {
        let Envelope {
            service,
            target,
            entry,
            hops,
            ..
        } = self;
        let mut text = format!("service={service};target={target};entry={entry};visited=");
        for (index, site) in self.visited.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            text.push_str(site.as_str());
        }
        let _ = write!(text, ";hops={hops};deadline={}", self.deadline.as_millis());
        HeaderValue::try_from(text).expect("names and numbers fit a header")
    }

    /// `None` for anything that an agent would not have written.
    pub(crate) fn read(value: &HeaderValue) -> Option<Envelope> {
        let mut members = value.to_str().ok()?.split(';');
        let mut member = |key: &str| members.next()?.strip_prefix(key)?.strip_prefix('=');
        let envelope = Envelope {
            service: ServiceName::new(member("service")?).ok()?,
            target: SiteName::new(member("target")?).ok()?,
            entry: SiteName::new(member("entry")?).ok()?,
            visited: sites(member("visited")?)?,
            hops: member("hops")?.parse().ok()?,
            deadline: Duration::from_millis(member("deadline")?.parse::<u32>().ok()?.into()),
        };
        members.next().is_none().then_some(envelope)
    }
}

fn sites(text: &str) -> Option<Vec<SiteName>> {
    let sites: Option<Vec<_>> = text
        .split(',')
        .map(|name| SiteName::new(name).ok())
        .collect();
    sites.filter(|sites| sites.len() <= limits::VISITED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_reads_back_and_nothing_else_does() {
        let site = |name: &str| SiteName::new(name).unwrap();
        let envelope = Envelope {
            service: "image".parse().unwrap(),
            target: site("DC 2"),
            entry: site("DC 1"),
            visited: vec![site("DC 1"), site("x")],
            hops: 3,
            deadline: Duration::from_millis(59_999),
        };
        assert_eq!(Envelope::read(&envelope.to_header()), Some(envelope));
        let many = ["a"; limits::VISITED_MAX + 1].join(",");
        for bad in [
            "",
            "service=image",
            "service=image;target=a;entry=a;visited=a;hops=-1;deadline=1",
            "service=image;target=a/b;entry=a;visited=a;hops=1;deadline=1",
            "service=image;target=a;entry=a;visited=a;hops=1;deadline=1;more=1",
            &format!("service=image;target=a;entry=a;visited={many};hops=1;deadline=1"),
        ] {
            assert_eq!(
                Envelope::read(&HeaderValue::from_str(bad).unwrap()),
                None,
                "{bad}"
            );
        }
    }
}
