//! What a power cut could leave of a recording.
//!
//! Synced data is kept. Of every other write, each sector of 512 bytes is kept or lost, independently of the others. A
//! sector may be torn at any byte. A lost sector beyond the end of the file reads as zeros. Truncations, and names that
//! were created or deleted, are kept or lost. Bytes that no write touched stay as they were, even in a torn sector.
//! SQLite calls this power-safe overwrite, and its VFS claims it for every disk unless it is configured otherwise
//! (https://sqlite.org/psow.html).

use std::collections::BTreeMap;

use super::scene::{FileId, Op};
use crate::random::Random;

/// The number of bytes that a disk writes as one unit. A unit is written, lost or torn.
const SECTOR: usize = 512;

/// The files that are left, by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// What happens to data that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is lost.
    Lost,
    /// It is kept.
    Kept,
    /// Each write and truncation is kept or lost, independently of the others.
    Writes,
    /// Each sector is kept, lost or torn, independently of the others.
    Sectors,
    /// The last operations are kept, and those before them are lost.
    Late,
    /// The first operations are kept, then one write is torn, and the rest is lost.
    Torn,
    /// The first operations are kept. The rest only made the file longer, and its data is all zeros.
    Hollow,
    /// All operations of a file are kept or lost together.
    Files,
}

impl Fate {
    pub const ALL: [Self; 8] = [
        Self::Lost,
        Self::Kept,
        Self::Writes,
        Self::Sectors,
        Self::Late,
        Self::Torn,
        Self::Hollow,
        Self::Files,
    ];
}

/// What happens to the piece of a write that lies within one sector.
enum Piece {
    Lost,
    Kept,
    /// Only its first bytes are kept.
    FirstBytes(usize),
    /// Only its last bytes are kept.
    LastBytes(usize),
    Zeros,
}

#[derive(Default)]
struct File {
    durable: Vec<u8>,
    /// The numbers of the operations that are not synced.
    pending: Vec<usize>,
}

/// The disk at one point of a recording.
pub struct Disk<'a> {
    ops: &'a [Op],
    next: usize,
    files: BTreeMap<FileId, File>,
    names: BTreeMap<String, FileId>,
    /// Names that were created or deleted and are not synced.
    pending: Vec<(String, Option<FileId>)>,
}

impl<'a> Disk<'a> {
    /// The disk as it was when the recording of `ops` began.
    pub fn new(base: &Image, names: &BTreeMap<String, FileId>, ops: &'a [Op]) -> Self {
        let file = |(name, file): (&String, &FileId)| {
            (*file, File { durable: base[name].clone(), pending: Vec::new() })
        };
        Self {
            ops,
            next: 0,
            files: names.iter().map(file).collect(),
            names: names.clone(),
            pending: Vec::new(),
        }
    }

    /// Advances until `point` operations have been applied.
    pub fn advance(&mut self, point: usize) {
        assert!(self.next <= point && point <= self.ops.len());
        for (number, op) in self.ops.iter().enumerate().take(point).skip(self.next) {
            match op {
                Op::Create { name, file } => {
                    self.files.insert(*file, File::default());
                    self.pending.push((name.clone(), Some(*file)));
                }
                Op::Delete { name } => self.pending.push((name.clone(), None)),
                Op::Write { file, .. } | Op::Truncate { file, .. } => self.file(*file).pending.push(number),
                Op::Sync { file } => {
                    let ops = self.ops;
                    let file = self.file(*file);
                    for number in std::mem::take(&mut file.pending) {
                        apply(&ops[number], &mut file.durable, &mut |_| Piece::Kept, true);
                    }
                }
                Op::SyncFolder => {
                    for (name, file) in std::mem::take(&mut self.pending) {
                        rename(&mut self.names, name, file);
                    }
                }
                Op::Mark { .. } => {}
            }
        }
        self.next = point;
    }

    fn file(&mut self, file: FileId) -> &mut File {
        self.files.entry(file).or_default()
    }

    /// Returns whether a power cut here can leave only one image.
    pub fn is_certain(&self) -> bool {
        self.pending.is_empty() && self.files.values().all(|file| file.pending.is_empty())
    }

    /// Returns what a power cut here leaves.
    pub fn image(&self, fate: Fate, random: &mut Random) -> Image {
        let mut names = self.names.clone();
        let mut kept_names: BTreeMap<&str, bool> = BTreeMap::new();
        for (name, file) in &self.pending {
            // If a change of a name is kept, the earlier changes of the same name are kept too.
            let is_kept = kept_names.entry(name).or_insert(true);
            *is_kept &= match fate {
                Fate::Lost => false,
                Fate::Kept | Fate::Torn | Fate::Hollow => true,
                _ => random.below(2) == 0,
            };
            if *is_kept {
                rename(&mut names, name.clone(), *file);
            }
        }
        let content = |(name, file): (String, FileId)| {
            let content =
                self.files.get(&file).map_or_else(Vec::new, |file| self.content(file, fate, random));
            (name, content)
        };
        names.into_iter().map(content).collect()
    }

    fn content(&self, file: &File, fate: Fate, random: &mut Random) -> Vec<u8> {
        let mut content = file.durable.clone();
        if file.pending.is_empty() {
            return content;
        }
        // The operation at which the fate changes, and whether all operations of the file are kept.
        let turn = usize::try_from(random.below(file.pending.len() as u64)).unwrap_or(0);
        let is_kept = random.below(2) == 0;
        for (place, number) in file.pending.iter().enumerate() {
            let op = &self.ops[*number];
            let whole = match fate {
                Fate::Lost => Some(false),
                Fate::Kept => Some(true),
                Fate::Files => Some(is_kept),
                Fate::Writes => Some(random.below(2) == 0),
                Fate::Late => Some(place >= turn),
                Fate::Torn if place != turn => Some(place < turn),
                Fate::Hollow if place < turn => Some(true),
                Fate::Hollow | Fate::Torn | Fate::Sectors => None,
            };
            let mut is_torn = false;
            let mut piece = |bytes: usize| {
                let part = |random: &mut Random| usize::try_from(random.below(bytes as u64)).unwrap_or(0);
                match (whole, fate) {
                    (Some(true), _) => Piece::Kept,
                    (Some(false), _) => Piece::Lost,
                    (None, Fate::Hollow) => Piece::Zeros,
                    (None, Fate::Torn) if is_torn => Piece::Lost,
                    (None, Fate::Torn) => {
                        is_torn = random.below(4) == 0;
                        if is_torn { Piece::FirstBytes(part(random)) } else { Piece::Kept }
                    }
                    (None, _) => match random.below(16) {
                        0 => Piece::FirstBytes(part(random)),
                        1 => Piece::LastBytes(part(random)),
                        chance if chance % 2 == 0 => Piece::Kept,
                        _ => Piece::Lost,
                    },
                }
            };
            let cuts = whole.unwrap_or(true);
            apply(op, &mut content, &mut piece, cuts);
        }
        content
    }
}

fn rename(names: &mut BTreeMap<String, FileId>, name: String, file: Option<FileId>) {
    match file {
        Some(file) => drop(names.insert(name, file)),
        None => drop(names.remove(&name)),
    }
}

/// Applies `op` to `content`, each piece as `fate` decides. Applies a truncation only if `cuts`.
fn apply(op: &Op, content: &mut Vec<u8>, fate: &mut impl FnMut(usize) -> Piece, cuts: bool) {
    let size = |size: &u64| usize::try_from(*size).expect("the size fits into memory");
    match op {
        Op::Truncate { size: to, .. } if cuts => content.resize(size(to), 0),
        Op::Write { offset, data, .. } => {
            let start = size(offset);
            let mut at = 0;
            while at < data.len() {
                let end = data.len().min(at + SECTOR - (start + at) % SECTOR);
                let piece = &data[at..end];
                match fate(piece.len()) {
                    Piece::Lost => {}
                    Piece::Kept => put(content, start + at, piece),
                    Piece::FirstBytes(bytes) => put(content, start + at, &piece[..bytes]),
                    Piece::LastBytes(bytes) => {
                        put(content, start + end - bytes, &piece[piece.len() - bytes..])
                    }
                    Piece::Zeros => put(content, start + at, &[0; SECTOR][..piece.len()]),
                }
                at = end;
            }
        }
        _ => {}
    }
}

fn put(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, byte: u8, bytes: usize) -> Op {
        Op::Write { file: 1, offset, data: vec![byte; bytes] }
    }

    fn disk(ops: &[Op]) -> Disk<'_> {
        let base = Image::from([("a".to_owned(), vec![0; 1024])]);
        Disk::new(&base, &BTreeMap::from([("a".to_owned(), 1)]), ops)
    }

    #[test]
    fn synced_data_is_kept_and_the_rest_may_be_lost_torn_or_late() {
        let ops = [write(0, 1, 512), Op::Sync { file: 1 }, write(512, 2, 512), write(0, 3, 1024)];
        let mut disk = disk(&ops);
        disk.advance(4);
        let mut seen = std::collections::BTreeSet::new();
        for fate in Fate::ALL {
            for seed in 0..200 {
                let image = disk.image(fate, &mut Random::new(seed));
                assert_eq!(image["a"].len(), 1024);
                assert!(fate == Fate::Hollow || image["a"][..512].iter().all(|byte| [1, 3].contains(byte)));
                seen.insert((image["a"][0], image["a"][511], image["a"][512], image["a"][1023]));
            }
        }
        for expected in [(1, 1, 0, 0), (1, 1, 2, 2), (3, 3, 3, 3), (3, 3, 2, 2), (3, 1, 0, 0), (1, 1, 2, 3)] {
            assert!(seen.contains(&expected), "{expected:?} is never seen: {seen:?}");
        }
        assert!(!disk.is_certain());
    }

    #[test]
    fn names_are_durable_once_their_folder_is_synced() {
        let create = |name: &str, file| Op::Create { name: name.to_owned(), file };
        let delete = Op::Delete { name: "a".to_owned() };
        let ops = [create("b", 2), Op::SyncFolder, create("c", 3), delete, Op::SyncFolder];
        let names = |point, fate| {
            let mut disk = disk(&ops);
            disk.advance(point);
            disk.image(fate, &mut Random::new(1)).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(names(1, Fate::Lost), ["a"]);
        assert_eq!(names(1, Fate::Kept), ["a", "b"]);
        assert_eq!(names(4, Fate::Lost), ["a", "b"]);
        assert_eq!(names(4, Fate::Kept), ["b", "c"]);
        assert_eq!(names(5, Fate::Lost), ["b", "c"]);
    }
}
