//! What is sent at first, and what is kept for a site that is away.

mod common;

use cheops_core::eventual::ReplicaState;
use cheops_core::{Answer, Call, Message, OperationId, ReplicantId, Table};
use common::{Bench, applied, create, name, update};

/// Answers whatever is called, until nothing is.
fn serve(bench: &mut Bench) {
    for _ in 0..20 {
        bench.wait(100);
        while let Some((site, id, call)) = bench.calls.pop() {
            let local = format!("{site}-1");
            let local = matches!(call, Call::Create { .. }).then_some(local.as_str());
            bench.outcome(site.as_str(), id, applied(local));
        }
    }
}

#[test]
fn the_first_message_about_a_replicant_brings_its_create() {
    let mut bench = Bench::new(&["a", "b"]);
    bench.submit("a", 1, create(7, &["a", "b"]));
    let (site, id, _) = bench.calls.pop().unwrap();
    bench.outcome(site.as_str(), id, applied(Some("11")));
    let said = bench.posts.iter().map(|(_, _, envelope)| &envelope.message);
    let brought: Vec<usize> = said
        .filter_map(|message| match message {
            Some(Message::Append { entries, .. }) => Some(entries.len()),
            _ => None,
        })
        .collect();
    assert_eq!(brought, [1]);
}

#[test]
fn a_site_away_for_too_long_or_for_too_much_needs_settle() {
    let week_ms = cheops_core::limits::RETAIN_MS;
    let heavy = "x".repeat(common::RETAIN_BYTES);
    for (value, away_ms) in [("1", week_ms), (heavy.as_str(), 1_000)] {
        let mut bench = Bench::new(&["a", "b", "c"]);
        bench.submit("a", 1, create(7, &["a", "b", "c"]));
        serve(&mut bench);
        bench.sites.remove(&name("b"));
        bench.submit("a", 2, update(8, 7, &[("x", value)], &["a", "b", "c"]));
        serve(&mut bench);
        let needs = |bench: &Bench| {
            let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
            view.needs_settle.into_iter().collect::<Vec<_>>()
        };
        if away_ms == week_ms {
            bench.wait(week_ms / 2);
            assert_eq!(needs(&bench), [], "half the time is not too long");
        }
        bench.wait(away_ms);
        bench.wait(1_000);
        assert_eq!(needs(&bench), [name("b")]);
        bench.start("b", 1);
        bench.settle();
        bench.wait(1_000);
        serve(&mut bench);
        assert_eq!(needs(&bench), [], "it was settled");
        let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
        assert_eq!(view.rows[&name("b")].state, ReplicaState::Live);
    }
}

#[test]
fn a_retry_at_a_follower_is_answered_when_it_is_done_there() {
    let mut bench = Bench::new(&["a", "b"]);
    bench.submit("a", 1, create(7, &["a", "b"]));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(Some("11")));
    bench.settle();
    let (call, _) = bench.call_at("b");
    bench.submit("b", 2, create(7, &["a", "b"]));
    assert_eq!(bench.answer_to(2), None, "it is on its way");
    bench.outcome("b", call, applied(Some("12")));
    bench.submit("b", 3, create(7, &["a", "b"]));
    for client in [2, 3] {
        let said = bench.answer_to(client);
        assert!(
            matches!(said, Some(Answer::Service { status: 201, .. })),
            "{said:?}"
        );
    }
}

#[test]
fn what_became_of_passing_operations_is_soon_forgotten_and_of_others_is_not() {
    let sites = &["a", "b"];
    let mut bench = Bench::new(sites);
    bench.submit("a", 1, create(7, sites));
    serve(&mut bench);
    for number in 1..=30 {
        let id = match number % 3 {
            0 => OperationId::lasting(100 + number),
            _ => OperationId::passing(100 + number),
        };
        let changed = update(id.0, 7, &[("x", &number.to_string())], sites);
        bench.submit("a", number as u64 + 1, changed);
        serve(&mut bench);
    }
    let kept = |bench: &Bench, site: &str| {
        let records = bench.disks[&name(site)].keys();
        let answers = records.filter(|(table, _)| *table == Table::Answers);
        answers.count()
    };
    for site in sites {
        assert!(kept(&bench, site) >= 24, "all but the last few are folded");
    }
    for _ in 0..3 {
        bench.wait(cheops_core::limits::PASSING_MS / 2);
    }
    for site in sites {
        // The create, and every third; some of them are still in the log.
        assert!(kept(&bench, site) <= 11, "{}", kept(&bench, site));
        assert!(kept(&bench, site) >= 8, "{}", kept(&bench, site));
    }
}
