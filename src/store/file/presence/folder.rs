//! Reads when the names in a folder last changed: one check of the folder instead of one check of each of three files.
//!
//! A folder's own times change whenever a name in it is added, removed or replaced. On many systems these times advance
//! in steps of some milliseconds, so a change right after a check may get the same time as before it. So a folder is
//! trusted only if its times are a while ago.

#[cfg(target_os = "linux")]
pub(super) use linux::Stamp;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Stamp;

#[cfg(target_os = "linux")]
mod linux {
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, StatxTimestamp, statx};

    /// The minimum time since the last change of a trusted folder. No file system has time steps longer than 2 s.
    const SETTLED: Duration = Duration::from_secs(3);

    /// The identity of a folder, and when it last changed.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(in super::super) struct Stamp {
        device: (u32, u32),
        number: u64,
        /// The modification time and the status change time, in nanoseconds since 1970.
        times: [i128; 2],
    }

    impl Stamp {
        /// Returns the stamp of the folder that `file` is in. `None` if the folder cannot be read.
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

        /// Returns whether the folder's times would show every change of these names.
        pub(in super::super) fn vouches_for(&self, files: &[PathBuf]) -> bool {
            let now =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().cast_signed();
            self.has_settled(now) && self.has_their_own(files)
        }

        /// Returns whether the folder's times are old enough at `now`. If the clock was set back, it takes longer.
        pub(in super::super) fn has_settled(&self, now: i128) -> bool {
            self.times.iter().all(|time| now - time > SETTLED.as_nanos().cast_signed())
        }

        /// Returns whether each name is a regular file on the folder's own device: not a link, and not a mounted file.
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

    /// On other systems there is no stamp, so every file is checked each time.
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
