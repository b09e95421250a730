//! Questions about a whole file: what agents did, who allowed it, what it cost, what went wrong.
//!
//! Every question is a named report: one SELECT over the documented views, so that anybody can read what it
//! asks and ask it without Annals. Reports run through the guard of [`Store::query`](crate::Store::query)
//! like any other SQL; they hold no secrets of their own. It says how answers are told to
//! programs (`json`). This room does not know tables, only views.

mod document;
pub mod json;
mod list;
mod page;
#[cfg(feature = "proof")]
pub mod proof;
mod report;
mod run;

pub use document::{document, document_views};
pub use list::{REPORTS, find, report};
pub use page::{page, report_page};
pub use report::{Column, Parameter, ParameterKind, Report};
pub use run::run;
