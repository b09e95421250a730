//! Commands beside commands, and commands that are killed, on files like those of a person.
//!
//! `stage.rs` makes the files and lists the commands. `pairs.rs` starts two at the same moment: the files are then as one
//! of the two orders leaves them. `kills.rs` kills a command at one of its writing system calls (`trace.rs`) and repeats
//! it: the files are then as if nothing had happened.

#[cfg(target_os = "linux")]
mod kills;
mod pairs;
mod stage;
#[cfg(target_os = "linux")]
mod trace;
