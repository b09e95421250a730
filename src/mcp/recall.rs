//! What the tools read: a store, opened so that no tool can write to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::redact::Finder;
use crate::store::{Options, SearchFilter, Store};

/// The tokens of an answer, unless the operator says otherwise.
pub(crate) const TOKENS: u64 = 8_000;

/// The fewest and the most tokens of an answer.
pub(crate) const TOKENS_MIN: u64 = 500;
pub(crate) const TOKENS_MAX: u64 = 100_000;

/// The most calls that are answered at once. Each may use a whole CPU.
pub(super) const CALLS_MAX: usize = 4;

/// The most calls that wait for others. Further ones are refused.
pub(super) const WAITING_MAX: usize = 64;

/// Past conversations, for clients of the Model Context Protocol. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Recall(pub(super) Arc<Inner>);

pub(super) struct Inner {
    source: Source,
    /// The folder that `.` means in arguments.
    pub(super) folder: Option<PathBuf>,
    /// The most tokens of an answer.
    pub(super) tokens_max: u64,
    finder: OnceLock<Finder>,
    pub(super) calls: Semaphore,
    pub(super) waiting: Semaphore,
}

/// Where the conversations are.
enum Source {
    /// In a store that the process has open for other purposes.
    Shared(Store),
    /// In a file that is opened for reading.
    File(File),
}

struct File {
    path: PathBuf,
    /// How the file is opened for the moment in which its derived tables follow.
    options: Options,
    is_frozen: bool,
    has_titles: bool,
    open: Mutex<Store>,
}

impl Recall {
    /// Reads from a store of this process. No tool writes.
    pub(crate) fn shared(store: Store) -> Self {
        Self::new(Source::Shared(store), None, TOKENS)
    }

    /// Reads from a file, which is opened for reading only.
    ///
    /// # Errors
    /// The errors of opening.
    pub(crate) fn open(path: &Path, options: Options, choices: Choices) -> Result<Self> {
        let open = Mutex::new(open_to_read(path, &options)?);
        let Choices { tokens_max, folder, is_frozen, has_titles } = choices;
        let file = File { path: path.to_owned(), options, is_frozen, has_titles, open };
        Ok(Self::new(Source::File(file), folder, tokens_max))
    }

    fn new(source: Source, folder: Option<PathBuf>, tokens_max: u64) -> Self {
        Self(Arc::new(Inner {
            source,
            folder,
            tokens_max: tokens_max.clamp(TOKENS_MIN, TOKENS_MAX),
            finder: OnceLock::new(),
            calls: Semaphore::new(CALLS_MAX),
            waiting: Semaphore::new(WAITING_MAX),
        }))
    }

    /// Closes the file, if it was opened here. A connection that only reads leaves the write-ahead log beside the file if
    /// another program was ended while it wrote, so the file is then opened to write once, unless it is to stay as it is.
    pub(crate) fn close(&self) {
        let Source::File(file) = &self.0.source else { return };
        let store = file.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // What the file lacks then, the next program that opens it does.
        let _stays_beside_it = store.close().and_then(|()| file.write(|_| Ok(())));
    }

    /// Returns whether titles may be set.
    pub(super) fn has_titles(&self) -> bool {
        matches!(&self.0.source, Source::File(File { has_titles: true, .. }))
    }

    /// Returns the finder of what looks like a secret.
    pub(super) fn finder(&self) -> &Finder {
        self.0.finder.get_or_init(Finder::secrets)
    }

    /// Returns the store, with its derived tables up to date if that is possible.
    pub(super) fn store(&self) -> Result<Store> {
        let file = match &self.0.source {
            Source::Shared(store) => return Ok(store.clone()),
            Source::File(file) => file,
        };
        let store = file.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let store = match lags(&store) {
            Ok(false) => return Ok(store),
            // The file was opened as one that does not change, and another user has changed it.
            Err(Error::Moved { .. }) => file.open_again()?,
            Ok(true) | Err(Error::NotDerived { .. }) => store,
            Err(error) => return Err(error),
        };
        // If that fails, the answer is given from the tables as they are, and says so.
        let _may_be_read_only = file.write(Store::catch_up);
        Ok(store)
    }

    /// Makes the search index, if the file has none and may be written.
    pub(super) fn index(&self) -> Result<()> {
        match &self.0.source {
            Source::Shared(_) => Ok(()),
            Source::File(file) => {
                file.write(|store| store.search("index", &SearchFilter::default(), 1, &mut |_| ()).map(drop))
            }
        }
    }

    /// Sets the title of a conversation.
    pub(super) fn set_title(&self, conversation: &ConversationId, title: &str) -> Result<()> {
        match &self.0.source {
            Source::File(file) if file.has_titles => {
                open_to_write(file)?.set_title(conversation, Some(title))
            }
            Source::Shared(store) => Err(Error::ReadOnly { path: store.path() }),
            Source::File(file) => Err(Error::ReadOnly { path: file.path.clone() }),
        }
    }
}

/// What the operator chooses.
pub(crate) struct Choices {
    /// The most tokens of an answer.
    pub(crate) tokens_max: u64,
    /// The folder that `.` means in arguments.
    pub(crate) folder: Option<PathBuf>,
    /// Whether derived tables and the search index stay as they are.
    pub(crate) is_frozen: bool,
    /// Whether titles may be set.
    pub(crate) has_titles: bool,
}

impl File {
    /// Opens the file to write, does `work`, and closes it. The tools never get this handle.
    fn write(&self, work: impl FnOnce(&Store) -> Result<()>) -> Result<()> {
        if self.is_frozen {
            return Err(Error::ReadOnly { path: self.path.clone() });
        }
        work(&open_to_write(self)?)
    }

    fn open_again(&self) -> Result<Store> {
        let store = open_to_read(&self.path, &self.options)?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = store.clone();
        Ok(store)
    }
}

fn open_to_read(path: &Path, options: &Options) -> Result<Store> {
    Store::open_with(path, &Options { read_only: true, create: false, ..options.clone() })
}

fn open_to_write(file: &File) -> Result<Store> {
    let options = Options { follow_projections: false, create: false, ..file.options.clone() };
    Store::open_with(&file.path, &options)
}

fn lags(store: &Store) -> Result<bool> {
    store.catch_up()?; // fails in a read-only store if a derived table is missing
    Ok(store.behind()?.is_some() || store.index_behind()?.is_some())
}
