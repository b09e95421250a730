//! The media types of pictures: what the bytes, a `data:` address or the name of an address show.

use base64::Engine as _;

/// The beginning of the addresses of files that were uploaded to Gemini. Only the provider can fetch them.
const UPLOADED: &str = "https://generativelanguage.googleapis.com/v1beta/files/";

/// Which pictures are fetched and put into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// All pictures.
    All,
    /// Pictures with an address that does not show their media type, or that the provider does not fetch. Source:
    /// litellm's `_process_gemini_media`.
    Untyped,
}

impl Which {
    /// Returns whether the picture at this address is fetched.
    pub fn includes(self, url: &str) -> bool {
        let is_secure = url.starts_with("https://");
        let is_typed = || url.starts_with(UPLOADED) || kind_of_name(url).is_some();
        match self {
            Self::All => is_secure || url.starts_with("http://"),
            Self::Untyped => (is_secure && !is_typed()) || url.starts_with("http://"),
        }
    }
}

/// Returns the media type and the base64 text of a `data:` address. `None` for any other address.
///
/// The first bytes of the picture decide, because providers reject a picture of another type than the stated one. If
/// they are not known, the stated type counts.
pub(super) fn of_data_url(url: &str) -> Option<(&str, &str)> {
    let (stated, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let stated = stated.split(';').next().unwrap_or_default();
    Some((kind_of_data(data).unwrap_or(stated), data))
}

/// Returns the media type of a picture that is given as base64 text. `None` if its first bytes are not known.
fn kind_of_data(data: &str) -> Option<&'static str> {
    // Sixteen digits are twelve bytes.
    let bytes = base64::engine::general_purpose::STANDARD.decode(data.get(..16)?).ok()?;
    kind_of_bytes(&bytes)
}

/// Returns the media type of a picture. `None` if its first bytes are not known.
pub(super) fn kind_of_bytes(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Returns the media type that the name of an address shows. `None` if the name does not end like that of a picture.
pub(super) fn kind_of_name(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit_once('.')?.1.to_lowercase().as_str() {
        "jpg" | "jpeg" => Some("image/jpeg"),
        "png" => Some("image/png"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_of_a_picture_show_its_type() {
        for (url, expected) in [
            ("data:image/png;base64,/9j/4AAQSkZJRgABAQAAAQ==", Some("image/jpeg")),
            ("data:;base64,iVBORw0KGgoAAAANSUhEUg==", Some("image/png")),
            ("data:image/jpeg;charset=x;base64,R0lGODlhAQABAIAAAAA=", Some("image/gif")),
            ("data:application/octet-stream;base64,UklGRiQAAABXRUJQVlA4", Some("image/webp")),
            // Sound begins in a similar way.
            ("data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAA", Some("audio/wav")),
            ("data:image/heic;name=a;base64,AAAA", Some("image/heic")),
            ("https://a.example/x.png", None),
        ] {
            assert_eq!(of_data_url(url).map(|(kind, _)| kind), expected, "{url}");
        }
        assert_eq!(of_data_url("data:image/png;base64,UE5HIQ=="), Some(("image/png", "UE5HIQ==")));
    }

    #[test]
    fn an_address_is_fetched_if_it_does_not_show_the_type() {
        for (url, is_fetched) in [
            ("https://a.example/x.PNG?size=1#here", false),
            ("https://a.example/x.jpeg", false),
            ("https://a.example/x", true),
            ("https://a.example/x.gif", true),
            ("http://a.example/x.png", true),
            ("https://generativelanguage.googleapis.com/v1beta/files/abc", false),
            ("gs://bucket/x", false),
            ("data:image/png;base64,AA==", false),
        ] {
            assert_eq!(Which::Untyped.includes(url), is_fetched, "{url}");
            assert_eq!(Which::All.includes(url), url.starts_with("http"), "{url}");
        }
        assert_eq!(kind_of_name("https://a.example/x.PNG?size=1#here"), Some("image/png"));
        assert_eq!(kind_of_name("gs://bucket/x.webp"), Some("image/webp"));
        assert_eq!(kind_of_name("https://a.example"), None);
    }
}
