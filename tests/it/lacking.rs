//! What another program took away is missed: no export, merge or backup ends as if it had written everything.
#![cfg(feature = "cli")]

use crate::cli::Program;
use crate::support::{number, owner};

/// Tables whose rows the log or a chain of changes names, each with words of what is said when they are gone.
const NAMED: [(&str, &str); 7] = [
    ("conversation", "conversation whose row in the catalogue"),
    ("base_state", "the first base state is gone"),
    ("attachment", "the attachment"),
    ("origin", "is gone, and change"),
    ("event", " "),
    ("archived_payload", "its row in the table archived_payload is missing"),
    ("archived_conversation", "its row in the table archived_conversation is missing"),
];

#[test]
fn what_the_log_names_and_the_file_lacks_ends_every_copy_with_2() {
    for (table, words) in NAMED {
        let program = Program::with_goldens();
        if table.starts_with("archived") {
            program.succeed(&["archive", "5610a7", "--reason", "a test"]);
        }
        let file = program.folder.path().join("annals.db");
        let db = owner(&file);
        assert!(number(&db, &format!("SELECT count(*) FROM {table}")) > 0, "{table}");
        db.execute_batch(&format!("PRAGMA foreign_keys = OFF; DELETE FROM {table}")).unwrap();
        drop(db);
        for command in [
            &["export", "--all", "--to", "out"][..],
            &["merge", "annals.db", "--into", "merged.db"],
            &["backup", "backup.db"],
            &["backup", "backups/"],
            &["doctor"],
            &["verify"],
        ] {
            let output = program.run(command);
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
            assert_eq!(output.status.code(), Some(2), "{table}: {command:?}: {said}");
            // A merge verifies each conversation, and a verification has its own words.
            let is_own = !["merge", "verify"].contains(&command[0]);
            assert!(!is_own || said.contains(words), "{table}: {command:?}: {said}");
        }
        assert!(!program.folder.path().join("backup.db").exists(), "{table}");
    }
}
