//! Tests of the log that several stores share: `cargo test --features postgres --test shared`.
//!
//! Each starts a PostgreSQL server of its own, in a folder of its own, that listens on no network. The server's programs
//! must be installed (Debian: `apt-get install postgresql`); `ANNALS_POSTGRES` names their folder if they are not found.

#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "shared with a suite that uses all of it")]
mod support;

#[cfg(feature = "cli")]
mod cli;
mod cuts;
mod faults;
mod history;
#[cfg(feature = "agent")]
mod leases;
mod outages;
mod purge;
mod replicas;
mod server;
#[cfg(feature = "server")]
mod serving;
mod standing;
