//! Values that are good at one site only, such as tokens: where their home is, and asking there.
//!
//! A service that is shown a token has it checked by the identity service of its own site, in a
//! request that carries nothing of the workflow it belongs to. So the agent remembers of each token
//! at which site it was minted, and sends such a check there, if the site's policy trusts that
//! site. What a profile says (`[home]`) is which requests and headers these are.
//!
//! An agent learns a home from the answer that mints the value, and from another agent that
//! forwards a request showing it: the home that agent names, or else that agent's own site. A value
//! it knows nothing of is taken for its own site's. So a wrong or missing memory ends in a check at
//! the wrong site, which refuses: never in a value accepted that no trusted site vouches for. What a
//! site refuses as its own is forgotten of it, so that nothing wrong is believed twice.
//!
//! Values are kept as keyed hashes, in memory alone, under a key that dies with the process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use cheops_model::{ServiceName, SiteName};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::config::{ProxyConfig, ServiceConfig};
use crate::limits;

/// What is to be known of such values, and whom this site trusts with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeRules {
    /// The requests that mint one; the header is the answer's.
    pub minted: Naming,
    /// The headers that show one to any service.
    pub shown: Vec<HeaderName>,
    /// The requests about one that its home has to answer; the header is the request's.
    pub asked: Naming,
    /// The header that is replaced by the value itself in what is asked at its home.
    pub replace: HeaderName,
    /// What stands for a 401 of the home towards whoever asked.
    pub refused: StatusCode,
    /// The sites whose word on their values counts here.
    pub trust: Vec<SiteName>,
}

/// Some requests, and a header that names a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Their methods.
    pub methods: Vec<Method>,
    /// What their path ends with.
    pub path: String,
    /// The header.
    pub header: HeaderName,
}

impl Naming {
    fn fits(&self, head: &Parts) -> bool {
        self.methods.contains(&head.method) && head.uri.path().ends_with(&self.path)
    }
}

/// The homes that one agent knows, of the values of one service.
pub(crate) struct Homes {
    pub(crate) service: ServiceName,
    rules: HomeRules,
    here: SiteName,
    key: [u8; 32],
    /// Locked for forwarded requests, mints and checks alone. A table for each site, so that what
    /// one site shows cannot push out what is remembered of another.
    tables: Mutex<Vec<(SiteName, Table)>>,
}

type Print = [u8; 32];

/// The homes that an agent knows, of all its services, whatever its configuration becomes. Cheap to
/// clone.
#[derive(Clone, Default)]
pub struct HomeBook(Arc<RwLock<Vec<Arc<Homes>>>>);

impl HomeBook {
    /// As a configuration has it, with nothing known yet.
    pub fn of(config: &ProxyConfig) -> HomeBook {
        let book = HomeBook::default();
        book.turn_to(book.next(config));
        book
    }

    /// What another configuration has; what stays as it was keeps what it knows.
    pub(crate) fn next(&self, config: &ProxyConfig) -> Vec<Arc<Homes>> {
        let all = self.all();
        let homes = |service: &ServiceConfig| {
            let rules = service.home.clone()?;
            let same = all.iter().find(|h| h.is_of(&service.name, &rules));
            Some(same.cloned().unwrap_or_else(|| {
                let (name, here) = (service.name.clone(), config.here.clone());
                Arc::new(Homes::new(name, here, rules))
            }))
        };
        config.services.iter().filter_map(homes).collect()
    }

    pub(crate) fn turn_to(&self, next: Vec<Arc<Homes>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    pub(crate) fn all(&self) -> Vec<Arc<Homes>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// Learns from a logged request that is about to be made here: `told` is what was logged of the
    /// values that its headers show.
    pub fn learn_logged(&self, told: &HeaderValue, headers: &HeaderMap) {
        for homes in self.all() {
            homes.learn_logged(told, headers, Instant::now());
        }
    }
}

/// A request about a value, on its way to the value's home.
pub(crate) struct Sent {
    pub(crate) home: SiteName,
    print: Print,
}

#[derive(Default)]
struct Table {
    seen: HashMap<Print, Instant>,
    /// Oldest first, for forgetting.
    order: VecDeque<(Print, Instant)>,
}

impl Homes {
    pub(crate) fn new(service: ServiceName, here: SiteName, rules: HomeRules) -> Homes {
        let trusted = rules.trust.iter().filter(|site| **site != here);
        // This site first: what it minted itself is its own, whatever others say.
        let sites = std::iter::once(&here).chain(trusted);
        let tables = sites.map(|site| (site.clone(), Table::default()));
        Homes {
            service,
            tables: Mutex::new(tables.collect()),
            rules,
            key: rand::random(),
            here,
        }
    }

    /// Whether these are the homes of that service's values, by those rules.
    pub(crate) fn is_of(&self, service: &ServiceName, rules: &HomeRules) -> bool {
        self.service == *service && self.rules == *rules
    }

    /// Whether the answer to this request mints a value.
    pub(crate) fn mints(&self, head: &Parts) -> bool {
        self.rules.minted.fits(head)
    }

    /// Remembers the value that an answer of `site` mints.
    pub(crate) fn minted(&self, site: &SiteName, answer: &HeaderMap, now: Instant) {
        if let Some(value) = answer.get(&self.rules.minted.header) {
            self.remember(value, site, now);
        }
    }

    /// The site that has to answer this request, which is changed to be asked there. `None` if it
    /// is this one.
    pub(crate) fn send_home(&self, head: &mut Parts, now: Instant) -> Option<Sent> {
        if !self.rules.asked.fits(head) {
            return None;
        }
        let value = head.headers.get(&self.rules.asked.header)?.clone();
        let home = self.find(&value, now).filter(|home| *home != self.here)?;
        let print = self.print(&value);
        head.headers.insert(self.rules.replace.clone(), value);
        Some(Sent { home, print })
    }

    /// Learns from what the home answered, and puts it in terms of the asker.
    pub(crate) fn answered<B>(&self, sent: &Sent, answer: &mut Response<B>) {
        let unauthorized = answer.status() == StatusCode::UNAUTHORIZED;
        if unauthorized || answer.status() == StatusCode::NOT_FOUND {
            self.forget(sent);
        }
        if unauthorized {
            *answer.status_mut() = self.rules.refused;
            answer.headers_mut().remove(header::WWW_AUTHENTICATE);
        }
    }

    /// A site that does not know the value is not its home.
    fn forget(&self, sent: &Sent) {
        let mut tables = self.tables();
        if let Some((_, table)) = tables.iter_mut().find(|(site, _)| *site == sent.home) {
            // Its place in the order is dropped when its turn comes.
            table.seen.remove(&sent.print);
        }
    }

    /// What another agent should know of the values that a request shows: `header=site` for each
    /// whose home is not this site.
    pub(crate) fn told(&self, headers: &HeaderMap, now: Instant) -> Vec<String> {
        let mut told = Vec::new();
        for name in &self.rules.shown {
            let home = headers.get(name).and_then(|value| self.find(value, now));
            if let Some(home) = home.filter(|home| *home != self.here) {
                told.push(format!("{name}={home}"));
            }
        }
        told
    }

    /// The same for a request that is logged and made again elsewhere, perhaps on another site's
    /// word: the home of each value, this site too.
    pub(crate) fn logged(&self, headers: &HeaderMap, now: Instant) -> Vec<String> {
        let mut told = Vec::new();
        for name in &self.rules.shown {
            if let Some(value) = headers.get(name) {
                let home = self.find(value, now);
                told.push(format!("{name}={}", home.as_ref().unwrap_or(&self.here)));
            }
        }
        told
    }

    /// Learns from a request that `peer` forwards, and from what it told of the values shown.
    pub(crate) fn learn(
        &self,
        peer: &SiteName,
        told: Option<&HeaderValue>,
        headers: &HeaderMap,
        now: Instant,
    ) {
        self.take_in(Some(peer), told, headers, now);
    }

    /// Learns from a request out of a log, about to be made here.
    pub(crate) fn learn_logged(&self, told: &HeaderValue, headers: &HeaderMap, now: Instant) {
        self.take_in(None, Some(told), headers, now);
    }

    fn take_in(
        &self,
        otherwise: Option<&SiteName>,
        told: Option<&HeaderValue>,
        headers: &HeaderMap,
        now: Instant,
    ) {
        let told = told.and_then(|told| told.to_str().ok()).unwrap_or_default();
        let told: Vec<(&str, &str)> = told.split(';').filter_map(|t| t.split_once('=')).collect();
        for name in &self.rules.shown {
            let Some(value) = headers.get(name) else {
                continue;
            };
            let home = match told.iter().find(|(header, _)| header == name) {
                None => otherwise.cloned(),
                Some((_, site)) => SiteName::new(site).ok(),
            };
            // That a value is this site's own needs no remembering, and nobody else's word.
            if let Some(home) = home.filter(|home| *home != self.here) {
                self.remember(value, &home, now);
            }
        }
    }

    /// A site that is not trusted has no table: nothing is remembered of it.
    fn remember(&self, value: &HeaderValue, home: &SiteName, now: Instant) {
        let print = self.print(value);
        let mut tables = self.tables();
        if let Some((_, table)) = tables.iter_mut().find(|(site, _)| site == home) {
            table.put(print, now);
        }
    }

    fn find(&self, value: &HeaderValue, now: Instant) -> Option<SiteName> {
        let print = self.print(value);
        let tables = self.tables();
        let found = tables.iter().find(|(_, table)| table.has(&print, now));
        found.map(|(site, _)| site.clone())
    }

    fn print(&self, value: &HeaderValue) -> Print {
        *blake3::keyed_hash(&self.key, value.as_bytes()).as_bytes()
    }

    fn tables(&self) -> std::sync::MutexGuard<'_, Vec<(SiteName, Table)>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn put(&mut self, print: Print, now: Instant) {
        self.forget_old(now);
        let known = self.seen.get(&print);
        if known.is_some_and(|at| now.saturating_duration_since(*at) < limits::HOME_AGE_MAX / 2) {
            return;
        }
        self.seen.insert(print, now);
        self.order.push_back((print, now));
    }

    fn has(&self, print: &Print, now: Instant) -> bool {
        let at = self.seen.get(print);
        at.is_some_and(|at| now.saturating_duration_since(*at) <= limits::HOME_AGE_MAX)
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some((print, at)) = self.order.front().copied() {
            let old = now.saturating_duration_since(at) > limits::HOME_AGE_MAX;
            if !old && self.order.len() < limits::HOMES_MAX {
                break;
            }
            self.order.pop_front();
            // One that was seen again since has a younger place in the order.
            if self.seen.get(&print) == Some(&at) {
                self.seen.remove(&print);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    fn naming(method: Method) -> Naming {
        Naming {
            methods: vec![method],
            path: "/tokens".to_owned(),
            header: HeaderName::from_static("x-subject"),
        }
    }

    fn homes(here: &str, trust: &[&str]) -> Homes {
        let rules = HomeRules {
            minted: naming(Method::POST),
            shown: vec![
                HeaderName::from_static("x-auth"),
                HeaderName::from_static("x-service"),
            ],
            asked: naming(Method::GET),
            replace: HeaderName::from_static("x-auth"),
            refused: StatusCode::NOT_FOUND,
            trust: trust.iter().map(|name| site(name)).collect(),
        };
        Homes::new("identity".parse().unwrap(), site(here), rules)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            let value = HeaderValue::from_str(value).unwrap();
            (HeaderName::from_static(name), value)
        };
        pairs.iter().map(pair).collect()
    }

    fn check_of(token: &str) -> Parts {
        let request = Request::get("/v3/tokens?x=1")
            .header("x-subject", token)
            .header("x-auth", "the asking service's");
        request.body(()).unwrap().into_parts().0
    }

    /// Where the check of `token` goes.
    fn home_of(homes: &Homes, token: &str) -> Option<SiteName> {
        let sent = homes.send_home(&mut check_of(token), Instant::now());
        sent.map(|sent| sent.home)
    }

    #[test]
    fn a_shown_token_is_checked_at_the_site_that_forwarded_it_and_by_itself() {
        let homes = homes("b", &["a"]);
        let now = Instant::now();
        let shown = headers(&[("x-auth", "user"), ("x-service", "nova")]);
        homes.learn(&site("a"), None, &shown, now);
        for token in ["user", "nova"] {
            let mut head = check_of(token);
            let sent = homes.send_home(&mut head, now);
            assert_eq!(sent.unwrap().home, site("a"));
            assert_eq!(head.headers["x-auth"], token);
        }
        let mut other = check_of("other");
        assert!(homes.send_home(&mut other, now).is_none());
        assert_eq!(other.headers["x-auth"], "the asking service's");
        other.method = Method::DELETE;
        assert!(homes.send_home(&mut other, now).is_none());
    }

    #[test]
    fn what_another_agent_tells_stands_over_where_it_is() {
        let (one, two) = (homes("a", &["c"]), homes("b", &["a", "c"]));
        let now = Instant::now();
        one.minted(&site("c"), &headers(&[("x-subject", "far")]), now);
        let shown = headers(&[("x-auth", "far"), ("x-service", "near")]);
        let told = one.told(&shown, now);
        assert_eq!(told, ["x-auth=c"]);
        let told = HeaderValue::from_str(&told.join(";")).unwrap();
        two.learn(&site("a"), Some(&told), &shown, now);
        assert_eq!(home_of(&two, "far"), Some(site("c")));
        assert_eq!(home_of(&two, "near"), Some(site("a")));
    }

    #[test]
    fn a_logged_request_says_of_every_value_where_its_home_is() {
        let (one, two) = (homes("a", &["c"]), homes("b", &["a", "c"]));
        let now = Instant::now();
        one.minted(&site("c"), &headers(&[("x-subject", "far")]), now);
        let shown = headers(&[("x-auth", "far"), ("x-service", "near")]);
        let told = one.logged(&shown, now);
        assert_eq!(told, ["x-auth=c", "x-service=a"]);
        let told = HeaderValue::from_str(&told.join(";")).unwrap();
        two.learn_logged(&told, &shown, now);
        assert_eq!(home_of(&two, "far"), Some(site("c")));
        assert_eq!(home_of(&two, "near"), Some(site("a")));
        // Of what nothing was logged, nothing is believed.
        let more = headers(&[("x-auth", "new")]);
        two.learn_logged(&HeaderValue::from_static(""), &more, now);
        assert_eq!(home_of(&two, "new"), None);
    }

    #[test]
    fn nothing_is_learnt_of_a_site_that_is_not_trusted() {
        let homes = homes("b", &["a"]);
        let now = Instant::now();
        let shown = headers(&[("x-auth", "user")]);
        homes.learn(&site("c"), None, &shown, now);
        let told = HeaderValue::from_static("x-auth=c");
        homes.learn(&site("a"), Some(&told), &shown, now);
        assert_eq!(home_of(&homes, "user"), None);
    }

    #[test]
    fn a_site_keeps_what_it_minted_whatever_others_say() {
        let homes = homes("b", &["a"]);
        let now = Instant::now();
        homes.minted(&site("b"), &headers(&[("x-subject", "own")]), now);
        homes.learn(&site("a"), None, &headers(&[("x-auth", "own")]), now);
        assert_eq!(home_of(&homes, "own"), None);
        assert!(homes.told(&headers(&[("x-auth", "own")]), now).is_empty());
    }

    #[test]
    fn a_site_that_refuses_a_value_is_no_longer_its_home() {
        let homes = homes("b", &["a"]);
        let now = Instant::now();
        homes.learn(&site("a"), None, &headers(&[("x-auth", "t")]), now);
        let sent = homes.send_home(&mut check_of("t"), now).unwrap();
        // Whoever asks is not told that its own credentials are no good: they were not sent.
        let answers = [(503, 503, Some(site("a"))), (401, 404, None)];
        for (status, told, home) in answers {
            let mut answer = Response::builder().status(status).body(()).unwrap();
            homes.answered(&sent, &mut answer);
            assert_eq!(answer.status().as_u16(), told);
            assert_eq!(home_of(&homes, "t"), home);
        }
        homes.learn(&site("a"), None, &headers(&[("x-auth", "t")]), now);
        assert_eq!(home_of(&homes, "t"), Some(site("a")));
    }

    #[test]
    fn what_one_site_shows_pushes_out_its_own_alone() {
        let homes = homes("b", &["a", "c"]);
        let now = Instant::now();
        homes.learn(&site("c"), None, &headers(&[("x-auth", "kept")]), now);
        homes.learn(&site("a"), None, &headers(&[("x-auth", "first")]), now);
        for n in 0..limits::HOMES_MAX {
            let junk = n.to_string();
            homes.learn(&site("a"), None, &headers(&[("x-auth", &junk)]), now);
        }
        assert_eq!(home_of(&homes, "first"), None);
        assert_eq!(home_of(&homes, "kept"), Some(site("c")));
        let held = |(_, table): &(SiteName, Table)| table.seen.len().max(table.order.len());
        let most = homes.tables().iter().map(held).max();
        assert!(most <= Some(limits::HOMES_MAX), "{most:?}");
        let late = now + limits::HOME_AGE_MAX * 2;
        assert!(homes.send_home(&mut check_of("kept"), late).is_none());
    }

    #[test]
    fn no_token_is_held_as_it_is() {
        let homes = homes("b", &["a"]);
        let now = Instant::now();
        let token = "gAAAAABmZZ-a-long-token-of-thirty-two-or-more";
        homes.learn(&site("a"), None, &headers(&[("x-auth", token)]), now);
        let tables = homes.tables();
        let table = &tables[1].1;
        assert_eq!(table.seen.len(), 1);
        assert!(
            table
                .seen
                .keys()
                .all(|print| !token.as_bytes().starts_with(print))
        );
    }
}
