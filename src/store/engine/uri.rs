//! The URIs with which the engine opens files.

use std::path::Path;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

/// The characters that would mean something else in a URI. Bytes outside of ASCII are encoded, too.
const SPECIAL: &AsciiSet = &CONTROLS.add(b'?').add(b'#').add(b'%');

/// Returns the URI of a file. A relative path becomes absolute. `parameters` begin with `?` or are empty.
pub(in crate::store) fn of(path: &Path, parameters: &str) -> String {
    let absolute = std::path::absolute(path);
    let path = absolute.as_deref().unwrap_or(path).as_os_str();
    format!("file:{}{parameters}", percent_encode(path.as_encoded_bytes(), SPECIAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_path_are_encoded_in_its_uri() {
        let uri = of(Path::new("/tmp/a?b#c%d e/ä"), "?mode=ro");
        assert_eq!(uri, "file:/tmp/a%3Fb%23c%25d e/%C3%A4?mode=ro");
    }
}
