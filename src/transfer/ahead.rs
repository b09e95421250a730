//! Reads files ahead of their use, on a thread of its own: a file is opened, read and checked while the one before it is
//! compared or written.
//!
//! Up to three batches are in memory, each of [`BATCH_BYTES`] and one file more. A few files are read without a thread.

use std::sync::mpsc;
use std::thread;

use crate::error::Result;

/// Fewer files are read one after the other: starting a thread takes as long as reading some of them.
const FILES_MIN: usize = 64;

/// The files that are handed over at once.
const BATCH_FILES: usize = 32;

/// The bytes after which a batch is handed over: 1 MiB.
const BATCH_BYTES: usize = 1 << 20;

/// Calls `visit` with each name and what `read` returns for it, in order. `size` returns the bytes that it holds.
///
/// # Errors
/// The first error of `read` or `visit`, in order. Nothing is visited after it.
pub(super) fn each<T: Send>(
    names: &[String],
    read: impl Fn(&str) -> Result<T> + Sync,
    size: impl Fn(&T) -> usize + Sync,
    visit: &mut dyn FnMut(&str, T) -> Result<()>,
) -> Result<()> {
    if names.len() < FILES_MIN {
        return names.iter().try_for_each(|name| visit(name, read(name)?));
    }
    let (read, size) = (&read, &size);
    thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(1);
        let work = move || {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for name in names {
                let content = read(name);
                bytes += content.as_ref().map_or(0, size);
                let failed = content.is_err();
                batch.push((name.as_str(), content));
                if failed || batch.len() == BATCH_FILES || bytes >= BATCH_BYTES {
                    bytes = 0;
                    // The receiver is gone if a visit failed.
                    if sender.send(std::mem::take(&mut batch)).is_err() || failed {
                        return;
                    }
                }
            }
            let _ = sender.send(batch);
        };
        if thread::Builder::new().name("annals-ahead".into()).spawn_scoped(scope, work).is_err() {
            // The system has no thread to spare.
            return names.iter().try_for_each(|name| visit(name, read(name)?));
        }
        for (name, content) in batches.into_iter().flatten() {
            visit(name, content?)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| number.to_string()).collect()
    }

    fn failure() -> Error {
        Error::NoReader
    }

    #[test]
    fn files_come_in_order_however_many_and_large_they_are() {
        for (count, bytes) in
            [(0, 1), (3, 1), (63, 1), (64, 1), (65, BATCH_BYTES), (1000, 1), (1000, 100_000)]
        {
            let names = names(count);
            let mut seen = Vec::new();
            let read = |name: &str| Ok(name.to_owned());
            each(&names, read, |_| bytes, &mut |name, content| {
                assert_eq!(name, content);
                seen.push(content);
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, names);
        }
    }

    #[test]
    fn nothing_is_visited_after_the_first_error() {
        for count in [10, 1000] {
            for fails in [0, 7, count - 1] {
                let (names, mut seen) = (names(count), 0);
                let number = |name: &str| name.parse::<usize>().unwrap();
                let read = |name: &str| if number(name) == fails { Err(failure()) } else { Ok(number(name)) };
                let visit = &mut |_: &str, _| {
                    seen += 1;
                    Ok(())
                };
                assert!(matches!(each(&names, read, |_| 1, visit), Err(Error::NoReader)));
                assert_eq!(seen, fails);
                let mut seen = 0;
                let visit = &mut |name: &str, _| {
                    seen += 1;
                    if number(name) == fails { Err(failure()) } else { Ok(()) }
                };
                let all = each(&names, |name| Ok(number(name)), |_| 1, visit);
                assert!(matches!(all, Err(Error::NoReader)));
                assert_eq!(seen, fails + 1);
            }
        }
    }
}
