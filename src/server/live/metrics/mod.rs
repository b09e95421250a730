//! The server's metrics: what is counted while it runs. `site/metrics.rs` shows them.
//!
//! Source of the text: Prometheus' exposition format 0.0.4.

mod histogram;
mod request;
mod text;
mod work;

pub(in crate::server) use request::Metrics;
pub(in crate::server) use text::{Kind, Text};
pub(in crate::server) use work::Work;
