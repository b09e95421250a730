//! The signals that ask the program to end: Ctrl-C and SIGTERM.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Catches the signals from its making on. None is lost between two waits.
#[cfg(unix)]
pub(super) struct EndSignals {
    interrupt: Signal,
    term: Signal,
}

#[cfg(unix)]
impl EndSignals {
    /// Catches the signals. Must be called within a runtime.
    pub(super) fn caught() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())? })
    }

    /// Returns when one arrives. A wait that is given up loses none.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.term.recv() => {}
        }
    }
}

/// Only Ctrl-C, and only while a wait lasts.
#[cfg(not(unix))]
pub(super) struct EndSignals;

#[cfg(not(unix))]
impl EndSignals {
    /// Does nothing.
    pub(super) fn caught() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Returns at Ctrl-C.
    pub(super) async fn next(&mut self) {
        // If Ctrl-C cannot be caught, the system ends the program.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
