//! The page for people: the files that a browser loads, embedded in the program.
//!
//! A table of paths and bytes; what serves them is the server's business. `app/` is the page as it is written: HTML,
//! CSS and ES modules, without a build step. `vendor/` has the modules of other people, each as npm publishes it, with a
//! script that compares them. Without the feature `page` the table is empty. What the page shows stands in
//! `docs/page.md`.
//!
//! Invariants, held by tests: every file of the two folders is in the table and nothing else; the page is under
//! 300 kB; it has no script and no style but its files, and names nothing that is not in the table.

#[cfg(feature = "page")]
mod assets;
#[cfg(feature = "page")]
mod packed;
#[cfg(all(test, feature = "page"))]
mod tests;

use std::sync::LazyLock;

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

static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |asset: &Asset| format!("\"{}\"", &Digest::of(asset.bytes).to_hex()[..32]);
    ASSETS.iter().map(tag).collect()
});

/// A file as gzip (RFC 1952) has it, which takes a third of the bytes; made when it is first asked for.
#[must_use]
#[cfg(feature = "page")]
pub fn packed(path: &str) -> Option<&'static [u8]> {
    packed::of(place(path)?)
}

/// Nothing: this program was built without files.
#[must_use]
#[cfg(not(feature = "page"))]
pub fn packed(_path: &str) -> Option<&'static [u8]> {
    None
}

fn place(path: &str) -> Option<usize> {
    ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok()
}

/// A file by its path, with its strong entity tag: quoted, the beginning of its SHA-256.
#[must_use]
pub fn asset(path: &str) -> Option<(&'static Asset, &'static str)> {
    let place = place(path)?;
    Some((&ASSETS[place], &TAGS[place]))
}
