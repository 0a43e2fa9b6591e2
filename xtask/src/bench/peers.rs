//! The proxies that are compared: how each is configured and started.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::origin::Origin;

/// A running proxy.
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
    /// Where it listens with TLS, if it does.
    pub(super) secured: Option<SocketAddr>,
    process: Option<Child>,
}

/// Why one is not compared.
pub(super) struct Skipped(pub(super) String);

impl Peer {
    /// No proxy at all.
    pub(super) fn direct(origin: &Origin) -> Peer {
        let (address, pid) = (origin.address, origin.process.id());
        Peer {
            name: "direct".to_owned(),
            address,
            pid,
            secured: None,
            process: None,
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        // Asked, so that it ends its own children too.
        let _ = Command::new("kill").arg(process.id().to_string()).status();
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until && matches!(process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// What every configuration is made of.
struct Bench<'a> {
    folder: &'a Path,
    origin: SocketAddr,
    threads: usize,
}

/// Starts every proxy that can be had.
pub(super) fn start_all(
    folder: &Path,
    origin: SocketAddr,
    threads: usize,
    agent: &Path,
) -> Vec<Result<Peer, Skipped>> {
    let bench = Bench {
        folder,
        origin,
        threads,
    };
    vec![
        bench.nginx(),
        bench.haproxy("haproxy", "", "default_backend origin"),
        bench.haproxy(
            "haproxy-lua",
            LUA_LOAD,
            "http-request lua.scope\n  use_backend %[var(txn.place)]",
        ),
        bench.envoy(),
        bench.cheops(agent),
    ]
}

/// This agent alone.
pub(super) fn start_agent(
    folder: &Path,
    origin: SocketAddr,
    threads: usize,
    agent: &Path,
) -> Result<Peer, Skipped> {
    let bench = Bench {
        folder,
        origin,
        threads,
    };
    bench.cheops(agent)
}

const LUA_LOAD: &str = "lua-load-per-thread scope.lua";

/// Reads the scope as a script in a proxy would: bindings split, the one of `compute` taken.
const LUA: &str = r#"
core.register_action("scope", { "http-req" }, function(txn)
  local text = txn.sf:req_hdr("x-scope") or ""
  local places = {}
  for service, place in string.gmatch(text, "([%w_-]+)%s*:%s*([^,]+)") do places[service] = place end
  local at = places["compute"]
  if at == nil or string.match(at, "^%s*site1%s*$") then txn:set_var("txn.place", "origin")
  else txn:set_var("txn.place", "nowhere") end
end)
"#;

impl Bench<'_> {
    fn nginx(&self) -> Result<Peer, Skipped> {
        let address = free_address();
        let text = format!(
            "daemon off;\nworker_processes {};\npid nginx.pid;\nerror_log stderr crit;\n\
             events {{ worker_connections 4096; }}\nhttp {{\n  access_log off; keepalive_requests 100000000;\n\
             upstream origin {{ server {}; keepalive 256; keepalive_requests 100000000; }}\n  server {{\n    listen {address};\n\
             location / {{ proxy_pass http://origin; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; proxy_set_header Host $http_host; }}\n  }}\n}}\n",
            self.threads, self.origin,
        );
        self.write("nginx.conf", &text);
        let folder = self.folder.display().to_string();
        self.start(
            "nginx",
            "nginx",
            &["-p", &folder, "-c", "nginx.conf"],
            address,
        )
    }

    fn haproxy(&self, name: &str, global: &str, route: &str) -> Result<Peer, Skipped> {
        let address = free_address();
        self.write("scope.lua", LUA);
        let text = format!(
            "global\n  nbthread {}\n  {global}\ndefaults\n  mode http\n  timeout connect 2s\n\
             \x20 timeout client 30s\n  timeout server 30s\n  http-reuse always\n\
             frontend in\n  bind {address}\n  {route}\n\
             backend origin\n  server o {}\nbackend nowhere\n  http-request deny\n",
            self.threads, self.origin,
        );
        let file = format!("{name}.cfg");
        self.write(&file, &text);
        self.start(name, "haproxy", &["-db", "-f", &file], address)
    }

    fn envoy(&self) -> Result<Peer, Skipped> {
        let address = free_address();
        let text = ENVOY
            .replace("@PORT@", &address.port().to_string())
            .replace("@ORIGIN@", &self.origin.port().to_string());
        self.write("envoy.yaml", &text);
        let program = std::env::var("ENVOY").unwrap_or_else(|_| "envoy".to_owned());
        let threads = self.threads.to_string();
        let id = address.port().to_string();
        let arguments = [
            "-c",
            "envoy.yaml",
            "--concurrency",
            &threads,
            "-l",
            "error",
            "--base-id",
            &id,
        ];
        self.start("envoy", &program, &arguments, address)
    }

    fn cheops(&self, agent: &Path) -> Result<Peer, Skipped> {
        let skipped = |why: String| Skipped(format!("cheops: {why}"));
        let agent: PathBuf = fs::canonicalize(agent).map_err(|error| {
            skipped(format!(
                "{}: {error}; run `cargo build --profile dist`",
                agent.display()
            ))
        })?;
        let made = Command::new(&agent)
            .args([
                "init", "--mesh", "bench", "--out", "mesh", "--site", "site1",
            ])
            .current_dir(self.folder)
            .stdout(Stdio::null())
            .status();
        made.map_err(|error| skipped(error.to_string()))?;
        let (address, image, mesh, admin) = (
            free_address(),
            free_address(),
            free_address(),
            free_address(),
        );
        let text = format!(
            "site = \"site1\"\ndata = \"data\"\nthreads = {}\n[admin]\nlisten = \"{admin}\"\n\
             [mesh]\nlisten = \"{mesh}\"\nidentity = \"mesh/site1\"\n\
             [service.compute]\nlisten = \"{address}\"\nbackend = \"http://{}\"\npropagate = []\n\
             [service.image]\nlisten = \"{image}\"\nbackend = \"http://{}\"\npropagate = []\n\
             tls = {{ cert = \"mesh/site1/cert.pem\", key = \"mesh/site1/key.pem\" }}\n",
            self.threads, self.origin, self.origin,
        );
        self.write("site1.toml", &text);
        let program = agent.display().to_string();
        let arguments = ["agent", "--config", "site1.toml"];
        let mut peer = self.start("cheops", &program, &arguments, address)?;
        peer.secured = Some(image);
        Ok(peer)
    }

    fn write(&self, name: &str, text: &str) {
        // A configuration that could not be written shows when the proxy does not start.
        let _ = fs::write(self.folder.join(name), text);
    }

    fn start(
        &self,
        name: &str,
        program: &str,
        arguments: &[&str],
        address: SocketAddr,
    ) -> Result<Peer, Skipped> {
        let log = self.folder.join(format!("{name}.log"));
        let skipped = |why: String| Skipped(format!("{name}: {why}"));
        let output = File::create(&log).map_err(|error| skipped(error.to_string()))?;
        let process = Command::new(program)
            .args(arguments)
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .map_err(|error| skipped(format!("{program}: {error}")))?;
        let pid = process.id();
        let peer = Peer {
            name: name.to_owned(),
            address,
            pid,
            secured: None,
            process: Some(process),
        };
        let until = Instant::now() + Duration::from_secs(15);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > until {
                let told = fs::read_to_string(&log).unwrap_or_default();
                return Err(skipped(format!("it did not start: {}", told.trim())));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(peer)
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)))
}

const ENVOY: &str = r#"
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: @PORT@ } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: "/" }
                route: { cluster: origin }
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: origin
    type: STATIC
    load_assignment:
      cluster_name: origin
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: @ORIGIN@ } } }
"#;
