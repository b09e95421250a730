//! What a long command says when Ctrl-C or SIGTERM ends it.

use indicatif::ProgressBar;

/// Makes a signal say how far the command came, by its progress bar, and what is true then. Until it is dropped.
pub(super) struct Stopped;

#[cfg(unix)]
mod words {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Mutex, OnceLock, PoisonError};

    use indicatif::ProgressBar;
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    /// The progress of the command that runs, and what is true if it is stopped.
    static WORDS: Mutex<Option<(ProgressBar, &'static str)>> = Mutex::new(None);

    pub(super) fn set(words: Option<(ProgressBar, &'static str)>) {
        *WORDS.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    /// Catches the signals from here on, once. The first one ends the program after the words. The second one ends it at
    /// once: the words may wait for a terminal that takes nothing.
    pub(super) fn catch() {
        static CAUGHT: OnceLock<()> = OnceLock::new();
        CAUGHT.get_or_init(|| {
            let is_second = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM] {
                // In this order: the first signal finds the flag unset. Without them the first one alone counts.
                let _at_once = flag::register_conditional_default(signal, Arc::clone(&is_second));
                let _then_set = flag::register(signal, Arc::clone(&is_second));
            }
            let Ok(mut caught) = Signals::new([SIGINT, SIGTERM]) else { return };
            let _not_caught = std::thread::Builder::new().name("annals-stopped".into()).spawn(move || {
                for signal in &mut caught {
                    let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some((bar, what)) = words {
                        let all = bar.length().filter(|all| *all > 0);
                        let of = all.map(|all| format!(" of {all}")).unwrap_or_default();
                        let done = bar.position();
                        bar.finish_and_clear();
                        crate::cli::print::tell(format_args!("stopped after {done}{of}: {what}"));
                    }
                    let _ends = emulate_default_handler(signal);
                }
            });
        });
    }
}

impl Stopped {
    /// `what` is true of the command's work at every moment, such as that each part of it is whole or undone.
    pub(super) fn says(bar: &ProgressBar, what: &'static str) -> Self {
        #[cfg(unix)]
        {
            words::set(Some((bar.clone(), what)));
            words::catch();
        }
        #[cfg(not(unix))]
        let _ = (bar, what);
        Self
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        #[cfg(unix)]
        words::set(None);
    }
}
