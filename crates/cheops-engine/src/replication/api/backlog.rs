//! How far other sites are behind, as far as this one knows.

use std::sync::Arc;
use std::time::Duration;

use cheops_core::Site;
use cheops_core::eventual::ReplicaState;
use cheops_model::Mark;
use tokio::sync::watch;

use super::super::Replication;
use crate::api::{self, Sites};
use crate::mesh::Backlogs;
use crate::picture::Picture;

/// How old a mark `synchronizing` may be: a look through all records, so not all the time.
const TELL_EVERY: Duration = Duration::from_secs(1);

impl Replication {
    /// By site; a site that is not named has no backlog.
    pub async fn backlogs(&self) -> Backlogs {
        let mut all = Backlogs::new();
        for part in self.look_everywhere(backlogs).await {
            for (site, one) in part {
                let sum = all.entry(site).or_default();
                sum.behind += one.behind;
                sum.queued += one.queued;
            }
        }
        all
    }

    /// Tells how far every site is behind, whenever that has changed, until nobody wants to know.
    pub async fn tell_backlogs(self, sink: Arc<watch::Sender<Arc<Backlogs>>>) {
        let mut beat = tokio::time::interval(TELL_EVERY);
        loop {
            beat.tick().await;
            let now = Arc::new(self.backlogs().await);
            sink.send_if_modified(|told| {
                let changed = *told != now;
                *told = now;
                changed
            });
            if sink.is_closed() {
                return;
            }
        }
    }

    /// Every known site with its backlog; one that is connected and has one is `synchronizing`.
    pub async fn sites(&self, picture: &Picture) -> Sites {
        let backlogs = self.backlogs().await;
        let mut sites = api::sites(picture);
        let reached = [Mark::Connected, Mark::Synchronizing].map(Mark::word);
        for item in &mut sites.items {
            let backlog = backlogs.get(&item.name).copied().unwrap_or_default();
            (item.behind, item.queued) = (backlog.behind, backlog.queued);
            if item.name != picture.here && reached.contains(&item.mark.as_str()) {
                let late = backlog.behind > 0 || backlog.queued > 0;
                item.mark = reached[usize::from(late)].to_owned();
            }
        }
        sites
    }
}

fn backlogs(site: &Site) -> Backlogs {
    let mut all = Backlogs::new();
    // What is stranded waits for a person, not for a site.
    // What rests is nowhere behind.
    for glance in site.awake().filter(|glance| !glance.is_stranded()) {
        let last = glance.last();
        for (name, row) in glance.rows() {
            let carries = row.state == ReplicaState::Carrier;
            let behind = if carries {
                0
            } else {
                last.saturating_sub(row.applied)
            };
            let queued = match name == site.name() {
                true => 0,
                false => glance.unsent_to(name).unwrap_or(0).min(behind),
            };
            if behind > 0 {
                let sum = all.entry(name.clone()).or_default();
                sum.behind += behind;
                sum.queued += queued;
            }
        }
    }
    for op in site.outbox() {
        let glance = site.glance(op.replicant).filter(|g| !g.is_stranded());
        let leader = glance.map(|g| g.epoch().site.clone());
        if let Some(leader) = leader.filter(|leader| leader != site.name()) {
            all.entry(leader).or_default().queued += 1;
        }
    }
    all
}
