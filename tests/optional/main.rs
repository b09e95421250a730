//! Tests of features that are off by default: `cargo test --all-features --test optional`.
//!
//! This is a separate program, so that the whole suite is not compiled once more for a few tests.

#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "shared with a suite that uses all of it")]
mod support;

mod parquet;
mod spans;
mod telemetry;
