//! The worlds that tests resolve against, by name.

use std::time::Duration;

use cheops_scope::{World, WorldBuilder};

/// The world of that name.
pub(crate) fn world(name: &str) -> World {
    match name {
        "sites" => sites(),
        "centres" => plain("DC 1", &["DC 2"], &["compute", "image"]),
        "paper" => paper(),
        "apps" => plain("App1", &["App2"], &["s", "t"]),
        "odd" => odd(),
        "many" => many(),
        other => panic!("no world is called {other}"),
    }
}

/// Four sites in two regions; site4 is cut off, and its round trip to site1 unknown.
fn sites() -> World {
    let mut world = World::builder(site("site1"));
    labelled(
        &mut world,
        "site1",
        &[("region", "west"), ("disk", "ssd")],
        true,
    );
    labelled(&mut world, "site2", &[("region", "west")], true);
    labelled(
        &mut world,
        "site3",
        &[("region", "east"), ("disk", "ssd")],
        true,
    );
    labelled(&mut world, "site4", &[("region", "east")], false);
    far(&mut world, "site1", "site2", 12_500);
    far(&mut world, "site1", "site3", 10_000);
    far(&mut world, "site2", "site3", 10_000);
    far(&mut world, "site2", "site4", 400);
    service(&mut world, "compute", &["nova"]);
    service(&mut world, "image", &["glance"]);
    service(&mut world, "network", &["neutron"]);
    world.build()
}

/// The names of the first papers.
fn paper() -> World {
    let mut world = World::builder(site("Site1"));
    world.site(site("Site2"));
    far(&mut world, "Site1", "Site2", 8_000);
    service(&mut world, "compute", &["Nova"]);
    service(&mut world, "image", &["Glance"]);
    world.build()
}

/// Names that need quotes somewhere, and two sites 0 ms apart.
fn odd() -> World {
    let mut world = World::builder(site("m"));
    for name in [
        "here", "10", "10ms", "1.5", "-edge", "a -b", "DC 1", "A", "all", "around",
    ] {
        world.site(site(name));
    }
    labelled(
        &mut world,
        "quoted",
        &[("say", "\"hi\\\""), ("ville", "Orléans")],
        true,
    );
    far(&mut world, "m", "A", 0);
    service(&mut world, "s", &["two words"]);
    service(&mut world, "-t", &[]);
    world.build()
}

/// n0000 … n1099, each a millisecond further from n0000; the first 1,024 labelled, and 65.
fn many() -> World {
    let mut world = World::builder(site("n0000"));
    for n in 0..1100 {
        let name = format!("n{n:04}");
        let mut labels = vec![("all", "yes")];
        labels.extend((n < 1024).then_some(("some", "yes")));
        labels.extend((n < 65).then_some(("few", "yes")));
        labelled(&mut world, &name, &labels, true);
        far(&mut world, "n0000", &name, n * 1000);
    }
    service(&mut world, "s", &[]);
    world.build()
}

fn plain(here: &str, others: &[&str], services: &[&str]) -> World {
    let mut world = World::builder(site(here));
    for other in others {
        world.site(site(other));
    }
    for name in services {
        service(&mut world, name, &[]);
    }
    world.build()
}

fn site(name: &str) -> cheops_model::SiteName {
    name.parse().unwrap()
}

fn labelled(world: &mut WorldBuilder, name: &str, labels: &[(&str, &str)], reachable: bool) {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    world.site_with(site(name), labels.iter().map(pair).collect(), reachable);
}

fn far(world: &mut WorldBuilder, a: &str, b: &str, us: u64) {
    world.round_trip(site(a), site(b), Duration::from_micros(us));
}

fn service(world: &mut WorldBuilder, name: &str, aliases: &[&str]) {
    let aliases: Vec<_> = aliases.iter().map(|alias| alias.parse().unwrap()).collect();
    world.service(name.parse().unwrap(), aliases);
}
