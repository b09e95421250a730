//! Child processes: a second appender, and the imports and exports whose memory is measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use annals::transfer::{Exporter, Format, ImportOptions, Importer};
use annals::{ConversationId, Store};

use crate::append::{append, store};
use crate::corpus::orphans;

/// Runs a child process. The arguments are `append DB COUNT`, `import DB FOLDER`, `export DB FOLDER`.
pub fn run(arguments: &[String]) {
    match arguments {
        [what, db, count] if what == "append" => {
            append_on_demand(Path::new(db), count.parse().expect("a count"))
        }
        [what, db, folder] if what == "import" => {
            let store = Store::open(db).expect("open");
            let mut importer = Importer::new(&store, ImportOptions::default());
            let reports = importer.import(Path::new(folder), &mut |_| {}).expect("import");
            println!("{} {}", reports[0].events, peak_kib());
        }
        [what, db, folder] if what == "export" => {
            let store = Store::open(db).expect("open");
            let page = store.conversations(&Default::default(), Default::default(), None, 1).expect("list");
            let exporter = Exporter::new(&store, Format::OpenHands);
            let report =
                exporter.export(&page.conversations[0].id, Path::new(folder), &mut |_| {}).expect("export");
            println!("{} {}", report.events, peak_kib());
        }
        other => panic!("unknown child: {other:?}"),
    }
}

/// The peak resident memory of this process, in KiB. 0 if the system does not report it.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn start(arguments: [&str; 3]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("--child").args(arguments);
    command
}

/// Imports or exports in a child process. Returns its peak memory in MiB.
pub fn peak_mib(what: &str, db: &Path, folder: &Path, events: usize) -> f64 {
    let (db, folder) = (db.to_str().expect("a path"), folder.to_str().expect("a path"));
    let output = start([what, db, folder]).output().expect("the child runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    let (count, kib) = printed.trim().split_once(' ').expect("two numbers");
    assert_eq!(count, events.to_string(), "all events were processed");
    kib.parse::<f64>().expect("a number") / 1024.0
}

/// A child process that appends on command.
pub struct Appender {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Appender {
    pub fn start(db: &Path, count: usize) -> Self {
        let mut command = start(["append", db.to_str().expect("a path"), &count.to_string()]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the child starts");
        let orders = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut appender = Self { child, orders, answers };
        appender.wait(); // The child has opened the file and made its events.
        appender
    }

    /// Starts appending the child's events to a conversation.
    pub fn begin(&mut self, id: &ConversationId, round: usize) {
        writeln!(self.orders, "{id} {round}").expect("the child reads its input");
    }

    /// Waits until the child reports that it is done.
    pub fn wait(&mut self) {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the child answers");
        assert_eq!(line, "done\n");
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn append_on_demand(db: &Path, count: usize) {
    let store = store(db);
    let payloads = orphans(count, 99);
    println!("done");
    for order in std::io::stdin().lines() {
        let order = order.expect("an order");
        let (id, round) = order.rsplit_once(' ').expect("an id and a round");
        let id = ConversationId::new(id).expect("id");
        let mut round: String = format!("{round:0>7}");
        round.insert(0, 'd');
        let fresh =
            payloads.iter().map(|payload| format!("{}{round}{}", &payload[..7], &payload[15..])).collect();
        append(&store, &id, fresh, 1);
        println!("done");
    }
}
