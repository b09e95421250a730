//! Runs each target of `fuzz/` for a short time on seeds that are changed at random.
//!
//! Every run has the same cases. `fuzz/README.md` says how to run other cases and more of them. A case that fails is
//! stored in the folder of temporary files, and its path is printed.

#[path = "../../fuzz/targets.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use annals::event::ForeignFormat;

use crate::support::folder;
use crate::support::random::Random;

/// Words that have a meaning for one of the parsers.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "UNION ALL",
    "WITH RECURSIVE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "JOIN",
    "event",
    "events",
    "tool_calls",
    "transcript",
    "conversations",
    "confirmations",
    "usage",
    "payload",
    "json_each",
    "json_extract",
    "printf",
    "replace",
    "substr",
    "group_concat",
    "count(*)",
    "NOT",
    "NULL",
    "LIKE",
    "GLOB",
    "MATCH",
    "NEAR",
    "AND",
    "OR",
    "sqlite_schema",
    "pragma_table_list",
    "load_extension",
    "zeroblob",
    "randomblob",
    "main",
    "blob",
    "attachment",
    "--",
    "/*",
    "*/",
    ";",
    "''",
    "\"\"",
    ":conversation",
    "?1",
    "0",
    "-1",
    "1e400",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0.1",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "[[[[[[",
    "{\"kind\":",
    "\"id\"",
    "\"kind\"",
    "\"source\"",
    "\"timestamp\"",
    "\"parent_id\"",
    "__root__",
    "\"ActionEvent\"",
    "\"ObservationEvent\"",
    "\"MessageEvent\"",
    "\"Condensation\"",
    "\"AgentErrorEvent\"",
    "\"tool_call_id\"",
    "\"llm_message\"",
    "\"content\"",
    "\\u0000",
    "\\ud800",
    "\\",
    "\"",
    "\n",
    "\r\n",
    "\u{0}",
    "\u{202e}",
    "\u{1b}[2J",
    "é",
    "日本",
    "🙏",
    "\u{feff}",
    "\t",
    " ",
    "../",
    "events/",
    "event-00000-a.json",
    "base_state.json",
    "meta.json",
    "\u{1e}",
    "\u{1f}",
    ".eventlog.lock",
    "0000-00-00T00:00:00",
    "9999-12-31T23:59:59.999999",
    "whole",
    "conversation",
    "annals-head-v1",
];

/// Returns a seed that is changed in up to eight places.
fn change(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut below = |bound: usize| random.below(bound.max(1) as u64) as usize;
    let mut data = seeds[below(seeds.len())].clone();
    for _ in 0..below(9) {
        let from = below(data.len() + 1);
        let size = 1 << below(10);
        let to = (from + below(size)).min(data.len());
        match below(8) {
            0 if from < data.len() => data[from] ^= 1 << below(8),
            1 => drop(data.drain(from..to)),
            2 => {
                let piece = data[from..to].to_vec();
                data.splice(from..from, piece);
            }
            3 | 4 => drop(data.splice(from..from, WORDS[below(WORDS.len())].bytes())),
            5 => {
                let other = &seeds[below(seeds.len())];
                let start = below(other.len() + 1);
                let end = (start + below(200)).min(other.len());
                data.splice(from..to, other[start..end].iter().copied());
            }
            6 => {
                // Replaces a word or number by another word.
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let start = data[..from].iter().rposition(|byte| !is_word(byte)).map_or(0, |at| at + 1);
                let end =
                    data[from..].iter().position(|byte| !is_word(byte)).map_or(data.len(), |at| from + at);
                data.splice(start..end, WORDS[below(WORDS.len())].bytes());
            }
            _ => {
                let piece = data[from..to].to_vec();
                if piece.len() < 64 {
                    data.splice(from..from, piece.repeat(below(100)));
                }
            }
        }
    }
    data.truncate(200_000);
    data
}

fn lines(text: &str) -> Vec<Vec<u8>> {
    text.lines().map(|line| line.as_bytes().to_vec()).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns payloads of every kind: from the golden events, and from real folders of every age.
fn payloads() -> Vec<Vec<u8>> {
    let golden = read("tests/golden/events.jsonl");
    let payload = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["payload"].as_str().map(|payload| payload.as_bytes().to_vec())
    };
    let mut seeds: Vec<Vec<u8>> = golden.lines().filter_map(payload).collect();
    assert!(seeds.len() > 100);
    for folder in folders() {
        let events = folder.into_iter().filter(|(name, _)| name.contains("event-"));
        seeds.extend(events.map(|(_, content)| content));
    }
    seeds
}

/// Returns folders of every age, with and without damage.
fn folders() -> Vec<folder::Tree> {
    let all = ["conversations", "corrupt", "legacy"].into_iter().flat_map(folder::goldens);
    all.map(|path| folder::read(&path)).collect()
}

/// Returns the seeds of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "decode" => payloads(),
        "documents" => {
            let states = folders().into_iter().filter_map(|mut folder| folder.remove("base_state.json"));
            let typed = [
                "2026-01-31T12:00:00.123456",
                "2026-01-31 12:30",
                "2026-01-31T12:00:00+02:00",
                "5610a708-170e-58da-bb08-33350f7cdc03",
            ];
            states.chain(typed.map(|text| text.as_bytes().to_vec())).collect()
        }
        "sql" => {
            let document = read("docs/query.md") + &read("docs/format.md");
            let blocks = document.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap());
            let statements = blocks.flat_map(|block| block.split(";\n")).map(|sql| sql.as_bytes().to_vec());
            let reports = annals::audit::REPORTS.iter().map(|report| {
                let kept =
                    report.sql.lines().filter(|line| !line.contains(':') || line.contains(":conversation"));
                kept.collect::<Vec<_>>().join("\n").into_bytes()
            });
            statements.chain(reports).collect()
        }
        "search" => lines(
            "files\nlist the files\n\"the files\"\nfil*\n-list files\nStore::append\nlist -\"the files\" ls*\n日本\nNEAR(list files)\ntext:files",
        ),
        "head" => [Vec::new()].into_iter().chain(heads()).collect(),
        "import" | "redact" | "upgrade" => folders().iter().map(pack).collect(),
        "fold" => folders().iter().map(events_of).collect(),
        "json" => payloads().into_iter().chain(lines(NUMBERS)).collect(),
        "foreign" => foreign(),
        other => panic!("the target {other} has no seeds"),
    }
}

/// Returns the head of a store, unsigned and signed.
fn heads() -> Vec<Vec<u8>> {
    use annals::audit::proof::{Head, Key, Scope};
    let scratch = crate::support::Scratch::new();
    let store = scratch.open_without_projector();
    let golden = folder::golden("conversations");
    annals::transfer::Importer::new(&store, Default::default()).import(&golden, &mut |_| ()).unwrap();
    let key = Key::make(&scratch.path("key")).unwrap();
    let head = Head::new(Scope::Whole, annals::Timestamp(1), store.audit().chain_heads(None).unwrap());
    vec![head.to_text().into_bytes(), head.to_signed_text(&key).into_bytes()]
}

/// JSON that parsers disagree about.
const NUMBERS: &str = r#"[0,-0,-0.0,1e0,1E+2,1e-400,1e400,0.1,01,+1,.5,1.,9223372036854775808,-9223372036854775809,5e-324]
{"a":1,"a":2,"":{},"\u0061":3,"b":[[],[[]],{"c":[]}],"n":NaN,"i":-Infinity}
["\u0000","\ud83d\ude4f","\ud800","\udc00","\ud800\ud800","\/","\x","\u00e","\"","é",""]
"text" 
[true,false,null,[{"a":[{"b":[{"c":[]}]}]}]]"#;

/// Returns logs of other programs: a folder of each format, and each of its files.
fn foreign() -> Vec<Vec<u8>> {
    let root = folder::golden("foreign");
    let mut seeds = Vec::new();
    // The old sessions of OpenHands are no format of another program, but the target reads them as well.
    for format in ForeignFormat::ALL.map(ForeignFormat::as_str).into_iter().chain(["openhands-v0"]) {
        let tree = folder::read(&root.join(format));
        assert!(tree.keys().any(|name| !name.ends_with('/')), "{format} has no golden file");
        seeds.push([&[0x1e], &*pack(&tree)].concat());
        for (name, content) in tree.iter().filter(|(name, _)| !name.ends_with('/')) {
            let name = name.rsplit('/').next().unwrap_or_default();
            seeds.push([name.as_bytes(), &[0x1f], content].concat());
        }
    }
    assert!(seeds.len() > 15);
    seeds
}

/// Encodes a folder as the target reads it. Only small files are used, because most faults are in names and in the
/// first bytes of files.
fn pack(folder: &folder::Tree) -> Vec<u8> {
    let mut data = Vec::new();
    for (name, content) in
        folder.iter().filter(|(name, content)| content.len() < 4000 && !name.ends_with('/')).take(14)
    {
        data.extend([name.as_bytes(), &[0x1f], content, &[0x1e]].concat());
    }
    data
}

/// Returns the events of a folder, one per line.
fn events_of(folder: &folder::Tree) -> Vec<u8> {
    let events = folder.iter().filter(|(name, _)| name.starts_with("events/event-"));
    let lines = events.take(30).map(|(_, content)| String::from_utf8_lossy(content).replace('\n', " "));
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}

/// The maximum duration of one case. A case that hangs is a failure.
const CASE_MAX: Duration = Duration::from_secs(120);

/// The maximum memory of the process, in bytes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// Runs a target on `cases` cases, or for the time that `ANNALS_FUZZ_SECONDS` gives.
fn run(target: &str, cases: u64) {
    let (_, work) = targets::TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    run_on(target, &seeds(target), cases, work);
}

/// Like [`run`], with these seeds and this target function.
pub fn run_on(target: &str, seeds: &[Vec<u8>], cases: u64, work: impl Fn(&[u8])) {
    assert!(!seeds.is_empty());
    if let Some(corpus) = std::env::var_os("ANNALS_FUZZ_CORPUS") {
        let folder = std::path::Path::new(&corpus).join(target);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
        }
    }
    let seconds: Option<u64> = std::env::var("ANNALS_FUZZ_SECONDS")
        .ok()
        .map(|text| text.parse().expect("ANNALS_FUZZ_SECONDS is a number"));
    let seed = match seconds {
        Some(_) => annals::Timestamp::now().0.cast_unsigned(),
        None => 1,
    };
    let mut random = Random::new(seed);
    let watch = Watch::begin(target);
    let (began, mut case, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    loop {
        let is_done = match seconds {
            Some(seconds) => began.elapsed() >= Duration::from_secs(seconds),
            None => case == cases,
        };
        if is_done {
            break;
        }
        let data = match seeds.get(case as usize) {
            Some(seed) => seed.clone(), // The first cases are the seeds, unchanged.
            None => change(seeds, &mut random),
        };
        watch.show(&data);
        let begun = Instant::now();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&data))) {
            report_case(target, "fails", &data);
            std::panic::resume_unwind(panic);
        }
        slowest = slowest.max(begun.elapsed());
        if memory_bytes() > MEMORY_BYTES_MAX {
            report_case(target, "takes too much memory", &data);
            panic!("more than {MEMORY_BYTES_MAX} bytes");
        }
        case += 1;
    }
    if seconds.is_some() {
        println!(
            "{target}: {case} cases in {} s, the slowest {} ms, none failed (seed {seed})",
            began.elapsed().as_secs(),
            slowest.as_millis()
        );
    }
}

/// Stores a case in a file, and prints its path.
fn report_case(target: &str, what: &str, data: &[u8]) {
    let path = std::env::temp_dir().join(format!("annals-fuzz-{target}-{}", std::process::id()));
    std::fs::write(&path, data).unwrap();
    let text = String::from_utf8_lossy(data);
    eprintln!("a case of {target} {what}; it is in {}:\n{text:.4000}", path.display());
}

/// The peak resident memory of the process, in bytes. 0 if the system does not report it.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// A thread that ends the process if one case takes longer than [`CASE_MAX`].
struct Watch(std::sync::mpsc::Sender<Vec<u8>>);

impl Watch {
    fn begin(target: &str) -> Self {
        let (sender, cases) = std::sync::mpsc::channel::<Vec<u8>>();
        let target = target.to_owned();
        std::thread::spawn(move || {
            let mut last = Vec::new();
            loop {
                match cases.recv_timeout(CASE_MAX) {
                    Ok(case) => last = case,
                    Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                        report_case(&target, "does not end", &last);
                        std::process::exit(101);
                    }
                }
            }
        });
        Self(sender)
    }

    fn show(&self, case: &[u8]) {
        let _ended = self.0.send(case.to_vec());
    }
}

#[test]
fn any_text_is_an_event_or_is_refused() {
    run("decode", 6_000);
}

#[test]
fn any_text_is_a_base_state_a_time_an_id_or_is_refused() {
    run("documents", 3_000);
}

#[test]
fn any_statement_is_answered_or_refused() {
    run("sql", 600);
}

#[test]
fn any_words_can_be_searched_for() {
    run("search", 1_500);
}

#[test]
fn any_text_is_a_head_or_is_refused() {
    run("head", 3_000);
}

#[test]
fn any_imported_folder_is_exported_unchanged() {
    run("import", 80);
}

#[test]
fn everything_can_be_derived_from_any_events() {
    run("fold", 80);
}

#[test]
fn our_json_reader_accepts_the_same_texts_as_serde_json() {
    run("json", 6_000);
}

#[test]
fn any_log_of_another_program_is_imported_or_refused() {
    run("foreign", 150);
}

#[test]
fn a_word_goes_out_of_any_folder_for_good() {
    run("redact", 60);
}

#[test]
fn any_folder_is_upgraded_once() {
    run("upgrade", 60);
}
