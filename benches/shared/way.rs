//! A way to a server that takes time, as one to another machine does.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Opens a way to the server's `socket`, with a socket of its own in `folder`. Each byte takes `delay` in each direction, and the
/// bytes behind it do not wait for it.
pub fn open(socket: &Path, folder: &Path, delay: Duration) {
    let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).expect("a socket");
    let socket = socket.to_owned();
    spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = UnixStream::connect(&socket).expect("a server");
            let both = |stream: &UnixStream| stream.try_clone().expect("a second handle");
            pass(both(&near), both(&far), delay);
            pass(far, near, delay);
        }
    });
}

/// Passes bytes in one direction until one of the sides ends.
fn pass(mut from: UnixStream, mut to: UnixStream, delay: Duration) {
    let (sent, arriving) = mpsc::channel::<(Instant, Vec<u8>)>();
    spawn(move || {
        let mut bytes = vec![0; 1 << 18];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sent.send((Instant::now() + delay, bytes[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    spawn(move || {
        for (due, bytes) in arriving {
            sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _is_gone = to.shutdown(std::net::Shutdown::Both);
    });
}
