//! Write-ahead logs that were damaged, or that lie without their file: nothing behind the damage is lost in silence.
#![cfg(feature = "cli")]

use std::path::{Path, PathBuf};

use annals::{ConversationId, Expected, Store};

use crate::cli::Program;
use crate::support::events::user_message;
use crate::support::without_projector;

const APPENDS: u64 = 40;

/// A frame of a log whose pages have 4,096 bytes, and the log's header.
const FRAME: usize = 24 + 4096;
const HEADER: usize = 32;

fn talk() -> ConversationId {
    ConversationId::new("talk").unwrap()
}

/// The file and the log of a process that was killed after [`APPENDS`] acknowledged appends to a file with goldens.
fn killed(program: &Program) -> (Vec<u8>, Vec<u8>) {
    let file = program.folder.path().join("annals.db");
    let store = Store::open_with(&file, &without_projector()).unwrap();
    for number in 0..APPENDS {
        store.append(&talk(), Expected::Any, &[user_message(&format!("e{number}"), "text")]).unwrap();
    }
    let beside = |end: &str| std::fs::read(PathBuf::from(format!("{}{end}", file.display()))).unwrap();
    (beside(""), beside("-wal"))
}

/// The number of events in `talk`. 0 if it is not there.
fn events(file: &Path) -> u64 {
    let store = Store::open_with(file, &without_projector()).unwrap();
    store.find(&talk()).unwrap().map_or(0, |row| row.event_count)
}

fn kept(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_kept = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.contains(".damaged-") && !name.ends_with("-wal") && !name.ends_with("-shm")
    };
    entries.filter(is_kept).collect()
}

#[test]
fn what_is_behind_a_damaged_frame_is_kept_and_named_and_comes_back() {
    let source = Program::with_goldens();
    let (file, log) = killed(&source);
    let frames = (log.len() - HEADER) / FRAME;
    assert!(frames > 50, "{frames} frames");
    let salts = &log[16..24];
    let last = (0..frames).rev().find(|frame| &log[HEADER + frame * FRAME + 8..][..8] == salts).unwrap();
    let mut named = 0;
    // Ten places, each a few processes: early and late, in the page and in the checksum of the frame.
    let places = (0..10).map(|place| (place * last / 10, [30, 4000, 17][place % 3]));
    for (frame, at) in places {
        let program = Program::new();
        let path = program.folder.path().join("annals.db");
        let mut damaged = log.clone();
        damaged[HEADER + frame * FRAME + at] ^= 1;
        std::fs::write(&path, &file).unwrap();
        std::fs::write(program.folder.path().join("annals.db-wal"), &damaged).unwrap();
        // The commits behind the frame.
        let is_commit = |frame: &usize| log[HEADER + frame * FRAME + 4..][..4] != [0; 4];
        let behind = (frame..=last).filter(is_commit).count();
        // The first opening is one that writes.
        let left = events(&path);
        let found = kept(program.folder.path());
        assert_eq!(found.len(), usize::from(behind > 1), "frame {frame}: {behind} commits behind it");
        let [copy] = &found[..] else { continue };
        named += 1;
        let store = Store::open_with(&path, &without_projector()).unwrap();
        store.append(&talk(), Expected::Any, &[user_message("later", "text")]).unwrap();
        drop(store);
        for command in ["verify", "doctor", "list"] {
            let output = program.run(&[command]);
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
            assert_eq!(output.status.code(), Some(0), "{command}: {said}");
            assert!(
                said.contains("annals recover ") && said.contains("commits behind a frame that is not whole"),
                "{said}"
            );
        }
        let copy = copy.to_str().unwrap();
        program.run(&["recover", copy, "--into", "new.db"]);
        let recovered = events(&program.folder.path().join("new.db"));
        // Where the damaged page is of the conversation, there is what was before it.
        assert!(recovered >= left, "frame {frame}: {recovered} of {APPENDS}, {left} before");
        if at == 17 {
            assert_eq!(recovered, APPENDS, "only the frame's checksum was damaged");
        }
        program.succeed(&["--db", "new.db", "verify"]);
    }
    assert!(named > 2, "{named}");
}

#[test]
fn a_log_is_read_with_its_file_that_was_moved_and_alone_if_it_has_everything() {
    let source = Program::with_goldens();
    let (file, log) = killed(&source);
    let program = Program::new();
    let path = |name: &str| program.folder.path().join(name);
    std::fs::write(path("moved.db"), &file).unwrap();
    std::fs::write(path("annals.db-wal"), &log).unwrap();
    let (code, said) = program.fails(&["import", crate::support::folder::golden("legacy").to_str().unwrap()]);
    assert!(code != 0 && said.contains("annals recover"), "{said}");
    let said = program.succeed(&["recover", "annals.db-wal", "--base", "moved.db", "--into", "new.db"]);
    assert!(said.contains("  annals.db-wal") && !said.contains(".restored-"), "{said}");
    assert_eq!(events(&path("new.db")), APPENDS);
    let listed = program.json(&["--db", "new.db", "list"]);
    assert_eq!(listed["conversations"].as_array().unwrap().len(), 11);
    assert_eq!(std::fs::read(path("annals.db-wal")).unwrap(), log, "it is only read");
    assert_eq!(std::fs::read(path("moved.db")).unwrap(), file, "it is only read");

    // A file whose log was never moved into it.
    let whole = Program::new();
    let (_, log) = killed(&whole);
    std::fs::write(path("other.db-wal"), &log).unwrap();
    program.succeed(&["recover", "other.db-wal", "--into", "alone.db"]);
    assert_eq!(events(&path("alone.db")), APPENDS);
    let (code, said) = program.fails(&["recover", "nothing.db", "--into", "none.db"]);
    assert!(code != 0 && said.contains("nothing.db-wal"), "{said}");
    assert!(!path("none.db").exists());
}

#[test]
fn an_end_that_a_power_cut_broke_off_is_no_damage() {
    let source = Program::with_goldens();
    let (file, log) = killed(&source);
    let salts = log[16..24].to_vec();
    let frames = (log.len() - HEADER) / FRAME;
    let last = (0..frames).rev().find(|frame| log[HEADER + frame * FRAME + 8..][..8] == salts).unwrap();
    let program = Program::new();
    let path = program.folder.path().join("annals.db");
    for torn in [HEADER + last * FRAME + 100, log.len() - 1] {
        std::fs::write(&path, &file).unwrap();
        let mut cut = log.clone();
        if torn < cut.len() - 1 {
            cut[torn] ^= 1;
        }
        std::fs::write(program.folder.path().join("annals.db-wal"), &cut).unwrap();
        let _ = std::fs::remove_file(program.folder.path().join("annals.db-shm"));
        assert!(events(&path) >= APPENDS - 1);
        assert_eq!(kept(program.folder.path()), Vec::<PathBuf>::new());
    }
}
