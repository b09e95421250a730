//! The page for people: the files that a browser loads, embedded in the program.
//!
//! A table of paths and bytes; what serves them is the server's business. `app/` is the page as it is written: HTML,
//! CSS and ES modules, without a build step. `vendor/` has the modules of other people, each as npm publishes it, with a
//! script that compares them. Without the feature `page` the table is empty. What the page shows stands in
//! `docs/page.md`.
//!
//! Invariants, held by tests: every file of the two folders is in the table and nothing else; packed, all of it is under
//! 150 kB; it has no script and no style but its files, and names nothing that is not in the table.

#[cfg(feature = "page")]
mod assets;
#[cfg(all(test, feature = "page"))]
mod tests;

use std::sync::{LazyLock, OnceLock};

use crate::chain::Digest;

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Its path below the page's folder, such as `lib/api.js`; the page itself is `index.html`.
    pub path: &'static str,
    /// What it is, as HTTP says it.
    pub content_type: &'static str,
    /// The file.
    pub bytes: &'static [u8],
}

/// All files, by path.
#[cfg(feature = "page")]
pub const ASSETS: &[Asset] = assets::ASSETS;
/// All files, by path; this program was built without them.
#[cfg(not(feature = "page"))]
pub const ASSETS: &[Asset] = &[];

/// What the page may do: run its own modules, look as its own sheets say, ask the server it came from, and show
/// pictures that it holds itself. No text becomes markup: the browser refuses it.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// The path of the page itself.
pub const INDEX: &str = "index.html";

/// How hard a file is packed, from 1 to 22: it is done once, when somebody first asks for it.
const LEVEL: i32 = 9;

static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |asset: &Asset| format!("\"{}\"", &Digest::of(asset.bytes).to_hex()[..32]);
    ASSETS.iter().map(tag).collect()
});

static PACKED: LazyLock<Vec<OnceLock<Packed>>> =
    LazyLock::new(|| ASSETS.iter().map(|_| OnceLock::new()).collect());

/// A file as Zstandard (RFC 8878), with its tag.
struct Packed {
    bytes: Vec<u8>,
    tag: String,
}

/// A file in a form that can be sent.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// What it is, as HTTP says it.
    pub content_type: &'static str,
    /// The file, as it is or packed.
    pub bytes: &'static [u8],
    /// Its strong entity tag, quoted: other bytes have another one, and so has another form.
    pub tag: &'static str,
}

/// A file by its path, as it is.
#[must_use]
pub fn asset(path: &str) -> Option<Form> {
    let place = place(path)?;
    let Asset { content_type, bytes, .. } = ASSETS[place];
    Some(Form { content_type, bytes, tag: &TAGS[place] })
}

/// A file by its path, packed with Zstandard; `None` too where that fails.
#[must_use]
pub fn packed(path: &str) -> Option<Form> {
    let place = place(path)?;
    let content_type = ASSETS[place].content_type;
    if let Some(packed) = PACKED[place].get() {
        return Some(Form { content_type, bytes: &packed.bytes, tag: &packed.tag });
    }
    let bytes = zstd::bulk::compress(ASSETS[place].bytes, LEVEL).ok()?;
    let tag = format!("{}-z\"", TAGS[place].trim_end_matches('"'));
    let packed = PACKED[place].get_or_init(|| Packed { bytes, tag });
    Some(Form { content_type, bytes: &packed.bytes, tag: &packed.tag })
}

fn place(path: &str) -> Option<usize> {
    ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok()
}
