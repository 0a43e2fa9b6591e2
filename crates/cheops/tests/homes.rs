//! Tokens across sites: two agents as processes, and services that know nothing of either.
//!
//! Each site has an identity service that issues tokens and checks its own alone, and an image
//! service that has every token checked by the identity service of its site.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const START_TIME_MAX: Duration = Duration::from_secs(30);

/// A request or an answer: its first line, its headers in lower case, its body.
struct Message {
    line: String,
    headers: HashMap<String, String>,
    body: String,
}

impl Message {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn status(&self) -> u16 {
        let code = self.line.split(' ').nth(1).unwrap_or_default();
        code.parse().unwrap_or(0)
    }
}

fn read(stream: &mut TcpStream) -> Option<Message> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let pairs = lines.filter_map(|line| line.split_once(": "));
    let headers: HashMap<String, String> = pairs
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |n| n.parse().unwrap());
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(read) => body.extend_from_slice(&chunk[..read]),
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Some(Message {
        line,
        headers,
        body,
    })
}

fn call(to: SocketAddr, line: &str, headers: &[(&str, &str)]) -> Option<Message> {
    let mut stream = TcpStream::connect(to).ok()?;
    let mut text = format!("{line} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("content-length: 0\r\n\r\n");
    stream.write_all(text.as_bytes()).ok()?;
    read(&mut stream)
}

/// Serves until the test ends; `answer` gives a status, further headers and a body.
fn serve<F>(answer: F) -> SocketAddr
where
    F: Fn(&Message) -> (u16, String, String) + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let Some(request) = read(&mut stream) else {
                    return;
                };
                let (status, headers, body) = answer(&request);
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
                );
            });
        }
    });
    address
}

fn identity_service(site: &'static str) -> SocketAddr {
    let issued: Mutex<Vec<String>> = Mutex::default();
    serve(move |request| {
        let mut issued = issued.lock().unwrap();
        if request.line.starts_with("POST /v3/auth/tokens") {
            let token = format!("token-{}-of-{site}", issued.len());
            issued.push(token.clone());
            let header = format!("x-subject-token: {token}\r\n");
            return (201, header, String::new());
        }
        let known = |name| issued.iter().any(|token| token == request.header(name));
        match (known("x-auth-token"), known("x-subject-token")) {
            (false, _) => (401, String::new(), String::new()),
            (true, false) => (404, String::new(), String::new()),
            (true, true) => (200, String::new(), format!("vouched for by {site}")),
        }
    })
}

/// Has every token checked at `identity`, with a token of its own.
fn image_service(identity: SocketAddr) -> SocketAddr {
    serve(move |request| {
        let refused = (401, String::new(), String::new());
        let Some(signed_in) = call(identity, "POST /v3/auth/tokens", &[]) else {
            return refused;
        };
        let headers = [
            ("x-auth-token", signed_in.header("x-subject-token")),
            ("x-subject-token", request.header("x-auth-token")),
        ];
        match call(identity, "GET /v3/auth/tokens", &headers) {
            Some(checked) if checked.status() == 200 => (200, String::new(), checked.body),
            Some(checked) if checked.status() == 404 => refused,
            // Its own token is refused, which it was given a moment ago.
            _ => (500, String::new(), String::new()),
        }
    })
}

struct Site {
    identity: SocketAddr,
    image: SocketAddr,
    admin: SocketAddr,
    mesh: SocketAddr,
    agent: Option<Child>,
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

const NAMES: [&str; 2] = ["DC 1", "DC 2"];

/// Two sites; `trust` is what each has in its configuration.
fn sites(folder: &Path, trust: [&str; 2]) -> Vec<Site> {
    let program = env!("CARGO_BIN_EXE_cheops");
    let mesh = folder.join("mesh");
    let made = Command::new(program)
        .args([
            "init", "--mesh", "test", "--site", NAMES[0], "--site", NAMES[1],
        ])
        .arg("--out")
        .arg(&mesh)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
    let site = |_| Site {
        identity: free(),
        image: free(),
        admin: free(),
        mesh: free(),
        agent: None,
    };
    let mut sites: Vec<Site> = (0..2).map(site).collect();
    for place in 0..2 {
        let name = NAMES[place];
        let (here, other) = (&sites[place], &sites[1 - place]);
        let identity = identity_service(name);
        let image = image_service(here.identity);
        let text = format!(
            "site = \"{name}\"\ndata = {:?}\nthreads = 1\n[admin]\nlisten = \"{}\"\n\
             [mesh]\nlisten = \"{}\"\nidentity = {:?}\njoin = [\"{}\"]\n\
             [service.image]\nlisten = \"{}\"\nbackend = \"http://{image}\"\n\
             [service.identity]\nlisten = \"{}\"\nbackend = \"http://{identity}\"\n\
             profile = \"openstack-identity\"\n{}\n",
            folder.join(format!("data {place}")),
            here.admin,
            here.mesh,
            mesh.join(name),
            other.mesh,
            here.image,
            here.identity,
            trust[place],
        );
        let file = folder.join(format!("{place}.toml"));
        std::fs::write(&file, text).unwrap();
        let agent = Command::new(program)
            .arg("agent")
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        sites[place].agent = Some(agent.unwrap());
    }
    wait_connected(&sites);
    sites
}

fn wait_connected(sites: &[Site]) {
    let until = Instant::now() + START_TIME_MAX;
    for site in sites {
        let connected = || {
            let seen = call(site.admin, "GET /v1/sites", &[]);
            seen.is_some_and(|seen| seen.body.matches("\"mark\":\"connected\"").count() == 2)
        };
        while !connected() {
            assert!(Instant::now() < until, "the sites did not find each other");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn token(at: &Site, scope: &str) -> String {
    let answer = call(at.identity, "POST /v3/auth/tokens", &[("x-scope", scope)]).unwrap();
    assert_eq!(answer.status(), 201, "{}", answer.body);
    answer.header("x-subject-token").to_owned()
}

fn images(at: &Site, scope: &str, token: &str) -> Message {
    let headers = [("x-scope", scope), ("x-auth-token", token)];
    call(at.image, "GET /v2/images", &headers).unwrap()
}

#[test]
fn a_token_of_a_trusted_site_is_checked_there() {
    let folder = tempfile::tempdir().unwrap();
    let trust = [
        "[service.identity.home]\ntrust = [\"DC 2\"]",
        "[service.identity.home]\ntrust = [\"DC 1\"]",
    ];
    let sites = sites(folder.path(), trust);
    let (one, two) = (&sites[0], &sites[1]);

    let own = token(one, "identity: DC 1");
    let there = images(one, "image: DC 2", &own);
    assert_eq!(
        (there.status(), there.body.as_str()),
        (200, "vouched for by DC 1")
    );
    assert_eq!(there.header("x-cheops-served-by"), "DC 2");

    // Signed in at DC 2 through DC 1's agent, which saw the token issued.
    let other = token(one, "identity: DC 2");
    let here = images(one, "image: DC 1", &other);
    assert_eq!(
        (here.status(), here.body.as_str()),
        (200, "vouched for by DC 2")
    );

    assert_eq!(images(one, "image: DC 2", "made up").status(), 401);
    assert_eq!(images(two, "image: DC 2", "made up").status(), 401);
    for entry in std::fs::read_dir(folder.path().join("data 1")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains("token-"));
    }
}

#[test]
fn nobody_is_trusted_unless_the_site_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let sites = sites(folder.path(), ["", "[service.identity.home]\ntrust = []"]);
    let own = token(&sites[0], "identity: DC 1");
    assert_eq!(images(&sites[0], "image: DC 1", &own).status(), 200);
    assert_eq!(images(&sites[0], "image: DC 2", &own).status(), 401);
    let other = token(&sites[0], "identity: DC 2");
    assert_eq!(images(&sites[0], "image: DC 1", &other).status(), 401);
}
