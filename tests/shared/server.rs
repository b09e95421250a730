//! A PostgreSQL server for one test, or for the benchmarks.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use annals::shared::SharedLog;
use annals::{Options, Store};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Users that may run a server if the tests run as root, which may not.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A server that runs until it is dropped.
pub struct Server {
    folder: TempDir,
    programs: PathBuf,
    /// The user and the group that run it. `None` if they are those of the tests.
    user: Option<(u32, u32)>,
    /// Whether it waits for the disk. Tests kill the server and not the machine.
    syncs: bool,
}

impl Server {
    /// Starts a server with a log in it.
    pub fn with_log() -> Self {
        let server = Self::start();
        SharedLog::at(&server.address()).unwrap().make().unwrap();
        server
    }

    /// Starts a server with an empty database.
    pub fn start() -> Self {
        Self::start_with(false)
    }

    /// Starts a server that waits for the disk with each commit, or not.
    pub fn start_with(syncs: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        let user = own_user();
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let server = Self { folder, programs: programs(), user, syncs };
        let data = server.data();
        let made = server
            .command("initdb")
            .args(["--auth=trust", "--username=annals", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.run();
        server
    }

    /// Starts the server of a folder that is there. Returns when it answers.
    pub fn run(&self) {
        self.run_within("unlimited");
    }

    /// The same, with a limit for the length of each file, in KiB.
    pub fn run_within(&self, limit: &str) {
        let folder = self.folder.path().display();
        let fsync = if self.syncs { "on" } else { "off" };
        let settings = format!(
            "-k {folder} -c listen_addresses= -c fsync={fsync} -c max_connections=60 -c shared_buffers=32MB"
        );
        let mut command = self.command("bash");
        command.args(["-c", &format!("ulimit -f {limit}; exec \"$0\" \"$@\"")]);
        let started = command
            .arg(self.programs.join("pg_ctl"))
            .args(["start", "-w", "-t", "120", "-o", &settings, "-l"])
            .arg(self.folder.path().join("log"))
            .arg("-D")
            .arg(self.data())
            .status()
            .unwrap();
        assert!(started.success(), "{}", std::fs::read_to_string(self.folder.path().join("log")).unwrap());
    }

    /// Kills the server and its sessions at once, as a crash does.
    pub fn kill(&self) {
        let stopped =
            self.command("pg_ctl").args(["stop", "-m", "immediate", "-D"]).arg(self.data()).output().unwrap();
        assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    }

    /// The address of the log.
    pub fn address(&self) -> String {
        self.address_at(self.folder.path().to_str().unwrap())
    }

    /// The address of the log, over another way to the server.
    pub fn address_at(&self, host: &str) -> String {
        format!("host={host} user=annals dbname=postgres schema=team")
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.5432")
    }

    /// Opens a store on the log, with its file at `path`.
    pub fn open(&self, path: &Path) -> Store {
        Store::open_shared(&self.address(), path, &Options::default()).unwrap()
    }

    /// The same from within a runtime.
    #[cfg(feature = "agent")]
    pub async fn open_apart(&self, path: &Path) -> Store {
        let (address, path) = (self.address(), path.to_owned());
        let open = move || Store::open_shared(&address, path, &Options::default()).unwrap();
        tokio::task::spawn_blocking(open).await.unwrap()
    }

    /// A connection, as that of any other program.
    pub fn client(&self) -> postgres::Client {
        self.client_at(&self.address())
    }

    /// The same, over another way.
    pub fn client_at(&self, address: &str) -> postgres::Client {
        let address = address.replace(" schema=team", "");
        let mut client = postgres::Client::connect(&address, postgres::NoTls).unwrap();
        client.batch_execute("SET search_path TO team").unwrap();
        client
    }

    /// All tables of the log, as statements.
    pub fn dump(&self) -> String {
        let dumped = self
            .command("pg_dump")
            .args(["--username=annals", "--schema=team", "--inserts", "--host"])
            .arg(self.folder.path())
            .arg("postgres")
            .stdout(std::process::Stdio::piped())
            .output()
            .unwrap();
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        // The client of the tests knows no commands of psql.
        let text = String::from_utf8(dumped.stdout).unwrap();
        text.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n")
    }

    /// Puts the tables of the log back.
    pub fn restore(&self, dump: &str) {
        let mut client = self.client();
        client.batch_execute("DROP SCHEMA team CASCADE").unwrap();
        client.batch_execute(dump).unwrap();
    }

    /// Sends a signal to the server and all its sessions.
    pub fn signal(&self, signal: Signal) {
        let postmaster = self.process();
        let stats = std::fs::read_dir("/proc").unwrap().flatten();
        let children = stats.filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // PID (NAME) STATE PARENT …
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
            let pid = entry.file_name().to_string_lossy().parse().ok()?;
            (parent.parse() == Ok(postmaster)).then_some(pid)
        });
        for pid in std::iter::once(postmaster).chain(children) {
            // It may have ended meanwhile.
            let _sent = kill_process(Pid::from_raw(pid).unwrap(), signal);
        }
    }

    fn process(&self) -> i32 {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        text.lines().next().unwrap().parse().unwrap()
    }

    /// Makes and starts a copy that follows this server.
    pub fn copy(&self) -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let copy = Self { folder, programs: self.programs.clone(), user: self.user, syncs: self.syncs };
        let made = self
            .command("pg_basebackup")
            .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--username=annals", "-h"])
            .arg(self.folder.path())
            .arg("-D")
            .arg(copy.data())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        copy.run();
        copy
    }

    /// Makes a copy a server of its own.
    pub fn promote(&self) {
        let promoted = self
            .command("pg_ctl")
            .args(["promote", "-w", "-t", "120", "-D"])
            .arg(self.data())
            .output()
            .unwrap();
        assert!(promoted.status.success(), "{}", String::from_utf8_lossy(&promoted.stderr));
    }

    /// Asks a question until its answer is true.
    pub fn until(&self, question: &str) {
        let begun = std::time::Instant::now();
        let mut client = self.client();
        while !client.query_one(question, &[]).unwrap().get::<_, bool>(0) {
            assert!(begun.elapsed() < std::time::Duration::from_secs(120), "{question}");
        }
    }

    /// Returns whether a file of the tables has these bytes.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let folders = std::fs::read_dir(self.data().join("base")).unwrap();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
        files.into_iter().any(|file| {
            // The server may have removed it meanwhile.
            let content = std::fs::read(file.unwrap().path()).unwrap_or_default();
            content.windows(bytes.len()).any(|window| window == bytes)
        })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let own = self.programs.join(program);
        let mut command = Command::new(if own.exists() { own } else { program.into() });
        command.env("LC_ALL", "C").current_dir(self.folder.path()).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null());
        if let Some((user, group)) = self.user {
            command.gid(group).uid(user);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _is_down =
            self.command("pg_ctl").args(["stop", "-m", "immediate", "-D"]).arg(self.data()).output();
    }
}

/// The folder of the server's programs.
fn programs() -> PathBuf {
    let named = std::env::var_os("ANNALS_POSTGRES").map(PathBuf::from);
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = installed.map(|entry| entry.path().join("bin"));
    named
        .into_iter()
        .chain(installed)
        .chain(std::env::split_paths(&on_path))
        .find(|folder| folder.join("initdb").exists())
        .expect("install PostgreSQL (Debian: postgresql), or name the folder of initdb in ANNALS_POSTGRES")
}

/// The user that runs the server, if the tests run as root.
fn own_user() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    USERS.into_iter().find_map(of)
}
