//! When the names in a folder were changed last: one look at it instead of one at each of three names in it.
//!
//! A folder's own times change with each name that comes, goes or is put in another's place. What is changed a moment
//! after a look may get the time that this look saw, since many systems count in steps of some milliseconds; so
//! a folder is trusted only once its times are a while ago.

#[cfg(target_os = "linux")]
pub(super) use linux::Stamp;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Stamp;

#[cfg(target_os = "linux")]
mod linux {
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, StatxTimestamp, statx};

    /// How long ago a folder has to have been changed: the steps of no file system's times are longer than 2 s.
    const SETTLED: Duration = Duration::from_secs(3);

    /// Which folder it is, and when names in it were changed last.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(in super::super) struct Stamp {
        device: (u32, u32),
        number: u64,
        /// Nanoseconds since 1970: the names', and those of whatever else the system notes.
        times: [i128; 2],
    }

    impl Stamp {
        /// Of the folder that a file is in, by its name; `None` where it cannot be looked at.
        pub(in super::super) fn of(file: &Path) -> Option<Self> {
            let wanted = StatxFlags::INO | StatxFlags::MTIME | StatxFlags::CTIME;
            let found = statx(CWD, file.parent()?, AtFlags::empty(), wanted).ok()?;
            let has_all = found.stx_mask & wanted.bits() == wanted.bits();
            has_all.then(|| Self {
                device: device(&found),
                number: found.stx_ino,
                times: [found.stx_mtime, found.stx_ctime].map(nanoseconds),
            })
        }

        /// Whether nothing can happen to these names that the folder's times would not show.
        pub(in super::super) fn vouches_for(&self, files: &[PathBuf]) -> bool {
            let now =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().cast_signed();
            self.has_settled(now) && self.has_their_own(files)
        }

        /// A clock that was set back makes it wait longer.
        pub(in super::super) fn has_settled(&self, now: i128) -> bool {
            self.times.iter().all(|time| now - time > SETTLED.as_nanos().cast_signed())
        }

        /// Whether each name stands for a file on the folder's own device: not for a link that leads elsewhere, and
        /// not for what is mounted over it.
        pub(in super::super) fn has_their_own(&self, files: &[PathBuf]) -> bool {
            files.iter().all(|file| {
                let found = statx(CWD, file, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE | StatxFlags::INO);
                found.is_ok_and(|found| {
                    let kind = rustix::fs::FileType::from_raw_mode(found.stx_mode.into());
                    device(&found) == self.device && kind == rustix::fs::FileType::RegularFile
                })
            })
        }
    }

    fn device(found: &Statx) -> (u32, u32) {
        (found.stx_dev_major, found.stx_dev_minor)
    }

    fn nanoseconds(time: StatxTimestamp) -> i128 {
        i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::path::{Path, PathBuf};

    /// Elsewhere every name is looked at each time.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(in super::super) struct Stamp(());

    impl Stamp {
        pub(in super::super) fn of(_file: &Path) -> Option<Self> {
            None
        }

        pub(in super::super) fn vouches_for(&self, _files: &[PathBuf]) -> bool {
            false
        }
    }
}
