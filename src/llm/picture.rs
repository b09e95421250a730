//! Fetches pictures and puts them into requests, for models that do not fetch pictures themselves (the feature
//! `inline_images`), and for Gemini, which wants the type of a picture.
//!
//! If a picture cannot be fetched, its address is sent, and the provider decides what to do with it. Nothing is fetched
//! from this machine or its network, because the address comes from a conversation. Redirects are followed under the
//! same rule. Source: the reference's `utils/image_inline.py` 1.58.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use tokio::time::Instant;

use super::http::Transport;
use super::media::{Which, kind_of_bytes};
use crate::event::{Content, Message, Text};

/// The maximum size of a picture, in bytes.
const PICTURE_BYTES_MAX: usize = 20 << 20;

/// The maximum size of the cache for later calls, in bytes of the pictures' text.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The maximum size of all pictures that are put into one request, in bytes of their text. The other pictures of the
/// request stay addresses.
const BROUGHT_BYTES_MAX: usize = 32 << 20;

/// The timeout for fetching all pictures of one request.
const FETCH: Duration = Duration::from_secs(30);

/// How long an address that could not be fetched is not asked again.
const FAILED: Duration = Duration::from_secs(300);

/// The maximum number of such addresses that are remembered.
const FAILED_MAX: usize = 1000;

const REDIRECTS_MAX: usize = 5;

/// A cache of fetched pictures. The latest picture is last.
#[derive(Debug)]
pub(super) struct Pictures {
    kept: Mutex<Vec<(Text, Text)>>,
    /// The addresses that could not be fetched, and when. The latest address is last.
    failed: Mutex<Vec<(Text, Instant)>>,
    private: bool,
}

impl Pictures {
    /// Makes an empty cache. If `private`, pictures may also be fetched from this machine and its network.
    pub fn new(private: bool) -> Self {
        Self { kept: Mutex::default(), failed: Mutex::default(), private }
    }

    /// Replaces the addresses of pictures by the pictures themselves, if they can be fetched.
    pub async fn bring(&self, messages: &mut [Message], which: Which, transport: &Transport) {
        let end = Instant::now() + FETCH;
        let mut left = BROUGHT_BYTES_MAX;
        for message in messages {
            for part in &mut message.content {
                let Content::Image(image) = part else { continue };
                for url in image.image_urls.iter_mut().filter(|url| which.includes(url)) {
                    let picture = match left {
                        0 => None,
                        _ => self.fetched(url, transport, end).await,
                    };
                    if let Some(picture) = picture {
                        let rest = left.checked_sub(picture.len());
                        left = rest.unwrap_or(0);
                        if rest.is_some() {
                            *url = picture;
                        }
                    }
                }
            }
        }
    }

    /// Returns the picture at this address as text. `None` if it cannot be fetched until `end`.
    async fn fetched(&self, url: &Text, transport: &Transport, end: Instant) -> Option<Text> {
        let known = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|(known, _)| known == url).map(|(_, picture)| picture.clone())
        };
        if known.is_some() || self.has_failed(url) {
            return known;
        }
        let Ok(Some(picture)) = tokio::time::timeout_at(end, self.fetch(url, transport)).await else {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push((url.clone(), Instant::now()));
            let surplus = failed.len().saturating_sub(FAILED_MAX);
            failed.drain(..surplus);
            return None;
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((url.clone(), picture.clone()));
        let size = |kept: &[(Text, Text)]| kept.iter().map(|(_, picture)| picture.len()).sum::<usize>();
        while size(&kept) > KEPT_BYTES_MAX {
            kept.remove(0);
        }
        Some(picture)
    }

    fn has_failed(&self, url: &Text) -> bool {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|(_, since)| since.elapsed() < FAILED);
        failed.iter().any(|(known, _)| known == url)
    }

    async fn fetch(&self, url: &str, transport: &Transport) -> Option<Text> {
        let mut url = reqwest::Url::parse(url).ok()?;
        for _ in 0..=REDIRECTS_MAX {
            let response = match self.private {
                true => transport.get(url.as_str(), None).await,
                false => transport.get_public(url).await,
            };
            let mut response = response?;
            if response.status().is_redirection() {
                let to = response.headers().get("location")?.to_str().ok()?;
                url = response.url().join(to).ok()?;
                continue;
            }
            if !response.status().is_success() {
                return None;
            }
            let kind = response
                .headers()
                .get("content-type")
                .and_then(|kind| kind.to_str().ok())
                .unwrap_or_default();
            let kind = kind.split(';').next().unwrap_or_default().trim().to_lowercase();
            // Some servers of files do not know what their files are.
            let is_unknown = ["", "application/octet-stream", "binary/octet-stream"].contains(&&*kind);
            if !kind.starts_with("image/") && !is_unknown {
                return None;
            }
            let mut bytes = Vec::new();
            while let Some(piece) = response.chunk().await.ok()? {
                bytes.extend_from_slice(&piece);
                if bytes.len() > PICTURE_BYTES_MAX {
                    return None;
                }
            }
            let kind = match kind_of_bytes(&bytes) {
                Some(kind) => kind,
                None if is_unknown => return None,
                None => &*kind,
            };
            let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
            return Some(format!("data:{kind};base64,{data}").into());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::thread::JoinHandle;

    use super::*;
    use crate::event::{ImageContent, Role};

    /// A server that redirects the first request.
    fn redirecting(to: String) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).unwrap() > 0);
            let answer = format!(
                "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).unwrap();
        });
        (address, server)
    }

    /// A server of pictures of 11 MiB, which has no picture at `/gone`. It ends at `/end` and returns what was asked.
    fn gallery() -> (SocketAddr, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut paths = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let read = stream.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                let path = request.split(' ').nth(1).unwrap().to_owned();
                let (status, size) = match &*path {
                    "/end" => return paths,
                    "/gone" => ("404 Not Found", 0),
                    _ => ("200 OK", 11 << 20),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: image/png\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(&vec![0; size]).unwrap();
                paths.push(path);
            }
        });
        (address, server)
    }

    #[tokio::test]
    async fn a_request_holds_pictures_up_to_a_bound_and_a_failed_address_is_not_asked_again() {
        let (address, server) = gallery();
        let urls = ["/gone", "/a", "/b", "/c"].map(|path| Text::from(format!("http://{address}{path}")));
        let (pictures, transport) = (Pictures::new(true), Transport::new().unwrap());
        for _ in 0..2 {
            let content = vec![Content::Image(ImageContent::new(urls.to_vec()))];
            let mut messages = [Message::new(Role::User, content)];
            pictures.bring(&mut messages, Which::All, &transport).await;
            let Content::Image(image) = &messages[0].content[0] else { panic!("no picture") };
            let brought = image.image_urls.iter().map(|url| url.starts_with("data:image/png;base64,"));
            // Each picture has almost 15 MiB of text: the third one is beyond the bound.
            assert_eq!(brought.collect::<Vec<_>>(), [false, true, true, false]);
        }
        TcpStream::connect(address).unwrap().write_all(b"GET /end HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(server.join().unwrap(), ["/gone", "/a", "/b", "/c"]);
    }

    #[tokio::test]
    async fn a_redirect_from_a_public_host_does_not_lead_into_the_own_network() {
        let private = TcpListener::bind("127.0.0.1:0").unwrap();
        private.set_nonblocking(true).unwrap();
        let port = private.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"] {
            let (address, server) = redirecting(format!("http://{host}:{port}/x.png"));
            let transport = Transport::with_public_host("pictures.example", address);
            let url = format!("http://pictures.example:{}/x.png", address.port());
            let pictures = Pictures::new(false);
            let fetched = tokio::time::timeout(FETCH, pictures.fetch(&url, &transport)).await;
            assert_eq!(fetched.expect("an answer in time"), None, "{host}");
            // If no request came to the server, this connection ends it, and it fails.
            drop(TcpStream::connect(address));
            server.join().unwrap();
            let asked = private.accept().map(|_| ()).map_err(|error| error.kind());
            assert_eq!(asked, Err(ErrorKind::WouldBlock), "{host} was asked");
        }
    }
}
