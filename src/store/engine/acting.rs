//! The user for whom a thread changes the file, if that is another one than the user of the store: the name of a key of
//! a server. The administrative log, the chain of changes and the history of base states name this user then.
//!
//! A store is shared by all requests of a server, so the name cannot be one of its options. An append may be committed
//! by the thread of another caller; it takes its name along (`write/append.rs`).

use std::cell::RefCell;

thread_local! {
    static USER: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Restores the former user when it is dropped.
pub(in crate::store) struct Acting(Option<String>);

impl Acting {
    /// Changes of this thread are those of `user` until the value is dropped. `None`: those of the store's own user.
    pub(in crate::store) fn begin(user: Option<String>) -> Self {
        Self(USER.replace(user))
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        USER.set(self.0.take());
    }
}

/// Returns the user for whom this thread changes the file. `None`: the store's own user.
pub(in crate::store) fn user() -> Option<String> {
    USER.with_borrow(Clone::clone)
}

/// Runs `work`. What it changes in any store is recorded as done by `user`, on the machine and with the program of the
/// store. `None`: as done by the store's own user.
#[cfg(feature = "agent")]
pub(crate) fn acting<T>(user: Option<&str>, work: impl FnOnce() -> T) -> T {
    let _until_done = Acting::begin(user.map(str::to_owned));
    work()
}

#[cfg(all(test, feature = "agent"))]
mod tests {
    use super::*;

    #[test]
    fn the_former_user_comes_back() {
        acting(Some("ann"), || {
            assert_eq!(user().as_deref(), Some("ann"));
            acting(None, || assert_eq!(user(), None));
            assert_eq!(user().as_deref(), Some("ann"));
        });
        assert_eq!(user(), None);
    }
}
