//! The web page for people: the files that a browser loads, embedded in the program.
//!
//! This module is a table of paths and bytes. The server serves them. `app/` has the source of the page: HTML, CSS and
//! ES modules, without a build step. `vendor/` has third-party modules from npm; its script `fetch.sh` compares them
//! with npm and names the two changes made to them. Without the feature `page` the table is empty. `docs/page.md`
//! describes what the page shows.
//!
//! Invariants, checked by tests: the table has every file of the two folders and no other file; all files together,
//! compressed, are smaller than 150 kB; the page has no script and no style outside of its files, and refers to no file
//! that is not in the table.

#[cfg(feature = "page")]
mod assets;
#[cfg(feature = "page")]
#[cfg(test)]
mod tests;

use std::sync::{LazyLock, OnceLock};

use crate::chain::Digest;

/// A file of the page.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Asset {
    /// The path below the page's folder, such as `lib/api.js`. The page itself is `index.html`.
    pub path: &'static str,
    /// The content type, as in the HTTP header.
    pub content_type: &'static str,
    /// The file.
    pub bytes: &'static [u8],
}

/// All files, by path.
#[cfg(feature = "page")]
pub const ASSETS: &[Asset] = assets::ASSETS;
/// All files, by path. The table is empty: this program was built without the feature `page`.
#[cfg(not(feature = "page"))]
pub const ASSETS: &[Asset] = &[];

/// The content security policy of the page. The page may run its own modules, use its own style sheets, send requests
/// to its own server and show pictures that it holds itself. The browser refuses to turn text into markup.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// The path of the page itself.
pub const INDEX: &str = "index.html";

/// The compression level, from 1 to 22. Each file is compressed once, at its first request.
const LEVEL: i32 = 9;

static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |asset: &Asset| format!("\"{}\"", &Digest::of(asset.bytes).to_hex()[..32]);
    ASSETS.iter().map(tag).collect()
});

static PACKED: LazyLock<Vec<OnceLock<Packed>>> =
    LazyLock::new(|| ASSETS.iter().map(|_| OnceLock::new()).collect());

/// A file compressed with Zstandard (RFC 8878), with its tag.
struct Packed {
    bytes: Vec<u8>,
    tag: String,
}

/// A file in a form that can be sent.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Form {
    /// The content type, as in the HTTP header.
    pub content_type: &'static str,
    /// The content, plain or compressed.
    pub bytes: &'static [u8],
    /// The strong entity tag, quoted. Different bytes and different forms have different tags.
    pub tag: &'static str,
}

/// Returns the uncompressed file at `path`. `None` if there is no such file.
#[must_use]
pub fn asset(path: &str) -> Option<Form> {
    let index = index(path)?;
    let Asset { content_type, bytes, .. } = ASSETS[index];
    Some(Form { content_type, bytes, tag: &TAGS[index] })
}

/// Returns the file at `path`, compressed with Zstandard. `None` if there is no such file or the compression fails.
#[must_use]
pub fn packed(path: &str) -> Option<Form> {
    let index = index(path)?;
    let content_type = ASSETS[index].content_type;
    if let Some(packed) = PACKED[index].get() {
        return Some(Form { content_type, bytes: &packed.bytes, tag: &packed.tag });
    }
    let bytes = zstd::bulk::compress(ASSETS[index].bytes, LEVEL).ok()?;
    let tag = format!("{}-z\"", TAGS[index].trim_end_matches('"'));
    let packed = PACKED[index].get_or_init(|| Packed { bytes, tag });
    Some(Form { content_type, bytes: &packed.bytes, tag: &packed.tag })
}

fn index(path: &str) -> Option<usize> {
    ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok()
}
