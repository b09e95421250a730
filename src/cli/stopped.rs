//! What a long command says when a signal ends it, such as Ctrl-C.

use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;

/// The progress of the command that runs, and what is true if it is stopped.
static WORDS: Mutex<Option<(ProgressBar, &'static str)>> = Mutex::new(None);

/// Makes a signal say how far the command came, by its progress bar, and what is true then. Until it is dropped.
pub(super) struct Stopped;

impl Stopped {
    /// `what` is true of the command's work at every moment, such as that each part of it is whole or undone.
    pub(super) fn says(bar: &ProgressBar, what: &'static str) -> Self {
        set(Some((bar.clone(), what)));
        #[cfg(unix)]
        super::ends::catch();
        Self
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        set(None);
    }
}

fn set(words: Option<(ProgressBar, &'static str)>) {
    *WORDS.lock().unwrap_or_else(PoisonError::into_inner) = words;
}

/// Says it, if a command has words. The terminal may take nothing, so a second signal ends the program at once.
#[cfg(unix)]
pub(super) fn tell_words() {
    let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((bar, what)) = words {
        let all = bar.length().filter(|all| *all > 0);
        let of = all.map(|all| format!(" of {all}")).unwrap_or_default();
        let done = bar.position();
        bar.finish_and_clear();
        super::print::tell(format_args!("stopped after {done}{of}: {what}"));
    }
}
