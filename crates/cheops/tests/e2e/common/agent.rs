//! The built program as a child process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::PATIENCE;

/// The program, with nothing of the environment that could speak to it, but for how much it logs.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cheops"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CHEOPS") && name != "CHEOPS_LOG" {
            command.env_remove(name);
        }
    }
    command.kill_on_drop(true);
    command
}

/// Runs a command to its end.
pub(crate) async fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    run_with(arguments, b"").await
}

/// Runs a command to its end, with that on its standard input.
pub(crate) async fn run_with<S: AsRef<OsStr>>(arguments: &[S], input: &[u8]) -> Output {
    let mut child = program()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that does not read its input may have ended already.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    timeout(PATIENCE, child.wait_with_output())
        .await
        .expect("the command ends")
        .unwrap()
}

/// What a command printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A running agent; killed when dropped, and it ends by itself with the test's pipe.
#[derive(Debug)]
pub(crate) struct Agent {
    child: Child,
    /// What it said when it was ready.
    pub(crate) ready: String,
    log: PathBuf,
}

impl Agent {
    /// Starts an agent and waits until it is ready; else what it logged.
    pub(crate) async fn start(config: &Path) -> Result<Agent, String> {
        Agent::run(program(), config).await
    }

    /// The same with more in its environment.
    pub(crate) async fn start_with(
        config: &Path,
        environment: &[(&str, &OsStr)],
    ) -> Result<Agent, String> {
        let mut command = program();
        command.envs(environment.iter().copied());
        Agent::run(command, config).await
    }

    /// The same with a disk of its own below its data: so many bytes, gone with the process. Needs
    /// namespaces of users and mounts, which Linux gives to everybody unless it is told not to.
    pub(crate) async fn start_on_disk(
        config: &Path,
        folder: &Path,
        size: &str,
    ) -> Result<Agent, String> {
        let script = "mkdir -p \"$1\" && mount -t tmpfs -o size=\"$2\" tmpfs \"$1\" && shift 2 && exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                script,
                "sh",
            ])
            .arg(folder)
            .args([size, env!("CARGO_BIN_EXE_cheops")])
            .kill_on_drop(true);
        Agent::run(command, config).await
    }

    async fn run(mut command: Command, config: &Path) -> Result<Agent, String> {
        let log = config.with_extension("log");
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let mut child = command
            .args(["agent", "--watch-stdin", "--config"])
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut lines = BufReader::new(stdout).lines();
        match timeout(PATIENCE, lines.next_line()).await {
            Ok(Ok(Some(ready))) if ready.starts_with("ready ") => Ok(Agent { child, ready, log }),
            _ => Err(std::fs::read_to_string(&log).unwrap_or_default()),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it was not waited for")
    }

    /// All it logged, also before a restart.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `kill -9`.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// `kill -TERM`; says nothing of when it ends.
    pub(crate) async fn terminate(&self) {
        self.signal("-TERM").await;
    }

    /// `kill -HUP`: it reads its file again.
    pub(crate) async fn hang_up(&self) {
        self.signal("-HUP").await;
    }

    async fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().await;
        assert!(sent.unwrap().success());
    }

    /// Makes its own disk full; see [`Agent::start_on_disk`].
    pub(crate) fn fill_disk(&self, folder: &Path) {
        let mut file = std::fs::File::create(self.filler(folder)).unwrap();
        // Ends when there is no room.
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    }

    /// Makes room again.
    pub(crate) fn clear_disk(&self, folder: &Path) {
        std::fs::remove_file(self.filler(folder)).unwrap();
    }

    /// Only this process and whoever looks through it sees its disk.
    fn filler(&self, folder: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.id()));
        root.join(folder.strip_prefix("/").unwrap()).join("filler")
    }

    /// Waits for its end and tells whether it ended well.
    pub(crate) async fn ended(mut self) -> bool {
        // Waiting would close its standard input, and that is another way to stop it.
        let _pipe = self.child.stdin.take();
        let ended = timeout(PATIENCE, self.child.wait()).await;
        ended.expect("the agent ends").unwrap().success()
    }

    /// How many descriptors it holds.
    pub(crate) fn descriptors(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.id()));
        open.unwrap().count()
    }

    /// How many ends of pipes it holds.
    pub(crate) fn pipes(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap();
        // One that was closed meanwhile is none.
        let links = open.flatten().filter_map(|end| end.path().read_link().ok());
        let is_pipe = |link: &PathBuf| link.to_string_lossy().starts_with("pipe:");
        links.filter(is_pipe).count()
    }

    /// The most memory it ever held, in bytes.
    pub(crate) fn memory_peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<u64>().unwrap() * 1024
    }
}
