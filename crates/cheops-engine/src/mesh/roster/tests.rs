//! The laws of the roster.

use cheops_model::Labels;

use super::*;

fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

fn now() -> Now {
    Now::read()
}

fn announcement(name: &str) -> Announcement {
    Announcement {
        site: site(name),
        incarnation: 1,
        labels: Labels::default(),
        parent: None,
        links: Vec::new(),
        held: false,
        advertise: format!("{name}:1"),
        services: Vec::new(),
        protocol: 1,
    }
}

fn hello(name: &str, known: &[(&str, &str)]) -> Hello {
    let known = known.iter().map(|(name, address)| KnownSite {
        site: site(name),
        advertise: (*address).into(),
        announcement: None,
        standing: None,
    });
    Hello {
        announcement: announcement(name),
        known: known.collect(),
        state: Beat {
            announcement: 1,
            known: 0,
        },
        again: false,
    }
}

fn roster() -> Roster {
    Roster::new(announcement("a"), Saved::new(Vec::new()), now()).0
}

/// The view after a judgement that rests on links alone, each of which is kept.
fn view(roster: &mut Roster, change: Change) -> View {
    let grounds = Grounds {
        hears: true,
        kept: &|_| true,
        outlook: &|_| Outlook {
            state: None,
            reach: Reach::Untried,
            place: None,
            near: None,
        },
        backlogs: &Backlogs::default(),
    };
    roster.judge(now(), &grounds);
    roster.view(change)
}

fn seen() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

/// The roster after a hello over our own link to `name`, and what it asked for.
fn linked(name: &str, known: &[(&str, &str)]) -> (Roster, Effects) {
    let mut roster = roster();
    let mut effects = Effects::default();
    let via = Via::Dialled("way:1", seen());
    roster
        .greet(hello(name, known), via, now(), &mut effects)
        .unwrap();
    (roster, effects)
}

#[test]
fn a_hello_makes_its_sender_and_those_it_tells_of_known() {
    let (mut roster, effects) = linked("b", &[("a", "x:1"), ("c", "c:1")]);
    assert!(effects.publish && effects.save && effects.say);
    assert_eq!(effects.dial, BTreeSet::from([site("b"), site("c")]));
    let view = self::view(&mut roster, Change::Matter);
    assert_eq!(view.sites[&site("b")].mark, Mark::Connected);
    assert_eq!(view.sites[&site("b")].advertise.as_deref(), Some("way:1"));
    assert_eq!(view.sites[&site("c")].mark, Mark::Unknown);
    assert_eq!(view.sites[&site("a")].advertise.as_deref(), Some("a:1"));
    assert_eq!(roster.addresses(&site("b")), ["b:1", "way:1"]);
}

#[test]
fn the_same_hello_again_changes_nothing() {
    let (mut roster, _) = linked("b", &[("c", "c:1")]);
    let mut effects = Effects::default();
    let again = hello("b", &[("c", "c:1"), ("b", "old:1")]);
    roster
        .greet(again, Via::Dialled("way:1", seen()), now(), &mut effects)
        .unwrap();
    assert_eq!(effects, Effects::default());
}

#[test]
fn whoever_calls_while_believed_away_is_called_back() {
    let (mut roster, _) = linked("b", &[]);
    let mut effects = Effects::default();
    roster.link_down(&site("b"), &mut effects);
    assert!(effects.publish);
    assert_eq!(
        view(&mut roster, Change::Matter).sites[&site("b")].mark,
        Mark::Autonomous
    );
    let mut effects = Effects::default();
    roster
        .greet(hello("b", &[]), Via::Accepted(seen()), now(), &mut effects)
        .unwrap();
    assert_eq!(
        effects,
        Effects {
            wake: Some(site("b")),
            ..Effects::default()
        }
    );
}

#[test]
fn times_do_not_make_a_new_version() {
    let (mut roster, _) = linked("b", &[]);
    let version = view(&mut roster, Change::Matter).version;
    assert!(roster.beat(&site("b"), Duration::from_millis(3), now()));
    let view = self::view(&mut roster, Change::Times);
    assert_eq!(view.version, version);
    assert_eq!(
        view.sites[&site("b")].rtt.unwrap().value,
        Duration::from_millis(3)
    );
    assert!(!roster.beat(&site("z"), Duration::ZERO, now()));
}

#[test]
fn agents_that_know_the_same_sites_have_the_same_digest() {
    let (mut of_a, _) = linked("b", &[("c", "c:1")]);
    let (mut of_c, _) = Roster::new(announcement("c"), Saved::new(Vec::new()), now());
    assert_ne!(of_a.state().known, of_c.state().known);
    let told = of_a.hello();
    of_c.greet(told, Via::Accepted(seen()), now(), &mut Effects::default())
        .unwrap();
    assert_ne!(of_a.state().known, of_c.state().known, "c said nothing yet");
    let told = of_c.hello();
    of_a.greet(told, Via::Accepted(seen()), now(), &mut Effects::default())
        .unwrap();
    assert_eq!(of_a.state().known, of_c.state().known);
}

#[test]
fn sites_beyond_the_bound_are_not_learnt() {
    let mut roster = roster();
    let mut effects = Effects::default();
    for n in 0..SITES_MAX + 2 {
        roster.meet(&site(&format!("s{n}")), "x:1", now(), &mut effects);
    }
    assert_eq!(view(&mut roster, Change::Matter).sites.len(), SITES_MAX + 1);
    let late = roster.greet(hello("b", &[]), Via::Accepted(seen()), now(), &mut effects);
    assert_eq!(late, Err(Refusal::Full));
}
