//! What a file is with all whole commits of a log, those behind damage included.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{FRAME, Header, is_read, word};

/// Writes the pages of all whole commits of a log into a database file, as moving the log into the file would, those behind
/// damage included. A frame that is damaged is left out, unless it names a page of the file: then its page is written as it is.
/// Returns the number of commits.
///
/// # Errors
/// Any error of reading the log, which is read twice, and of writing the file.
pub(crate) fn apply(log: &mut (impl Read + Seek), file: &mut (impl Write + Seek)) -> io::Result<u64> {
    let (mut last, mut commits, mut pages) = (None, 0, 0);
    each(log, &mut |at, _, frame, is_whole| {
        if word(frame, 4) != 0 {
            last = Some(at);
            commits += 1;
        }
        if is_whole {
            pages = pages.max(word(frame, 0)).max(word(frame, 4));
        }
        Ok(())
    })?;
    let Some(last) = last else { return Ok(0) };
    log.seek(SeekFrom::Start(0))?;
    each(log, &mut |at, header, frame, _| {
        let number = word(frame, 0);
        if at > last || number == 0 || number > pages {
            return Ok(());
        }
        file.seek(SeekFrom::Start(u64::from(number - 1) * header.page as u64))?;
        file.write_all(&frame[FRAME..])
    })?;
    file.flush()?;
    Ok(commits)
}

type Visit<'a> = &'a mut dyn FnMut(u64, &Header, &[u8], bool) -> io::Result<()>;

/// Calls `visit` with each frame of a log, its place, and whether it is whole, judged by what the frame before says of itself.
fn each(log: &mut impl Read, visit: Visit<'_>) -> io::Result<()> {
    let Some(header) = Header::read(log)? else { return Ok(()) };
    let mut log = io::BufReader::new(log);
    let (mut before, mut at) = (header.sum, 0);
    let mut frame = vec![0; FRAME + header.page];
    while is_read(&mut log, &mut frame)? {
        let stated = (word(&frame, 16), word(&frame, 20));
        let is_whole = header.sum_of(before, &frame) == stated;
        before = stated;
        if header.is_commit(&frame).is_some() {
            visit(at, &header, &frame, is_whole)?;
        }
        at += 1;
    }
    Ok(())
}
