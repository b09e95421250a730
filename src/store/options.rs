//! How to open a store, and the limits it keeps.

use std::time::Duration;

use super::admin::Actor;

/// The most events one append may hold.
pub const BATCH_EVENTS_MAX: usize = 10_000;

/// The most payload bytes one append may hold: 256 MiB.
pub const BATCH_BYTES_MAX: usize = 256 << 20;

/// The most events, or conversations, one page may hold; a larger wish is cut to this.
pub const PAGE_MAX: usize = 10_000;

/// The largest attachment, in bytes: 512 MiB.
pub const ATTACHMENT_BYTES_MAX: u64 = 512 << 20;

/// The longest title that an import brings, in bytes: 4 KiB. A file with a longer one is kept, and its title is not taken.
pub const TITLE_BYTES_MAX: usize = 4 << 10;

/// The most tags that the catalogue shows, in bytes of JSON: 64 KiB. The base state has whatever it was given.
pub const TAGS_BYTES_MAX: usize = 64 << 10;

/// The longest wait for a lock: the engine counts milliseconds in 31 bits.
pub(super) const PATIENCE_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// What an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Anything, power loss included: the log is synced before an append returns.
    #[default]
    Full,
    /// The death of the process, not that of the machine: after a power loss the last appends (up to
    /// some seconds' worth) may be gone, though never half there. Many times faster on a slow disk.
    Normal,
}

/// How to open a store. `Options::default()` is right for most hosts.
///
/// ```
/// use annals::{Options, Store};
///
/// let options = Options { pool_size: 2, ..Options::default() };
/// let store = Store::in_memory(&options)?;
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What an acknowledged append survives. Default [`Durability::Full`].
    pub durability: Durability,
    /// The most connections that read at once, at least 1; further readers wait. Default 8.
    pub pool_size: u32,
    /// How long to wait for another process's write lock before [`Busy`](crate::Error::Busy), at most 24 days.
    /// Default 10 s.
    pub busy_timeout: Duration,
    /// Open for reading only; the file must exist and is not touched. Default false.
    pub read_only: bool,
    /// Create the file (mode 0600) and its folder (mode 0700) where they are missing. Default true.
    pub create: bool,
    /// Let projections follow the log by themselves, on a thread of the store's, soon after each append.
    /// They also catch up before every read that uses them, so false only moves the work. Default true.
    pub follow_projections: bool,
    /// How long the write-ahead log may grow, in bytes, before a writer waits a moment for readers so that it begins
    /// anew; at least 1 MiB. Default 256 MiB.
    pub write_log_bytes_max: u64,
    /// Who works with the store, as the administrative log shall say it. Default: nobody in particular.
    pub actor: Actor,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            pool_size: 8,
            busy_timeout: Duration::from_secs(10),
            read_only: false,
            create: true,
            follow_projections: true,
            write_log_bytes_max: 256 << 20,
            actor: Actor::default(),
        }
    }
}
