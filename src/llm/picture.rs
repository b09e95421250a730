//! Fetches pictures and puts them into requests, for models that do not fetch pictures themselves.
//!
//! If a picture cannot be fetched, its address is sent, and the provider decides what to do with it. Nothing is fetched
//! from this machine or its network, because the address comes from a conversation. Source: the reference's
//! `utils/image_inline.py` 1.58.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;

use super::http::Transport;
use crate::event::{Content, Message, Text};

/// The maximum size of a picture, in bytes.
const PICTURE_BYTES_MAX: usize = 20 << 20;

/// The maximum size of the cache for later calls, in bytes of the pictures' text.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The timeout for fetching one picture.
const FETCH: Duration = Duration::from_secs(30);

const REDIRECTS_MAX: usize = 5;

/// A cache of fetched pictures. The latest picture is last.
#[derive(Debug)]
pub(super) struct Pictures {
    kept: Mutex<Vec<(Text, Text)>>,
    private: bool,
}

impl Pictures {
    /// Makes an empty cache. If `private`, pictures may also be fetched from this machine and its network.
    pub fn new(private: bool) -> Self {
        Self { kept: Mutex::default(), private }
    }

    /// Replaces the addresses of pictures by the pictures themselves, if they can be fetched.
    pub async fn bring(&self, messages: &mut [Message], transport: &Transport) {
        for message in messages {
            for part in &mut message.content {
                let Content::Image(image) = part else { continue };
                for url in &mut image.image_urls {
                    if url.starts_with("http://") || url.starts_with("https://") {
                        *url = self.fetched(url, transport).await;
                    }
                }
            }
        }
    }

    /// Returns the picture at this address as text, or the address if the picture cannot be fetched.
    async fn fetched(&self, url: &Text, transport: &Transport) -> Text {
        let known = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|(known, _)| known == url).map(|(_, picture)| picture.clone())
        };
        if let Some(picture) = known {
            return picture;
        }
        let Ok(Some(picture)) = tokio::time::timeout(FETCH, self.fetch(url, transport)).await else {
            return url.clone();
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((url.clone(), picture.clone()));
        let size = |kept: &[(Text, Text)]| kept.iter().map(|(_, picture)| picture.len()).sum::<usize>();
        while size(&kept) > KEPT_BYTES_MAX {
            kept.remove(0);
        }
        picture
    }

    async fn fetch(&self, url: &str, transport: &Transport) -> Option<Text> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let (host, port) = host_and_port(&url)?;
            if !self.private && !is_public(&host, port).await {
                return None;
            }
            let mut response = transport.get(&url, None).await?;
            if response.status().is_redirection() {
                let to = response.headers().get("location")?.to_str().ok()?;
                url = response.url().join(to).ok()?.to_string();
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
            if !kind.starts_with("image/") {
                return None;
            }
            let mut bytes = Vec::new();
            while let Some(piece) = response.chunk().await.ok()? {
                bytes.extend_from_slice(&piece);
                if bytes.len() > PICTURE_BYTES_MAX {
                    return None;
                }
            }
            let data = base64::engine::general_purpose::STANDARD.encode(bytes);
            return Some(format!("data:{kind};base64,{data}").into());
        }
        None
    }
}

/// Returns the host and the port of an address. `None` if it is not an HTTP address.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let url = reqwest::Url::parse(url).ok().filter(|url| ["http", "https"].contains(&url.scheme()))?;
    Some((url.host_str()?.trim_matches(['[', ']']).to_lowercase(), url.port_or_known_default()?))
}

/// Returns whether all addresses of a host are outside of this machine and its network.
async fn is_public(host: &str, port: u16) -> bool {
    if host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local") {
        return false;
    }
    let Ok(addresses) = tokio::net::lookup_host((host, port)).await else { return false };
    let addresses: Vec<_> = addresses.collect();
    !addresses.is_empty() && addresses.iter().all(|address| is_public_address(address.ip()))
}

fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => is_public_v4(address),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    // Addresses that a provider's customers share (RFC 6598), for benchmarks (RFC 2544), or reserved (RFC 1112).
    let special =
        (first == 100 && second & 0xc0 == 64) || (first == 198 && second & 0xfe == 18) || first >= 240;
    !(special
        || first == 0
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    !(address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        // Addresses that contain an IPv4 address (NAT64, 6to4) or are for documentation.
        || matches!(address.segments(), [0x64, 0xff9b, ..] | [0x2002, ..] | [0x2001, 0xdb8, ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_outside_of_the_own_network_are_public() {
        for address in ["8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8"] {
            assert!(is_public_address(address.parse().unwrap()), "{address}");
        }
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
        ] {
            assert!(!is_public_address(address.parse().unwrap()), "{address}");
        }
        assert_eq!(host_and_port("http://[::1]:8/x"), Some(("::1".to_owned(), 8)));
        assert_eq!(host_and_port("https://A.example/x"), Some(("a.example".to_owned(), 443)));
        assert_eq!(host_and_port("file:///etc/passwd"), None);
    }

    #[tokio::test]
    async fn names_of_this_machine_are_not_public() {
        for host in ["localhost", "x.localhost", "printer.local", "127.0.0.1", "::1"] {
            assert!(!is_public(host, 80).await, "{host}");
        }
    }
}
