//! Makes files that tests run as programs.
//!
//! While this process writes a file, a process that another test forks has the file open for writing too, until it runs its
//! own program. Until then the system refuses to run the file ("text file busy"). So a process that starts nothing else
//! writes it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script. Its first line names its interpreter.
pub fn script(path: &Path, text: &str) {
    let write = "umask 022 && cat > \"$1\" && chmod 755 \"$1\"";
    let mut child =
        Command::new("/bin/sh").args(["-c", write, "sh"]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.display());
}

/// Copies the program `annals`.
#[cfg(feature = "cli")]
pub fn copy_of_annals(path: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_annals")).arg(path).status().unwrap();
    assert!(copied.success(), "{}", path.display());
}
