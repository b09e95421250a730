//! How the program ends: whatever ends it, the stores that are open are closed first, so that the file alone is whole.
//!
//! A command returns, or fails: then [`close`] closes what it has left open. A signal: a thread closes the stores, and
//! the program ends by the signal, as its sender expects. A command that handles a signal by itself says so with
//! [`takes_over`]. Only what cannot be caught (a kill, a crash) leaves the write-ahead log to the next opening.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::print::tell;
use crate::error::Result;
use crate::store::{Store, WeakStore};

/// The stores of this program that may be open, and how many are being opened.
static OPENED: Mutex<(Vec<WeakStore>, usize)> = Mutex::new((Vec::new(), 0));

/// Notified when a store was opened.
static OPENS: Condvar = Condvar::new();

/// How long a signal waits for a store that is just being opened.
const OPENING: Duration = Duration::from_secs(2);

/// Opens a store with `open`, and remembers it, so that the end of the program closes it. Catches the signals that end the
/// program before that.
pub(super) fn opened(open: impl FnOnce() -> Result<Store>) -> Result<Store> {
    #[cfg(unix)]
    signals::catch();
    lock().1 += 1;
    let store = open();
    let mut opened = lock();
    opened.1 -= 1;
    opened.0.retain(|store| store.upgrade().is_some());
    opened.0.extend(store.as_ref().ok().map(Store::downgrade));
    drop(opened);
    OPENS.notify_all();
    store
}

fn lock() -> MutexGuard<'static, (Vec<WeakStore>, usize)> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes every store that is still open, because all work has ended or is to end. Says what could not be closed.
pub(super) fn close() {
    close_each(Store::close);
}

fn close_each(close: impl Fn(&Store) -> Result<()>) {
    let waited = OPENS.wait_timeout_while(lock(), OPENING, |opened| opened.1 > 0);
    let opened = std::mem::take(&mut waited.unwrap_or_else(PoisonError::into_inner).0.0);
    for store in opened.iter().filter_map(WeakStore::upgrade) {
        if let Err(error) = close(&store) {
            let path = store.path();
            tell(format_args!("annals: {}: {error}; its write-ahead log stays beside it", path.display()));
        }
    }
}

#[cfg(unix)]
pub(super) use signals::{by_signal, catch, takes_over, wait_for_the_end};

/// There are no such signals.
#[cfg(not(unix))]
pub(super) fn wait_for_the_end() {}

#[cfg(unix)]
mod signals {
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock};

    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    use signal_hook::flag;
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    use super::{Duration, close_each};
    use crate::ignored::is_ignored;

    /// The signals that ask a program to end. A terminal sends SIGHUP when it is closed.
    const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

    /// The signals that a command handles by itself, a bit for each.
    static TAKEN: AtomicU64 = AtomicU64::new(0);

    /// Whether a signal ends the program now. The next one then ends it at once.
    fn is_ending() -> &'static Arc<AtomicBool> {
        static IS_ENDING: OnceLock<Arc<AtomicBool>> = OnceLock::new();
        IS_ENDING.get_or_init(Arc::default)
    }

    /// Catches the signals from here on, once. SIGUSR1 and SIGUSR2 do nothing then. What the program was started to
    /// ignore, it still ignores.
    pub(in crate::cli) fn catch() {
        static CAUGHT: OnceLock<()> = OnceLock::new();
        CAUGHT.get_or_init(|| {
            let ending = ENDING.into_iter().filter(|signal| !is_ignored(*signal));
            let early = Arc::new(AtomicUsize::new(0));
            for signal in ending.clone() {
                // Until `Signals` is there, only this notes a signal.
                let _noted = flag::register_usize(signal, Arc::clone(&early), signal.unsigned_abs() as usize);
                // Before the others: the first signal finds the flag unset. Without them the first one alone counts.
                let _at_once = flag::register_conditional_default(signal, Arc::clone(is_ending()));
            }
            let Ok(mut caught) = Signals::new(ending.chain([SIGUSR1, SIGUSR2])) else { return };
            let _not_caught = std::thread::Builder::new().name("annals-signals".into()).spawn(move || {
                let early = i32::try_from(early.load(Ordering::SeqCst)).ok().filter(|signal| *signal > 0);
                for signal in early.into_iter().chain(&mut caught) {
                    let is_taken = TAKEN.load(Ordering::SeqCst) >> signal & 1 == 1;
                    if !is_taken && ENDING.contains(&signal) {
                        is_ending().store(true, Ordering::SeqCst);
                        crate::cli::stopped::tell_words();
                        by_signal(signal);
                    }
                }
            });
        });
    }

    /// Says that the command handles these signals from here on.
    pub(in crate::cli) fn takes_over(signals: &[i32]) {
        let bits = signals.iter().fold(0, |bits, signal| bits | 1 << signal);
        TAKEN.fetch_or(bits, Ordering::SeqCst);
    }

    /// Interrupts what is under way, closes the stores, and ends the program by the signal, so that its sender sees that.
    pub(in crate::cli) fn by_signal(signal: i32) {
        close_each(|store| store.close_within(Duration::ZERO));
        let _ends = emulate_default_handler(signal);
    }

    /// If a signal ends the program, waits for that: what the command returns now is only that its store was closed.
    pub(in crate::cli) fn wait_for_the_end() {
        while is_ending().load(Ordering::SeqCst) {
            std::thread::park();
        }
    }
}
