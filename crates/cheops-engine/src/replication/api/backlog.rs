//! How far other sites are behind, as far as this one knows.

use std::collections::BTreeMap;

use cheops_core::Site;
use cheops_core::eventual::ReplicaState;
use cheops_model::{Mark, SiteName};

use super::super::Replication;
use crate::api::{self, Sites};
use crate::picture::Picture;

/// What a site has not done yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Operations it has not applied.
    pub behind: u64,
    /// Operations waiting here to be brought to it.
    pub queued: u64,
}

impl Replication {
    /// By site; a site that is not named has no backlog.
    pub async fn backlogs(&self) -> BTreeMap<SiteName, Backlog> {
        let mut all: BTreeMap<SiteName, Backlog> = BTreeMap::new();
        for part in self.look_everywhere(backlogs).await {
            for (site, one) in part {
                let sum = all.entry(site).or_default();
                sum.behind += one.behind;
                sum.queued += one.queued;
            }
        }
        all
    }

    /// Every known site with its backlog; one that is connected and has one is `synchronizing`.
    pub async fn sites(&self, picture: &Picture) -> Sites {
        let backlogs = self.backlogs().await;
        let mut sites = api::sites(picture);
        for item in &mut sites.items {
            let Some(backlog) = backlogs.get(&item.name) else {
                continue;
            };
            (item.behind, item.queued) = (backlog.behind, backlog.queued);
            let here = item.name == picture.here;
            let late = backlog.behind > 0 || backlog.queued > 0;
            if late && !here && item.mark == Mark::Connected.word() {
                item.mark = Mark::Synchronizing.word().to_owned();
            }
        }
        sites
    }
}

fn backlogs(site: &Site) -> BTreeMap<SiteName, Backlog> {
    let mut all: BTreeMap<SiteName, Backlog> = BTreeMap::new();
    for glance in site.glances() {
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
        let leader = site.glance(op.replicant).map(|g| g.epoch().site.clone());
        if let Some(leader) = leader.filter(|leader| leader != site.name()) {
            all.entry(leader).or_default().queued += 1;
        }
    }
    all
}
