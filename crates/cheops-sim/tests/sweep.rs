//! A bounded sweep: worlds with faults in which every law has to hold. Longer ones are run with
//! `cargo run --profile sim -p cheops-sim -- --seeds A..B`.

use cheops_sim::sweep::sweep;

#[test]
fn every_law_holds_in_a_few_hundred_worlds() {
    let summary = sweep(0..300, None, 1);
    let told: Vec<_> = summary
        .failures
        .iter()
        .map(|failure| format!("seed {}: {}: {}", failure.seed, failure.law, failure.what))
        .collect();
    assert!(told.is_empty(), "{told:#?}");
    assert_eq!(summary.worlds, 300);
}
