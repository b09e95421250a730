//! Reads the bytes of a database file and of its write-ahead log through the files that the engine has open. To open and close
//! them once more could cost this process its locks.
#![expect(unsafe_code, reason = "the engine has no safe wrapper for its files")]

use std::io::{self, Read, Seek, SeekFrom};

use rusqlite::{Connection, ffi};

/// A file of an open database.
pub(in crate::store) struct Part<'a> {
    file: *mut ffi::sqlite3_file,
    at: u64,
    /// The engine closes its files with the connection.
    _of: &'a Connection,
}

impl<'a> Part<'a> {
    /// The database file.
    pub(in crate::store) fn database(db: &'a Connection) -> Option<Self> {
        Self::of(db, ffi::SQLITE_FCNTL_FILE_POINTER)
    }

    /// The write-ahead log, if the connection has read from it.
    pub(in crate::store) fn log(db: &'a Connection) -> Option<Self> {
        Self::of(db, ffi::SQLITE_FCNTL_JOURNAL_POINTER)
    }

    fn of(db: &'a Connection, which: i32) -> Option<Self> {
        let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
        // SAFETY: the connection is open, and the engine writes one pointer, to its own file, which lives as long as the
        // connection. A file that is not open has no methods.
        unsafe {
            let into = std::ptr::from_mut(&mut file).cast();
            if ffi::sqlite3_file_control(db.handle(), c"main".as_ptr(), which, into) != ffi::SQLITE_OK
                || file.is_null()
                || (*file).pMethods.is_null()
            {
                return None;
            }
        }
        Some(Self { file, at: 0, _of: db })
    }

    /// Returns the size of the file now, in bytes: other processes make it longer and shorter.
    ///
    /// # Errors
    /// The engine cannot say it.
    pub(in crate::store) fn size(&self) -> io::Result<u64> {
        let mut bytes = 0;
        // SAFETY: the file is open, as in `of`, and the engine writes one number.
        let done = unsafe { (*(*self.file).pMethods).xFileSize.map(|size| size(self.file, &raw mut bytes)) };
        match done {
            Some(ffi::SQLITE_OK) => Ok(bytes.cast_unsigned()),
            code => Err(failed("say the size of", code)),
        }
    }
}

impl Seek for Part<'_> {
    /// Goes on reading at another byte.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.size()?, by),
            SeekFrom::Current(by) => (self.at, by),
        };
        self.at = from.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.size()?.saturating_sub(self.at);
        let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX)).min(1 << 20);
        if count == 0 {
            return Ok(0);
        }
        let (length, at) = (i32::try_from(count).unwrap_or(0), self.at.cast_signed());
        // SAFETY: the file is open, as in `of`, and the buffer has at least this many bytes.
        let read = unsafe {
            (*(*self.file).pMethods).xRead.map(|read| read(self.file, buffer.as_mut_ptr().cast(), length, at))
        };
        match read {
            Some(ffi::SQLITE_OK) => {
                self.at += count as u64;
                Ok(count)
            }
            // Another process has made it shorter since.
            Some(ffi::SQLITE_IOERR_SHORT_READ) => Err(io::ErrorKind::UnexpectedEof.into()),
            code => Err(failed("read", code)),
        }
    }
}

fn failed(what: &str, code: Option<std::ffi::c_int>) -> io::Error {
    io::Error::other(format!("the engine cannot {what} its file (code {})", code.unwrap_or(-1)))
}
