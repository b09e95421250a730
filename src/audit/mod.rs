//! Reports about a whole file: what agents did, who allowed it, what it cost, what went wrong.
//!
//! Each report is one SELECT over the documented views. A user can read its SQL, and can run it without Annals.
//! Reports run through the guard of [`Store::query`](crate::Store::query) like any other SQL, so they can read nothing
//! that other SQL cannot read. The module `json` makes the JSON of the answers. This module uses no tables, only views.
//! One question is asked of the log itself, because no table can answer it: who saw a content ([`seen`]).

mod costs;
mod document;
#[cfg(any(feature = "cli", feature = "server"))]
pub(crate) mod json;
mod list;
mod page;
mod parts;
#[cfg(feature = "proof")]
pub mod proof;
mod report;
mod run;
mod seen;

pub use document::{document, document_views};
pub use list::{REPORTS, find, report};
pub use page::{page, report_page};
pub use report::{Column, Parameter, ParameterKind, Report};
pub use run::run;
pub use seen::{Likeness, SIGHTINGS_MAX, SeenBy, SeenReport, Sighting, Wanted, seen, seen_in};
