//! Places for what is made on the way to an answer: nobody else may look into them, whatever the umask is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder among temporary files that only the server's user may enter; it goes with this, and all that is in it.
pub(super) struct Private(PathBuf);

/// How many this process has made.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// How the paths of all of this process begin, and no others. What a thread is still at when the process ends is not
/// let go of by itself: [`remove`] does that.
pub(crate) fn beginning() -> &'static Path {
    static BEGINNING: OnceLock<PathBuf> = OnceLock::new();
    BEGINNING.get_or_init(|| std::env::temp_dir().join(format!(".annals-{}-", uuid::Uuid::new_v4().simple())))
}

/// Removes every folder whose path begins so.
pub(crate) fn remove(beginning: &Path) {
    let (Some(parent), Some(name)) = (beginning.parent(), beginning.file_name()) else { return };
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
            // Whoever still writes there finds it gone, and may have made a file meanwhile.
            for _ in 0..3 {
                let _again = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Private {
    /// A new one.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn new() -> io::Result<Self> {
        let mut path = beginning().as_os_str().to_owned();
        path.push(COUNT.fetch_add(1, Ordering::Relaxed).to_string());
        let path = PathBuf::from(path);
        let mut folder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        folder.create(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // What is open stays readable for whoever has it open, and is gone with them.
        let _gone_already = std::fs::remove_dir_all(&self.0);
    }
}
