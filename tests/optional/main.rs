//! What features that are off by default add: `cargo test --all-features --test optional`.
//!
//! A program of its own, so that the whole suite is not compiled once more for a few tests.

#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "shared with a suite that uses all of it")]
mod support;

mod parquet;
mod telemetry;
