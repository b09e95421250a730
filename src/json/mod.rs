//! JSON text: read in place, walked over, changed in parts, and written as the reference writes it.
//!
//! A text is checked once. After that it is read without building a tree, and what is not changed stays as it was, byte
//! for byte. Every room may use this one. It names no other room, and it does not know what an event is.
//!
//! Why not a crate for JSON: a stored payload keeps its bytes, its repeated members and Python's `NaN`, and what is
//! written has Python's spaces and escapes. `serde_json` and `jiter` read into values, and lose all of that.

mod decode;
mod draft;
mod dump;
mod names;
mod raw;
mod value;
mod walk;

pub(crate) use draft::{Draft, Members};
pub(crate) use dump::Out;
pub(crate) use raw::scan_names;
pub use raw::{DEPTH_MAX, Fault, Notes, Object, Raw, scan};
pub use value::Json;
pub(crate) use walk::{Leaf, Path, Sort, Step, decoded, walk};
