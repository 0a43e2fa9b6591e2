//! What a mesh is to be like, and the files that say so.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use cheops_samples::IdForm;

use super::mesh::Mesh;

/// What a mesh is to be like; the default is one site with both services.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) sites: usize,
    /// From one site to another, one way.
    pub(crate) delay: Duration,
    /// Datagrams that get lost between sites, of a million.
    pub(crate) loss_ppm: u32,
    /// Keys of `[service.image]` and `[service.compute]` at every site.
    pub(crate) image: String,
    pub(crate) compute: String,
    /// Sections at the end of every site's file.
    pub(crate) more: String,
    /// Where the image service of a site really is, if not a sample.
    pub(crate) image_at: Vec<(usize, SocketAddr)>,
    /// Sites and the sites above them.
    pub(crate) parents: Vec<(usize, usize)>,
    /// Sites and the sites beside them that they declare a link with.
    pub(crate) declared: Vec<(usize, usize)>,
    /// Sites without an image service.
    pub(crate) no_image_at: Vec<usize>,
    /// What the compute passes on to the image service.
    pub(crate) passed_on: &'static str,
    /// What the ids of the image services look like.
    pub(crate) ids: IdForm,
    /// The largest content that image services keep.
    pub(crate) kept_bytes_max: u64,
}

impl Setup {
    pub(crate) fn of(sites: usize) -> Setup {
        Setup {
            sites,
            delay: Duration::from_millis(1),
            loss_ppm: 0,
            image: String::new(),
            compute: String::new(),
            more: String::new(),
            image_at: Vec::new(),
            parents: Vec::new(),
            declared: Vec::new(),
            no_image_at: Vec::new(),
            passed_on: "x-request-id",
            ids: IdForm::Uuid,
            kept_bytes_max: 256 << 20,
        }
    }

    /// With another image service at one site.
    pub(crate) fn image_at(mut self, site: usize, address: SocketAddr) -> Setup {
        self.image_at.push((site, address));
        self
    }

    /// Starts everything and waits until every site is connected to every other.
    pub(crate) async fn start(self) -> Mesh {
        let mesh = self.start_agents().await;
        for from in 1..=mesh.sites.len() {
            for to in 1..=mesh.sites.len() {
                mesh.wait_mark(from, to, "connected").await;
            }
        }
        mesh
    }

    /// Starts everything, and again on other ports if one was taken meanwhile.
    pub(crate) async fn start_agents(self) -> Mesh {
        for _ in 0..5 {
            let mut mesh = Mesh::lay_out(&self).await;
            match mesh.start_all().await {
                Ok(()) => return mesh,
                Err(log) if log.contains("is the port taken?") => (),
                Err(log) => panic!("an agent did not start: {log}"),
            }
        }
        panic!("no ports are free");
    }

    /// The file of a site.
    pub(super) fn configuration(&self, mesh: &Mesh, number: usize) -> String {
        let site = mesh.site(number);
        let name = &site.name;
        let mut text = format!(
            "site = \"{name}\"\ndata = {:?}\nthreads = 2\nlabels = {{ number = \"{number}\" }}\n\
             [admin]\nlisten = \"{}\"\n\
             [mesh]\nlisten = \"{}\"\nidentity = {:?}\n",
            mesh.path().join(format!("data-{name}")),
            site.admin,
            site.mesh,
            mesh.path().join("mesh").join(name),
        );
        if let Some((_, parent)) = self.parents.iter().find(|(site, _)| *site == number) {
            text.insert_str(0, &format!("parent = \"site{parent}\"\n"));
        }
        let links = || mesh.links.iter().filter(|link| link.from == number);
        let join: Vec<_> = links()
            .map(|l| format!("\"{}\"", l.relay.address()))
            .collect();
        let declared = self.declared.iter().filter(|(site, _)| *site == number);
        let declared: Vec<_> = declared
            .map(|(_, with)| format!("\"site{with}\""))
            .collect();
        let _ = writeln!(
            text,
            "join = [{}]\nlinks = [{}]\n[mesh.routes]",
            join.join(", "),
            declared.join(", ")
        );
        for link in links() {
            let _ = writeln!(text, "site{} = \"{}\"", link.to, link.relay.address());
        }
        if !self.no_image_at.contains(&number) {
            let _ = writeln!(
                text,
                "[service.image]\nlisten = \"{}\"\nbackend = \"http://{}\"\naliases = [\"glance\"]\n{}",
                site.image, site.image_service, self.image
            );
        }
        let _ = writeln!(
            text,
            "[service.compute]\nlisten = \"{}\"\nbackend = \"http://{}\"\n{}\n{}",
            site.compute, site.compute_service, self.compute, self.more
        );
        text
    }
}
