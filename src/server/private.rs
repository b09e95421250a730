//! Places for what is made on the way to an answer: nobody else may look into them, whatever the umask is.

use std::io;
use std::path::{Path, PathBuf};

/// A folder among temporary files that only the server's user may enter; it goes with this, and all that is in it.
pub(super) struct Private(PathBuf);

impl Private {
    /// A new one.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!(".annals-{}", uuid::Uuid::new_v4().simple()));
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
