//! The options for opening a store, and its limits.

use std::time::Duration;

use super::own::OwnProjections;
use crate::event::OwnKinds;

/// What a file is said to be to which nothing was ever written.
pub(crate) const NEVER_FILLED: &str = "the file was made and never filled: so is one at a mistyped path, and a copy of a database \
     without its write-ahead log";

/// The most events in one append.
pub const BATCH_EVENTS_MAX: usize = 10_000;

/// The most payload bytes in one append: 256 MiB.
pub const BATCH_BYTES_MAX: usize = 256 << 20;

/// The most events or conversations in one page. A larger limit is reduced to this.
pub const PAGE_MAX: usize = 10_000;

/// The largest attachment, in bytes: 512 MiB.
pub const ATTACHMENT_BYTES_MAX: u64 = 512 << 20;

/// The longest title that an import accepts, in bytes: 4 KiB. A longer title is ignored, but the file with it is kept.
pub const TITLE_BYTES_MAX: usize = 4 << 10;

/// The largest tags that the catalogue shows, in bytes of JSON: 64 KiB. The base state keeps tags of any size.
pub const TAGS_BYTES_MAX: usize = 64 << 10;

/// The longest status that the catalogue shows, in bytes. A longer status of a base state counts as `idle` there. The
/// base state keeps it.
pub const STATUS_BYTES_MAX: usize = 64;

/// The longest text that a projection copies from an event or a base state, in bytes: 4 KiB. Of a longer text, the column
/// has the beginning and the SHA-256. The event or the base state keeps the whole text.
pub const COPY_BYTES_MAX: usize = 4 << 10;

/// The longest wait for a lock, because the engine counts milliseconds in 31 bits.
pub(super) const PATIENCE_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// The failures that an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Every crash, also a power loss: the log is synced before an append returns.
    #[default]
    Full,
    /// A crash of the process, but not of the machine: after a power loss the appends of the last seconds may be gone.
    /// Each is either complete or gone. Many times faster on a slow disk.
    Normal,
}

/// The user, the host and the program that use a store. The administrative log records them with each act.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// The user's name in the operating system. `None` if it is not known.
    pub user: Option<String>,
    /// The name of the machine.
    pub host: Option<String>,
    /// The program and its version.
    pub program: String,
}

setters!(Actor { user?: String, host?: String, program: String });

/// This library, without a user and a host.
impl Default for Actor {
    fn default() -> Self {
        Self { user: None, host: None, program: concat!("annals ", env!("CARGO_PKG_VERSION")).into() }
    }
}

/// How to open a store. `Options::default()` is right for most hosts.
///
/// ```
/// use annals::{Options, Store};
///
/// let options = Options::default().pool_size(2);
/// let store = Store::in_memory(&options)?;
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The failures that an acknowledged append survives. Default [`Durability::Full`].
    pub durability: Durability,
    /// The most connections that read at once, at least 1. Further readers wait. Default 8.
    pub pool_size: u32,
    /// How long to wait for another process's write lock before [`Busy`](crate::Error::Busy), at most 24 days.
    /// Default 10 s.
    pub busy_timeout: Duration,
    /// Open for reading only. The file must exist and is not changed. Default false.
    pub read_only: bool,
    /// Create the file (mode 0600) and its folder (mode 0700) if they are missing. Default true.
    pub create: bool,
    /// Update the projections soon after each append, on a thread of the store. They are also updated before every
    /// read that uses them, so false only moves the work. Default true.
    pub follow_projections: bool,
    /// The largest size of the write-ahead log, in bytes, before a writer waits a moment for readers so that the log
    /// can begin again; at least 1 MiB. Default 256 MiB.
    pub write_log_bytes_max: u64,
    /// The user, host and program that the administrative log records. Default: this library, without user and host.
    pub actor: Actor,
    /// What is known of the host's own kinds: their text, and how old payloads become new values.
    /// Default: nothing.
    pub own_kinds: OwnKinds,
    /// The host's own projections: tables that change in the transaction of each append. Default: none.
    pub own_projections: OwnProjections,
}

setters!(Options {
    durability: Durability,
    pool_size: u32,
    busy_timeout: Duration,
    read_only: bool,
    create: bool,
    follow_projections: bool,
    write_log_bytes_max: u64,
    actor: Actor,
    own_kinds: OwnKinds,
    own_projections: OwnProjections,
});

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
            own_kinds: OwnKinds::default(),
            own_projections: OwnProjections::default(),
        }
    }
}
