//! The frames of a write-ahead log: which are whole, which are behind one that is not, and what a file is with all of them.
//!
//! Source: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::io::{self, Read};

#[cfg(feature = "cli")]
mod apply;
#[cfg(feature = "cli")]
pub(crate) use apply::apply;

/// The size of the header of a log, and of a frame without its page, in bytes.
pub(in crate::store) const HEADER: usize = 32;
pub(in crate::store) const FRAME: usize = 24;

/// The beginning of a log.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Header {
    is_big: bool,
    /// The size of a page, in bytes.
    pub(in crate::store) page: usize,
    /// What every frame of this log has, and no frame of an earlier one.
    pub(in crate::store) salts: [u8; 8],
    sum: (u32, u32),
}

/// The content of a log, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::store) struct Survey {
    /// The commits that the engine reads: those before the first frame that is not whole.
    pub(in crate::store) commits: u64,
    /// The frames of these commits.
    pub(in crate::store) frames: u64,
    /// The commits behind that frame.
    pub(in crate::store) lost: u64,
}

pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).unwrap_or_default())
}

impl Header {
    /// Reads the header. `None` if it is not one, or is damaged: then the engine reads nothing of the log.
    pub(in crate::store) fn read(log: &mut impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if !is_read(log, &mut header)? {
            return Ok(None);
        }
        let is_big = match word(&header, 0) {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return Ok(None),
        };
        let page = match word(&header, 8) {
            size @ 512..=65_536 if size.is_power_of_two() => size as usize,
            _ => return Ok(None),
        };
        let sum = checksum(is_big, (0, 0), &header[..24]);
        let mut salts = [0; 8];
        salts.copy_from_slice(&header[16..24]);
        let is_whole = sum == (word(&header, 24), word(&header, 28));
        Ok(is_whole.then_some(Self { is_big, page, salts, sum }))
    }

    /// The size of a frame, in bytes.
    pub(in crate::store) fn frame_bytes(&self) -> u64 {
        (FRAME + self.page) as u64
    }

    /// Returns whether the beginning of a frame is of this log, and whether a commit ends with the frame.
    pub(in crate::store) fn is_commit(&self, frame: &[u8]) -> Option<bool> {
        (frame.get(8..16)? == self.salts).then(|| word(frame, 4) != 0)
    }

    /// Returns the checksum of a frame that follows one with the checksum `before`.
    fn sum_of(&self, before: (u32, u32), frame: &[u8]) -> (u32, u32) {
        checksum(self.is_big, checksum(self.is_big, before, &frame[..8]), &frame[FRAME..])
    }
}

/// Reads a whole log.
pub(in crate::store) fn survey(mut log: impl Read) -> io::Result<Survey> {
    let mut survey = Survey::default();
    let Some(header) = Header::read(&mut log)? else { return Ok(survey) };
    let (mut sum, mut is_whole) = (header.sum, true);
    let (mut frame, mut count) = (vec![0; FRAME + header.page], 0);
    while is_read(&mut log, &mut frame)? {
        sum = header.sum_of(sum, &frame);
        count += 1;
        let is_commit = header.is_commit(&frame);
        is_whole &= is_commit.is_some() && sum == (word(&frame, 16), word(&frame, 20));
        match (is_whole, is_commit) {
            (true, Some(true)) => (survey.commits, survey.frames) = (survey.commits + 1, count),
            (false, Some(true)) => survey.lost += 1,
            _ => {}
        }
    }
    Ok(survey)
}

/// Fills `buffer`. Returns whether there was enough to read.
pub(super) fn is_read(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// Goes on with the checksum of a write-ahead log over `bytes`, whose number is a multiple of 8.
fn checksum(is_big: bool, (mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |four: &[u8]| {
        let four = four.try_into().unwrap_or_default();
        if is_big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    for eight in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(&eight[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&eight[4..])).wrapping_add(first);
    }
    (first, second)
}
