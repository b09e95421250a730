//! Connects only to public addresses, for URLs that come from a conversation.
//!
//! The names of hosts are resolved here and nowhere else, so the addresses that are checked are those that are connected
//! to. A check before the connection would not do: the name may have another address by then (DNS rebinding). A host that
//! is written as an address is not resolved, and is checked before the request.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{ClientBuilder, Url};

/// Makes a client connect only to public addresses. It uses no proxy, because a proxy resolves names itself. Hosts that
/// are written as addresses have to be checked with [`may_be_asked`].
pub(super) fn only(builder: ClientBuilder) -> ClientBuilder {
    builder.no_proxy().dns_resolver(PublicOnly)
}

/// Returns whether a URL is an HTTP address with a host that has a name or a public address.
pub(super) fn may_be_asked(url: &Url) -> bool {
    let Some(host) = url.host_str().filter(|_| ["http", "https"].contains(&url.scheme())) else {
        return false;
    };
    // The URL's parser writes each form of an address in the usual one.
    host.trim_matches(['[', ']']).parse::<IpAddr>().map_or(true, may_be_connected)
}

/// Resolves names to public addresses.
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Addrs = Box::new(all_public(found.collect())?.into_iter());
            Ok(addresses)
        })
    }
}

/// Returns the addresses of a host, if they are all public.
fn all_public(addresses: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    if addresses.iter().all(|address| may_be_connected(address.ip())) {
        Ok(addresses)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the host is not a public one"))
    }
}

fn may_be_connected(address: IpAddr) -> bool {
    is_public(address) && !is_own(address)
}

/// Returns whether this machine has the address. The system would then send from the same address. Nothing is sent.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

/// Returns whether an address is of no private range. A network with global IPv6 addresses cannot be recognised.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    // Addresses that a provider's customers share (RFC 6598), for protocols (RFC 6890), for benchmarks (RFC 2544), or
    // reserved (RFC 1112).
    let special = (first == 100 && second & 0xc0 == 64)
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && second & 0xfe == 18)
        || first >= 240;
    !(special
        || first == 0
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

/// Only global unicast addresses are public (RFC 4291), without those that contain an IPv4 address (6to4, Teredo) or are
/// for protocols and documentation. This machine, links, unique local addresses, multicast, IPv4-mapped addresses and
/// NAT64 are outside of that range.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let special = first == 0x2002
        || (first == 0x2001 && (second < 0x200 || second == 0xdb8))
        || (first == 0x3fff && second < 0x1000);
    first & 0xe000 == 0x2000 && !special
}

#[cfg(test)]
mod tests {
    use super::super::http::Transport;
    use super::*;

    #[test]
    fn only_addresses_outside_of_the_own_network_are_public() {
        for address in ["8.8.8.8", "192.0.1.1", "2606:4700::1", "2001:4860:4860::8888"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.192",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_addresses_of_this_machine_are_its_own() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(
            !is_own(Ipv4Addr::new(203, 0, 113, 1).into()),
            "an address for documentation is no machine's"
        );
    }

    #[test]
    fn a_host_is_refused_if_any_of_its_addresses_is_not_public() {
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
        };
        let public = addresses(&["8.8.8.8", "2606:4700::1"]);
        assert_eq!(all_public(public.clone()).unwrap(), public);
        let mixed = addresses(&["8.8.8.8", "10.0.0.1"]);
        assert_eq!(all_public(mixed).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn every_form_of_an_address_is_seen_in_a_url() {
        let is_asked = |url: &str| Url::parse(url).is_ok_and(|url| may_be_asked(&url));
        for url in ["http://8.8.8.8/x", "https://a.example:8/x", "http://[2606:4700::1]/"] {
            assert!(is_asked(url), "{url}");
        }
        for url in [
            "http://127.0.0.1/x",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://127.0.0.1./",
            "https://[::1]:8/x",
            "http://[::ffff:10.0.0.1]/",
            "file:///etc/passwd",
            "ftp://a.example/",
        ] {
            assert!(!is_asked(url), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_is_connected_to_only_at_addresses_that_were_checked() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let transport = Transport::new().unwrap();
        // Nothing is known of the name before the connection: it is the resolver that refuses it.
        let url = Url::parse(&format!("http://localhost:{port}/")).unwrap();
        assert!(may_be_asked(&url));
        assert!(transport.get_public(url).await.is_none());
        let asked = listener.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(asked, Err(io::ErrorKind::WouldBlock), "this machine was asked");
    }
}
