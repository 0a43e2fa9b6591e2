//! Which service a request is for, where more than one can be asked at the same address.

use std::str::FromStr;

use cheops_model::ServiceName;
use http::uri::Authority;

/// What a service answers for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Hosts; none means any.
    pub hosts: Vec<HostClaim>,
    /// What paths begin with, whole segments; none means any.
    pub paths: Vec<PathClaim>,
    /// Other names that a client of the forward proxy may use for it: its registered name, its
    /// aliases, and the addresses that it really has.
    pub known_as: Vec<HostClaim>,
}

/// `host` at any port, or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostClaim {
    host: String,
    port: Option<u16>,
}

/// Why a text is not a claim.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not {1}")]
pub struct ClaimFault(String, &'static str);

impl FromStr for HostClaim {
    type Err = ClaimFault;

    fn from_str(text: &str) -> Result<HostClaim, ClaimFault> {
        let fault = || {
            ClaimFault(
                text.to_owned(),
                "a host such as image.example or [::1]:9292",
            )
        };
        let authority: Authority = text.parse().map_err(|_| fault())?;
        let port = authority.port_u16();
        let whole = port.map_or(authority.host().to_owned(), |port| {
            format!("{}:{port}", authority.host())
        });
        // A user, or a port that is no number, would be left out in silence.
        if whole != text || plain(authority.host()).is_empty() {
            return Err(fault());
        }
        Ok(HostClaim {
            host: plain(authority.host()),
            port,
        })
    }
}

/// Names are compared without regard to case and to the dot of a whole name.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

impl std::fmt::Display for HostClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl HostClaim {
    /// How well it fits: a claim of the port too stands over one of the host alone.
    fn fits(&self, asked: &HostClaim) -> Option<u32> {
        if self.host != asked.host {
            return None;
        }
        match (self.port, asked.port) {
            (None, _) => Some(1),
            (Some(ours), Some(theirs)) if ours == theirs => Some(2),
            // `http://host/` is port 80.
            (Some(80), None) => Some(2),
            (Some(_), _) => None,
        }
    }
}

/// `/image`: the path itself and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathClaim(String);

impl FromStr for PathClaim {
    type Err = ClaimFault;

    fn from_str(text: &str) -> Result<PathClaim, ClaimFault> {
        let plain = text.starts_with('/') && !text.contains(['?', '#', '%', ' ']);
        if !plain || text.contains("//") || text.split('/').any(|part| part == "..") {
            return Err(ClaimFault(text.to_owned(), "a path such as /image"));
        }
        Ok(PathClaim(text.trim_end_matches('/').to_owned()))
    }
}

impl PathClaim {
    /// How much of the path it claims.
    fn fits(&self, path: &str) -> Option<usize> {
        let rest = path.strip_prefix(self.0.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then_some(self.0.len())
    }
}

impl Claim {
    /// How well a request at the shared listener fits: the host first, then the longest path. A
    /// service that claims nothing gets nothing there.
    pub(crate) fn at_shared(&self, host: Option<&HostClaim>, path: &str) -> Option<(u32, usize)> {
        if self.hosts.is_empty() && self.paths.is_empty() {
            return None;
        }
        let by_host = match (self.hosts.is_empty(), host) {
            (true, _) => 0,
            (false, None) => return None,
            (false, Some(asked)) => best_host(&self.hosts, asked)?,
        };
        let by_path = match self.paths.is_empty() {
            true => 0,
            false => self
                .paths
                .iter()
                .filter_map(|claim| claim.fits(path))
                .max()?,
        };
        Some((by_host, by_path))
    }

    /// How well what a client of the forward proxy asks for fits. Only what names a host counts.
    pub(crate) fn at_forward(&self, asked: &HostClaim, path: &str) -> Option<(u32, usize)> {
        if let Some(known) = best_host(&self.known_as, asked) {
            return Some((known, 0));
        }
        best_host(&self.hosts, asked)?;
        self.at_shared(Some(asked), path)
    }

    /// Whether a tunnel to that host and port is one to this service; a path is not known yet.
    pub(crate) fn at_tunnel(&self, asked: &HostClaim) -> Option<u32> {
        let claims = self.known_as.iter().chain(&self.hosts);
        claims.filter_map(|claim| claim.fits(asked)).max()
    }
}

fn best_host(claims: &[HostClaim], asked: &HostClaim) -> Option<u32> {
    claims.iter().filter_map(|claim| claim.fits(asked)).max()
}

/// Two services must not claim the same: which would be asked would be a guess.
pub fn same_claim<'a>(
    claims: impl Iterator<Item = (&'a ServiceName, &'a Claim)>,
) -> Option<(&'a ServiceName, &'a ServiceName)> {
    let any_path = [PathClaim(String::new())];
    let claims: Vec<_> = claims.collect();
    for (place, (name, claim)) in claims.iter().enumerate() {
        for (other_name, other) in &claims[..place] {
            let nothing = |c: &Claim| c.hosts.is_empty() && c.paths.is_empty();
            if nothing(claim) || nothing(other) {
                continue;
            }
            let hosts = match (claim.hosts.is_empty(), other.hosts.is_empty()) {
                (true, true) => true,
                (false, false) => claim.hosts.iter().any(|host| other.hosts.contains(host)),
                _ => false,
            };
            let paths_of = |c: &'a Claim| match c.paths.is_empty() {
                true => any_path.to_vec(),
                false => c.paths.clone(),
            };
            let others = paths_of(other);
            if hosts && paths_of(claim).iter().any(|path| others.contains(path)) {
                return Some((other_name, name));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> HostClaim {
        text.parse().unwrap()
    }

    fn claim(hosts: &[&str], paths: &[&str]) -> Claim {
        Claim {
            hosts: hosts.iter().map(|text| host(text)).collect(),
            paths: paths.iter().map(|text| text.parse().unwrap()).collect(),
            known_as: Vec::new(),
        }
    }

    #[test]
    fn a_path_is_claimed_by_whole_segments_and_the_longest_wins() {
        let image = claim(&[], &["/image/"]);
        for (path, fits) in [
            ("/image", true),
            ("/image/v2", true),
            ("/images", false),
            ("/IMAGE", false),
            ("/", false),
        ] {
            assert_eq!(image.at_shared(None, path).is_some(), fits, "{path}");
        }
        let deeper = claim(&[], &["/image/v2"]);
        let path = "/image/v2/images";
        assert!(deeper.at_shared(None, path) > image.at_shared(None, path));
        assert_eq!(claim(&[], &[]).at_shared(None, "/"), None);
        assert_eq!(claim(&[], &["/"]).at_shared(None, "/any"), Some((0, 0)));
    }

    #[test]
    fn a_host_stands_over_a_path_and_a_port_over_none() {
        let by_host = claim(&["Image.Example."], &[]);
        let asked = host("image.example:8080");
        assert!(
            by_host.at_shared(Some(&asked), "/v2")
                > claim(&[], &["/v2"]).at_shared(Some(&asked), "/v2")
        );
        let by_port = claim(&["image.example:8080"], &[]);
        assert!(by_port.at_shared(Some(&asked), "/") > by_host.at_shared(Some(&asked), "/"));
        assert_eq!(
            by_port.at_shared(Some(&host("image.example:81")), "/"),
            None
        );
        assert_eq!(by_host.at_shared(Some(&host("evil.example")), "/"), None);
        assert_eq!(by_host.at_shared(None, "/"), None);
    }

    #[test]
    fn a_forward_proxy_goes_by_names_of_hosts_alone() {
        let mut image = claim(&["10.0.0.5:9292"], &[]);
        image.known_as.push(host("image"));
        for (asked, fits) in [
            ("image", true),
            ("image:9292", true),
            ("10.0.0.5:9292", true),
            ("10.0.0.5:22", false),
            ("10.0.0.5", false),
        ] {
            assert_eq!(
                image.at_forward(&host(asked), "/").is_some(),
                fits,
                "{asked}"
            );
            assert_eq!(image.at_tunnel(&host(asked)).is_some(), fits, "{asked}");
        }
        let by_path = claim(&[], &["/"]);
        assert_eq!(by_path.at_forward(&host("evil.example"), "/"), None);
    }

    #[test]
    fn what_is_no_claim_is_refused_and_so_is_the_same_twice() {
        for bad in ["", ".", "a b", "user@host", "host:notaport", "http://host/"] {
            assert!(bad.parse::<HostClaim>().is_err(), "{bad}");
        }
        for bad in ["", "image", "/a?b", "/a/../b", "/a//b", "/%61"] {
            assert!(bad.parse::<PathClaim>().is_err(), "{bad}");
        }
        let (a, b): (ServiceName, ServiceName) = ("a".parse().unwrap(), "b".parse().unwrap());
        let twice =
            |one: &Claim, two: &Claim| same_claim([(&a, one), (&b, two)].into_iter()).is_some();
        assert!(twice(&claim(&["x"], &[]), &claim(&["X", "y"], &[])));
        assert!(twice(&claim(&[], &["/v"]), &claim(&[], &["/v/"])));
        assert!(!twice(&claim(&["x"], &["/v"]), &claim(&["x"], &["/w"])));
        assert!(!twice(&claim(&["x"], &[]), &claim(&[], &["/w"])));
        assert!(!twice(&claim(&[], &[]), &claim(&[], &[])));
    }
}
