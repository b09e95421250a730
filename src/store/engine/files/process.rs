//! The locks of a system that has none of open file descriptions. The engine's call of `fcntl` is not replaced there, so none of
//! this is ever called but [`install`].

use std::ffi::{c_int, c_void};

use super::Identity;

/// How a file is locked: as the engine asks for it.
#[derive(Clone, Copy)]
pub(super) struct Locks(());

pub(super) fn install(_was_used: bool) -> bool {
    false
}

pub(super) fn is_lock(_command: c_int) -> bool {
    false
}

pub(super) fn refuse() -> c_int {
    -1
}

impl Locks {
    pub(super) fn on(_descriptor: c_int, _file: Identity) -> Self {
        Self(())
    }

    /// # Safety
    /// Those of the system's call.
    pub(super) unsafe fn control(
        self,
        descriptor: c_int,
        command: c_int,
        argument: *mut c_void,
        system: impl Fn(c_int, c_int, *mut c_void) -> c_int,
    ) -> c_int {
        system(descriptor, command, argument)
    }

    pub(super) fn are_own(self) -> bool {
        false
    }

    pub(super) fn release(self) {}

    pub(super) fn close(self) {}

    pub(super) fn others_lock_here(self, _file: Identity) -> bool {
        false
    }
}
