//! Locks of open file descriptions, and what a fork makes of them. Source: fcntl(2), "Open file description locks (non-POSIX)".

use std::ffi::{c_int, c_short, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use super::{FORKS, Identity};
use crate::untrusted;

/// Whether connections may be older than the calls here.
static WAS_USED: AtomicBool = AtomicBool::new(false);

/// How a file is locked. It is closed with [`Locks::close`].
#[derive(Clone, Copy)]
pub(super) struct Locks {
    /// The descriptor whose description holds the locks. `None` if the kernel has no such locks.
    holder: Option<c_int>,
    /// Whether a connection of this engine that is older than [`install`] may have POSIX locks on the file. Then each release
    /// releases both.
    is_mixed: bool,
}

/// A list of the holders, for the handler of forks: it may neither wait nor allocate. Nodes are never freed, but used again.
struct Node {
    /// -1 if it is free.
    holder: AtomicI32,
    next: *mut Node,
}

static HOLDERS: AtomicPtr<Node> = AtomicPtr::new(std::ptr::null_mut());

/// Returns whether locks of descriptions can be used. `was_used` is whether the engine may have POSIX locks already.
pub(super) fn install(was_used: bool) -> bool {
    WAS_USED.store(was_used, Ordering::Relaxed);
    // SAFETY: the handler only closes descriptors and stores numbers.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) == 0 }
}

/// Closes the child's copies of all holders. A copy would keep the parent's locks after the parent is gone.
unsafe extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for node in nodes() {
        let holder = node.holder.swap(-1, Ordering::Relaxed);
        if holder >= 0 {
            // SAFETY: it was opened here, and this process has no other use of it.
            unsafe { libc::close(holder) };
        }
    }
}

fn nodes() -> impl Iterator<Item = &'static Node> {
    // SAFETY: nodes are never freed, and `next` never changes once a node is in the list.
    let node = |at: *mut Node| unsafe { at.as_ref() };
    std::iter::successors(node(HOLDERS.load(Ordering::Acquire)), move |at| node(at.next))
}

/// Puts a holder in the list. Only one thread at a time, because the caller changes the table.
fn remember(holder: c_int) {
    if let Some(free) = nodes().find(|node| node.holder.load(Ordering::Relaxed) < 0) {
        free.holder.store(holder, Ordering::Relaxed);
        return;
    }
    let next = HOLDERS.load(Ordering::Relaxed);
    let node = Box::leak(Box::new(Node { holder: AtomicI32::new(holder), next }));
    HOLDERS.store(node, Ordering::Release);
}

/// Returns whether a command of `fcntl` is about POSIX locks.
pub(super) fn is_lock(command: c_int) -> bool {
    matches!(command, libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW)
}

/// Fails a lock of a connection that a forked process has inherited.
pub(super) fn refuse() -> c_int {
    // SAFETY: it returns the place of this thread's number.
    unsafe { *libc::__errno_location() = libc::EBADF };
    -1
}

/// A lock from the first byte to the last one that there can be.
fn whole(kind: c_int) -> libc::flock {
    // SAFETY: all zeros are a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as c_short;
    lock.l_whence = libc::SEEK_SET as c_short;
    lock
}

impl Locks {
    /// Opens the holder of the locks of a file, which `descriptor` has open.
    pub(super) fn on(descriptor: c_int, file: Identity) -> Self {
        let plain = Self { holder: None, is_mixed: false };
        let Ok(path) = std::ffi::CString::new(format!("/proc/self/fd/{descriptor}")) else { return plain };
        // The engine locks for writing only what it has open for writing.
        let open = |access: c_int| {
            // SAFETY: the path ends with a zero.
            let holder = unsafe { libc::open(path.as_ptr(), access | libc::O_CLOEXEC | libc::O_NONBLOCK) };
            (holder >= 0).then_some(holder)
        };
        let Some(holder) = open(libc::O_RDWR).or_else(|| open(libc::O_RDONLY)) else { return plain };
        let mut asked = whole(libc::F_WRLCK);
        // SAFETY: the argument of this command is a lock.
        if unsafe { libc::fcntl(holder, libc::F_OFD_GETLK, &raw mut asked) } != 0 {
            // SAFETY: it was opened here. The engine has no lock on the file yet.
            unsafe { libc::close(holder) };
            return plain;
        }
        remember(holder);
        let locks = Self { holder: Some(holder), is_mixed: false };
        Self { is_mixed: WAS_USED.load(Ordering::Relaxed) && locks.others_lock_here(file), ..locks }
    }

    /// Does what the engine asked of `descriptor`, with the locks of the holder.
    ///
    /// # Safety
    /// `argument` is that of a command for which [`is_lock`] is true.
    pub(super) unsafe fn control(
        self,
        descriptor: c_int,
        command: c_int,
        argument: *mut c_void,
        system: impl Fn(c_int, c_int, *mut c_void) -> c_int,
    ) -> c_int {
        let Some(holder) = self.holder else { return system(descriptor, command, argument) };
        let lock = argument.cast::<libc::flock>();
        // SAFETY: the caller's.
        let mut wanted = unsafe { *lock };
        // It has to be zero, and the engine does not set it.
        wanted.l_pid = 0;
        let of_description = match command {
            libc::F_GETLK => libc::F_OFD_GETLK,
            libc::F_SETLKW => libc::F_OFD_SETLKW,
            _ => libc::F_OFD_SETLK,
        };
        if self.is_mixed && command != libc::F_GETLK && c_int::from(wanted.l_type) == libc::F_UNLCK {
            system(descriptor, command, argument);
        }
        let done = system(holder, of_description, (&raw mut wanted).cast());
        if command == libc::F_GETLK && done == 0 {
            // SAFETY: the caller's.
            unsafe { *lock = wanted };
        }
        done
    }

    /// Returns whether no other code in this process can release them.
    pub(super) fn are_own(self) -> bool {
        self.holder.is_some()
    }

    /// Releases all locks of the holder. A forked process may still have a copy of it.
    pub(super) fn release(self) {
        if let Some(holder) = self.holder {
            let mut all = whole(libc::F_UNLCK);
            // SAFETY: the argument of this command is a lock.
            unsafe { libc::fcntl(holder, libc::F_OFD_SETLK, &raw mut all) };
        }
    }

    /// Closes the holder.
    pub(super) fn close(self) {
        let Some(holder) = self.holder else { return };
        nodes()
            .filter(|node| node.holder.load(Ordering::Relaxed) == holder)
            .for_each(|node| node.holder.store(-1, Ordering::Relaxed));
        // SAFETY: it was opened here, and no descriptor of the file is left.
        unsafe { libc::close(holder) };
    }

    /// Returns whether this process has POSIX locks on the file: those of another copy of SQLite. Closing any descriptor of the
    /// file would release them.
    pub(super) fn others_lock_here(self, file: Identity) -> bool {
        let Some(holder) = self.holder else { return false };
        let mut asked = whole(libc::F_WRLCK);
        // SAFETY: the argument of this command is a lock.
        let answered = unsafe { libc::fcntl(holder, libc::F_OFD_GETLK, &raw mut asked) } == 0;
        if !answered || c_int::from(asked.l_type) == libc::F_UNLCK {
            return false;
        }
        let own = std::process::id();
        if u32::try_from(asked.l_pid) == Ok(own) {
            return true;
        }
        // The system names one lock only, and it is of another process. Its list has all of them.
        let locks = untrusted::read_system("/proc/locks").unwrap_or_default();
        locks.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, "POSIX", _, _, process, place, ..] = words[..] else { return false };
            let number = place.rsplit(':').next().and_then(|number| number.parse().ok());
            process.parse() == Ok(own) && number == Some(file.1)
        })
    }
}
