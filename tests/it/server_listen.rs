//! `annals serve` on a socket of the file system, on a socket that it is handed, and over TLS.
#![cfg(all(feature = "cli", feature = "server", target_os = "linux"))]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const PATIENCE: Duration = Duration::from_secs(300);
const KEY: &str = "a-key-of-this-test";

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// A server as a process.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    async fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::of(command(folder, arguments)).await
    }

    async fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let Some((_, url)) = line.trim().rsplit_once(" on ") else { panic!("{}", refusal(child).await) };
        Self { url: url.to_owned(), child }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    async fn end(mut self) {
        self.signal(Signal::TERM);
        assert!(tokio::time::timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap().success());
    }
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.join("home"));
    command.env("SESSION_API_KEY", KEY).current_dir(folder).arg("serve").args(arguments).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for the end of a server that does not start. Returns what it says.
async fn refusal(mut child: Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).await.unwrap();
    assert!(!child.wait().await.unwrap().success());
    text
}

/// Sends a request and returns the whole answer.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nx-session-api-key: {KEY}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server that closes without a TLS farewell is an error after the answer.
    let _end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_socket_of_the_file_system_is_served_and_leaves_with_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.sock");
    let place = format!("unix:{}", path.display());
    let server = Server::start(folder.path(), &["--listen", &place]).await;
    assert_eq!(server.url, place);
    let answer = ask(UnixStream::connect(&path).await.unwrap(), "/api/conversations/count").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n0"), "{answer}");
    let second = refusal(command(folder.path(), &["--listen", &place]).spawn().unwrap()).await;
    assert!(second.contains(&place) && second.contains("another"), "{second}");
    server.end().await;
    assert!(!path.exists());
    // A killed server leaves its file, and the next one takes the place.
    let mut server = Server::start(folder.path(), &["--listen", &place]).await;
    server.child.kill().await.unwrap();
    assert!(path.exists());
    let server = Server::start(folder.path(), &["--listen", &place]).await;
    assert!(ask(UnixStream::connect(&path).await.unwrap(), "/health").await.starts_with("HTTP/1.1 200"));
    server.end().await;
}

#[tokio::test]
async fn a_place_that_cannot_be_used_is_refused_with_what_can() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "mine").unwrap();
    for (place, why) in [
        ("unix:file", "no socket"),
        ("unix:none/annals.sock", "No such file"),
        ("8000", "unix:/run/annals.sock"),
        ("systemd", "annals.socket"),
    ] {
        let said = refusal(command(folder.path(), &["--listen", place]).spawn().unwrap()).await;
        assert!(said.contains(why), "{place}: {said}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "mine");
}

/// As systemd does it: the socket is the descriptor 3 of the new process, and two variables say so.
#[tokio::test]
async fn a_socket_that_is_handed_over_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&listener);
    // The shell gives the descriptor its number. The program that it becomes has the shell's process id.
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).unwrap();
    let own = command(folder.path(), &["--listen", "systemd"]);
    let mut handing = Command::new("bash");
    let script =
        format!("exec 3<&{descriptor} && LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" serve --listen systemd");
    handing.args(["-c", &script, env!("CARGO_BIN_EXE_annals")]).env_clear().current_dir(folder.path());
    for (name, value) in own.as_std().get_envs() {
        handing.env(name, value.unwrap());
    }
    handing.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let server = Server::of(handing).await;
    assert_eq!(server.url, format!("http://{address}"));
    assert!(ask(TcpStream::connect(address).await.unwrap(), "/health").await.starts_with("HTTP/1.1 200"));
    server.end().await;
}

/// Connects over TLS and trusts only this certificate.
async fn secure(url: &str, trusted: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate(trusted)).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(url.trim_start_matches("https://")).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[tokio::test]
async fn certificates_are_served_and_read_again_at_a_hangup() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    let install = |name: &str| {
        std::fs::copy(certificate(&format!("{name}.crt")), &chain).unwrap();
        std::fs::copy(certificate(&format!("{name}.key")), &key).unwrap();
    };
    install("first");
    let files = ["--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let mut server = Server::start(folder.path(), &[&["--port", "0"], &files[..]].concat()).await;
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let mut log = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let mut wait_for = async |what: &str| loop {
        let line = tokio::time::timeout(PATIENCE, log.next_line()).await.unwrap().unwrap();
        let line = line.expect("the server still runs");
        if line.contains(what) {
            return line;
        }
    };
    let answer = ask(secure(&server.url, "first.crt").await.unwrap(), "/api/conversations/count").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with('0'), "{answer}");
    secure(&server.url, "second.crt").await.unwrap_err();
    // A client that speaks plain HTTP gets no answer, and harms no other.
    let plain = TcpStream::connect(server.url.trim_start_matches("https://")).await.unwrap();
    assert!(!ask_bytes(plain).await.starts_with(b"HTTP"));
    let kept = secure(&server.url, "first.crt").await.unwrap();
    install("second");
    server.signal(Signal::HUP);
    wait_for("certificates").await;
    assert!(
        ask(secure(&server.url, "second.crt").await.unwrap(), "/health").await.starts_with("HTTP/1.1 200")
    );
    assert!(ask(kept, "/health").await.starts_with("HTTP/1.1 200"));
    std::fs::copy(certificate("first.key"), &key).unwrap();
    server.signal(Signal::HUP);
    let said = wait_for("certificates not read").await;
    assert!(said.contains("key.pem") && !said.contains("BEGIN"), "{said}");
    assert!(
        ask(secure(&server.url, "second.crt").await.unwrap(), "/health").await.starts_with("HTTP/1.1 200")
    );
    server.end().await;
}

/// Sends a plain request and returns the bytes that come.
async fn ask_bytes(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let _sent = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let _end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    answer
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_refused_and_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| certificate(name).display().to_string();
    let (chain, key, other) = (path("first.crt"), path("first.key"), path("second.key"));
    for (arguments, why) in [
        (vec!["--tls-cert", &chain], "--tls-cert needs --tls-key"),
        (vec!["--tls-key", &key], "--tls-key needs --tls-cert"),
        (vec!["--tls-cert", &chain, "--tls-key", &other], "it is not the key of"),
        (vec!["--tls-cert", &key, "--tls-key", &key], "there is no certificate"),
        (vec!["--tls-cert", &chain, "--tls-key", &chain], "there is no private key"),
        (vec!["--tls-cert", "/dev/zero", "--tls-key", &key], "/dev/zero"),
        (vec!["--tls-cert", "none.pem", "--tls-key", &key], "none.pem"),
    ] {
        let said = refusal(command(folder.path(), &arguments).spawn().unwrap()).await;
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert!(!said.contains("-----BEGIN") && !said.contains("MIGH"), "{said}");
    }
    assert!(!folder.path().join("annals.db").exists(), "a server that does not start makes no file");
}
