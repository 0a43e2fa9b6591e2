//! The promises of membership, in worlds small enough for every run of the tests. The book has the
//! figures of large ones.

use cheops_sim_sites::matrix::Matrix;
use cheops_sim_sites::places::Places;
use cheops_sim_sites::scenarios::{
    Ways, detection, false_marks, isolation, median, partial_cut, traffic,
};
use cheops_sim_sites::world::Settings;

fn settings(sites: u16, loss_permille: u64) -> Settings {
    Settings {
        sites,
        loss_permille,
        seed: 42,
    }
}

#[test]
fn a_dead_site_is_known_to_all_in_time_and_live_ones_are_not_doubted() {
    for loss in [0, 70] {
        let found = detection(settings(100, loss), 5);
        assert!(median(&found.all_ms) <= 15_000, "{loss}: {found:?}");
        assert!(
            found.all_ms.iter().all(|ms| *ms < 30_000),
            "{loss}: {found:?}"
        );
    }
    let marks = false_marks(settings(100, 70), 30);
    assert_eq!(marks.events, 0, "{marks:?}");
}

#[test]
fn a_mesh_costs_little_whatever_its_size() {
    let small = traffic(settings(50, 30), 20);
    let large = traffic(settings(400, 30), 20);
    assert!(large < 1500.0, "{large} bytes a second");
    assert!(large < small * 1.5, "{small} at 50 sites, {large} at 400");
}

#[test]
fn cuts_with_a_way_around_are_seen_as_such_and_nobody_is_given_up() {
    let both = partial_cut(settings(30, 30), 3, Ways::Both, 8);
    assert_eq!(
        (both.indirect, both.false_marks, both.flaps),
        (both.pairs, 0, 0),
        "{both:?}"
    );
    let one = partial_cut(settings(30, 30), 3, Ways::One, 8);
    assert_eq!(
        (one.indirect, one.one_way),
        (one.pairs / 2, one.pairs / 2),
        "{one:?}"
    );
    assert_eq!((one.false_marks, one.flaps), (0, 0), "{one:?}");
}

#[test]
fn a_site_cut_off_shows_nobody_connected_and_comes_back_without_harm() {
    let lone = isolation(settings(100, 30));
    assert!(lone.alone_ms <= 8_000, "{lone:?}");
    assert!(lone.back_ms <= 60_000, "{lone:?}");
    assert_eq!(lone.doubted, 0, "{lone:?}");
}

#[test]
fn coordinates_tell_measured_round_trips() {
    for (matrix, error_max) in [
        (Matrix::azure(), 0.12),
        (Matrix::multicloud(), 0.12),
        (Matrix::planetlab(), 0.20),
    ] {
        let mut places = Places::new(&matrix, 1);
        places.sample(100);
        let error = places.median_error(None);
        assert!(error <= error_max, "{}: {error}", matrix.name);
        places.step(0, 80.0);
        let at_once = places.median_error(Some(0));
        places.sample(100);
        let later = places.median_error(Some(0));
        assert!(
            later < 0.15 && later < at_once,
            "{}: {at_once}, then {later}",
            matrix.name
        );
    }
}
