//! Ends the programs that this program starts, with those that they start in turn, and reads what they write.
//!
//! For the rooms that start programs: git, hooks, MCP servers, skills, agents of the Agent Client Protocol, plugins and
//! the shell of the server. It does not know which program it is, or why it has to end. Process groups exist on Unix
//! only. On other systems, a child is killed when its handle is dropped, and what it has started continues.

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// Gives a program a process group of its own, so that [`kill`] reaches what it starts. A Ctrl+C in the terminal of this
/// program does not reach it then.
pub(crate) fn separate(command: &mut Command) {
    #[cfg(unix)]
    command.process_group(0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Kills the processes of a group. `None` if the program has ended: then nothing is killed.
pub(crate) fn kill(group: Option<u32>) {
    #[cfg(unix)]
    send(group, rustix::process::Signal::KILL);
    #[cfg(not(unix))]
    let _ = group;
}

/// Asks the processes of a group to end (SIGTERM).
#[cfg(feature = "server")]
pub(crate) fn terminate(group: Option<u32>) {
    #[cfg(unix)]
    send(group, rustix::process::Signal::TERM);
    #[cfg(not(unix))]
    let _ = group;
}

#[cfg(unix)]
fn send(group: Option<u32>, signal: rustix::process::Signal) {
    if let Some(group) = group.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        // It fails if no process of the group is left. Then there is nothing to end.
        let _gone_already = rustix::process::kill_process_group(group, signal);
    }
}

/// The process group of a program that a caller waits for. Unless it was released, it is killed on drop. That also
/// happens when the wait is cancelled.
#[derive(Debug)]
pub(crate) struct Group(Option<u32>);

impl Group {
    /// Returns the group of a program that was started with [`separate`].
    pub fn of(child: &Child) -> Self {
        Self(child.id())
    }

    /// Releases the group after the program has ended. Programs that it left behind continue.
    pub fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        kill(self.0);
    }
}

/// Reads all of a pipe and returns its first `bytes_max` bytes. If the pipe fails, returns what was read.
pub(crate) async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes_max: usize) -> Vec<u8> {
    let Some(mut pipe) = pipe else { return Vec::new() };
    // On the heap: the futures of callers lie within each other, on one stack.
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 8192]);
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let room = bytes_max - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_is_read_and_the_beginning_is_kept() {
        let text = vec![7; 100_000];
        assert_eq!(read(Some(text.as_slice()), 10).await, [7; 10]);
        assert_eq!(read(Some(text.as_slice()), 200_000).await, text);
        assert!(read(None::<&[u8]>, 10).await.is_empty());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_group_that_is_not_released_ends_with_what_it_has_started() {
        for (is_released, output) in [(false, ""), (true, "done")] {
            // The inner process waits for a line. Its end closes the pipe of its output.
            let script = "exec 3<&0; (read -r line <&3; printf done) & exit";
            let mut shell = Command::new("sh");
            shell
                .arg("-c")
                .arg(script)
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped());
            separate(&mut shell);
            let mut child = shell.spawn().unwrap();
            let group = Group::of(&child);
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            child.wait().await.unwrap();
            if is_released {
                group.release()
            } else {
                drop(group)
            }
            if let Some(mut stdin) = stdin {
                // The reader is gone if its group was killed.
                let _unread = tokio::io::AsyncWriteExt::write_all(&mut stdin, b"go\n").await;
            }
            assert_eq!(read(stdout, 100).await, output.as_bytes());
        }
    }
}
