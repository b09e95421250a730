//! The signals that ask a long-lived command to end: Ctrl-C, SIGTERM, and those of a terminal that is closed or quits it.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Catches the signals from its making on. None is lost between two waits.
#[cfg(unix)]
pub(super) struct EndSignals(Vec<Signal>);

#[cfg(unix)]
impl EndSignals {
    /// Catches the signals. Must be called within a runtime.
    pub(super) fn caught() -> std::io::Result<Self> {
        Self::caught_but(None)
    }

    /// Does the same without one signal, which has another meaning.
    pub(super) fn caught_but(other: Option<SignalKind>) -> std::io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()].into_iter();
        // A program that was started with `nohup` shall outlive its terminal.
        let hangs_up = |kind: &SignalKind| !crate::ignored::is_ignored(kind.as_raw_value());
        let of_terminal = [SignalKind::hangup(), SignalKind::quit()].into_iter().filter(hangs_up);
        let kinds: Vec<_> = kinds.chain(of_terminal).filter(|kind| Some(*kind) != other).collect();
        let caught = Self(kinds.iter().map(|kind| signal(*kind)).collect::<Result<_, _>>()?);
        super::ends::takes_over(&kinds.iter().map(|kind| kind.as_raw_value()).collect::<Vec<_>>());
        Ok(caught)
    }

    /// Returns when one arrives. A wait that is given up loses none.
    pub(super) async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let is_there = |signal: &mut Signal| signal.poll_recv(context).is_ready();
            if self.0.iter_mut().any(is_there) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
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
