//! The files as they are sent to a browser that unpacks: each is packed once, when somebody first asks for it.

use std::io::Write as _;
use std::sync::{LazyLock, OnceLock};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::ASSETS;

static PACKED: LazyLock<Vec<OnceLock<Option<Vec<u8>>>>> =
    LazyLock::new(|| ASSETS.iter().map(|_| OnceLock::new()).collect());

/// The file at a place of the table; nothing where it would not become smaller.
pub(super) fn of(place: usize) -> Option<&'static [u8]> {
    PACKED.get(place)?.get_or_init(|| pack(ASSETS[place].bytes)).as_deref()
}

fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Memory takes everything.
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().filter(|packed| packed.len() < bytes.len())
}
