//! A machine whose clock is set while its agent runs, and before it starts again.

use std::path::PathBuf;

use crate::common::agent::Agent;
use crate::common::client::get;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::sites::told::Events;

/// Stands between a program and the clock that people set: an hour behind while a file is there.
const SHIM: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, clock, time);
    const char *file = getenv("CLOCK_BEHIND_WHILE");
    if (!failed && clock == CLOCK_REALTIME && file && access(file, F_OK) == 0) time->tv_sec -= 3600;
    return (int)failed;
}
"#;

/// The shim, made by the compiler that links this test, and the file that sets the clock back.
struct Clock {
    shim: PathBuf,
    behind: PathBuf,
}

impl Clock {
    fn make(mesh: &Mesh) -> Clock {
        let source = mesh.path().join("clock.c");
        let shim = mesh.path().join("clock.so");
        std::fs::write(&source, SHIM).unwrap();
        let made = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&shim, &source])
            .status();
        assert!(made.unwrap().success());
        let behind = mesh.path().join("behind");
        Clock { shim, behind }
    }

    async fn start(&self, mesh: &mut Mesh, number: usize) {
        let config = mesh.site(number).config.clone();
        let environment = [
            ("LD_PRELOAD", self.shim.as_os_str()),
            ("CLOCK_BEHIND_WHILE", self.behind.as_os_str()),
        ];
        let started = Agent::start_with(&config, &environment).await;
        mesh.sites[number - 1].agent = Some(started.unwrap());
    }

    fn set_back(&self) {
        std::fs::write(&self.behind, "").unwrap();
    }

    fn set_right(&self) {
        std::fs::remove_file(&self.behind).unwrap();
    }
}

async fn seconds(events: &mut Events, kind: &str) -> i64 {
    loop {
        let told = events.next().await;
        if told.kind == kind {
            return told.body["seconds"].as_i64().unwrap();
        }
    }
}

#[tokio::test]
async fn a_clock_set_back_an_hour_is_told_of_and_changes_nothing_for_others() {
    let mut mesh = Setup::of(3).start().await;
    mesh.take_agent(2).kill().await;
    let clock = Clock::make(&mesh);
    clock.start(&mut mesh, 2).await;
    for (from, to) in [(1, 2), (3, 2), (2, 1), (2, 3)] {
        mesh.wait_mark(from, to, "connected").await;
    }
    let mut at_others = Events::of(&mesh, 1, None).await;
    let mut events = Events::of(&mesh, 2, None).await;
    clock.set_back();
    assert_eq!(seconds(&mut events, "clock-jumped").await, -3600);
    let log = mesh.agent(2).log();
    let said = log.matches("clock was set").count();
    assert_eq!(said, 1, "{log}");
    let served = get(mesh.site(1).image, "/images", Some("image: site2")).await;
    assert_eq!(served.status, 200);

    // Started again an hour behind what it was, it is the same site to the others.
    mesh.take_agent(2).kill().await;
    let (marks, _) = at_others.marks("site2", "autonomous").await;
    assert_eq!(marks.len(), 1, "the clock alone changed no mark: {marks:?}");
    clock.start(&mut mesh, 2).await;
    let mut events = Events::of(&mesh, 2, Some("0")).await;
    let behind = seconds(&mut events, "clock-behind").await;
    assert!((3000..=3600).contains(&behind), "{behind}");
    for (from, to) in [(1, 2), (3, 2), (2, 1), (2, 3)] {
        mesh.wait_mark(from, to, "connected").await;
    }
    let served = get(mesh.site(3).image, "/images", Some("image: site2")).await;
    assert_eq!(served.status, 200);

    clock.set_right();
    let forward = seconds(&mut events, "clock-jumped").await;
    assert_eq!(forward, 3600);
    for (from, to) in [(1, 2), (3, 2)] {
        let seen = mesh.seen_from(from, to).await.unwrap();
        assert_eq!(seen["mark"], "connected", "{seen}");
    }
}
