//! Kills a command at one of its system calls that write.
#![expect(unsafe_code, reason = "no safe wrapper traces a child")]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// The calls that change files, on this processor.
const WRITING: &[i64] = &[
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_copy_file_range,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// How a traced command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, after this number of writing calls, with this code.
    Itself { calls: u64, code: i32 },
    /// It was killed when it began the call.
    Killed,
}

/// Runs a command until it begins its writing call `at`, counted from 0, and kills it there. `None` lets it end.
///
/// # Errors
/// An error of the system, [`io::ErrorKind::PermissionDenied`] where tracing is not allowed.
pub fn run(mut command: Command, at: Option<u64>) -> io::Result<Ended> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the closure makes one system call.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let child = command.spawn()?;
    let main = i32::try_from(child.id()).unwrap_or(i32::MAX);
    let ended = follow(main, at);
    // It has ended, and its end was read below.
    drop(child);
    ended
}

/// Waits for this thread's children only: other tests have children of their own.
fn wait() -> io::Result<(i32, i32)> {
    let mut status = 0;
    // SAFETY: the status is written to a variable that lives here.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) } {
        -1 => Err(io::Error::last_os_error()),
        process => Ok((process, status)),
    }
}

fn ask(request: u32, process: i32, value: usize) -> io::Result<()> {
    // SAFETY: the process is stopped, and the request has a number as its data.
    match unsafe { libc::ptrace(request, process, 0, value) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The number of the call that a stopped thread begins. `None` if it ends one.
fn begun(process: i32) -> Option<i64> {
    // SAFETY: all zeroes is a value of this struct; the system writes at most its size.
    unsafe {
        let mut info: libc::ptrace_syscall_info = std::mem::zeroed();
        let size = size_of::<libc::ptrace_syscall_info>();
        let read = libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, process, size, &raw mut info);
        (read > 0 && info.op == libc::PTRACE_SYSCALL_INFO_ENTRY).then(|| info.u.entry.nr.cast_signed())
    }
}

fn follow(main: i32, at: Option<u64>) -> io::Result<Ended> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_EXITKILL;
    let (mut calls, mut is_begun, mut is_killed) = (0, false, false);
    loop {
        let (process, status) = wait()?;
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if process == main {
                return Ok(match is_killed {
                    true => Ended::Killed,
                    false if libc::WIFEXITED(status) => {
                        Ended::Itself { calls, code: libc::WEXITSTATUS(status) }
                    }
                    false => Ended::Itself { calls, code: -1 },
                });
            }
            continue;
        }
        if !libc::WIFSTOPPED(status) {
            continue;
        }
        let mut pass = 0;
        match libc::WSTOPSIG(status) {
            // A call of a thread.
            signal if signal == libc::SIGTRAP | 0x80 => {
                if begun(process).is_some_and(|call| WRITING.contains(&call)) {
                    if at == Some(calls) && !is_killed {
                        is_killed = true;
                        // SAFETY: the process is a child that was not waited for.
                        unsafe { libc::kill(main, libc::SIGKILL) };
                    }
                    calls += 1;
                }
            }
            // The program was loaded, or a thread begins.
            libc::SIGTRAP if !is_begun => {
                is_begun = true;
                ask(libc::PTRACE_SETOPTIONS, process, options as usize)?;
            }
            libc::SIGTRAP | libc::SIGSTOP => {}
            signal => pass = signal,
        }
        match ask(libc::PTRACE_SYSCALL, process, pass as usize) {
            // It was killed in the meantime.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            other => other?,
        }
    }
}
