//! Measures imports and exports of folders: their speed, and the space they take on disk and in memory.

use std::path::Path;

use annals::Store;
use annals::transfer::{ExportStatus, Exporter, Format, ImportOptions, ImportStatus, Importer};

use crate::baseline;
use crate::child::peak_mib;
use crate::corpus::{events, write_folder};
use crate::table::{Budget, Row, Table, rate};

const ROUNDS: usize = 5;

/// Ten times the SDK's append rate, as a share of (i). The real SDK appended about 500 events/s on a machine where (i)
/// was about 4,700.
const TEN_TIMES_THE_SDK: f64 = 1.06;

pub fn measure(folder: &Path, table: &mut Table) {
    rates(folder, table);
    sizes(folder, table);
}

fn rates(folder: &Path, table: &mut Table) {
    const EVENTS: usize = 6000;
    const BASELINE_COUNT: usize = 1000;
    let payloads = events(EVENTS, 12);
    let source = folder.join("source");
    write_folder(&source, &payloads);
    let db = baseline::bare(&folder.join("bare.db"));
    baseline::append(&db, 1_000_000, &payloads); // grows its write-ahead log
    let mut import = Row::new("import: a folder / (i)", Budget::AtLeast(TEN_TIMES_THE_SDK), "/s");
    let mut again = Row::new("import: the same folder again / (i)", Budget::Open, "/s");
    let mut export = Row::new("export: a folder / copying its files", Budget::Open, "/s");
    for round in 0..ROUNDS {
        let store = Store::open(folder.join(format!("import-{round}.db"))).expect("open");
        let run_import = |expected: ImportStatus| {
            let reports = Importer::new(&store, ImportOptions::default()).import(&source, &mut |_| {});
            assert_eq!(reports.expect("import")[0].status, expected);
        };
        let ours = rate(EVENTS, || run_import(ImportStatus::Imported));
        let from = round * BASELINE_COUNT;
        let theirs = rate(BASELINE_COUNT, || {
            baseline::append_singly(&db, from, &payloads[from % 5000..][..BASELINE_COUNT])
        });
        import.push(ours, theirs);
        again.push(rate(EVENTS, || run_import(ImportStatus::Unchanged)), theirs);
        let page = store.conversations(&Default::default(), Default::default(), None, 1).expect("list");
        let target = folder.join(format!("export-{round}"));
        let ours = rate(EVENTS, || {
            let exporter = Exporter::new(&store, Format::OpenHands);
            let report = exporter.export(&page.conversations[0].id, &target, &mut |_| {}).expect("export");
            assert_eq!((report.status, report.events), (ExportStatus::Written, EVENTS as u64));
        });
        let copied = rate(EVENTS, || copy(&source, &folder.join(format!("copy-{round}"))));
        export.push(ours, copied);
    }
    for row in [import, again, export] {
        table.add(&row);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

fn sizes(folder: &Path, table: &mut Table) {
    const EVENTS: usize = 50_000;
    const MEMORY_MIB: f64 = 64.0;
    let source = folder.join("large");
    write_folder(&source, &events(EVENTS, 13));
    let db = folder.join("large.db");
    let mut import = Row::new("import: peak memory at 50,000 events / 64 MiB", Budget::AtMost(1.0), "MiB");
    import.push(peak_mib("import", &db, &source, EVENTS), MEMORY_MIB);
    table.add(&import);
    let mut export = Row::new("export: peak memory at 50,000 events / 64 MiB", Budget::AtMost(1.0), "MiB");
    export.push(peak_mib("export", &db, &folder.join("out"), EVENTS), MEMORY_MIB);
    table.add(&export);
    // Both processes have closed the file. So it contains its write-ahead log, and its projections are up to date.
    let mut size = Row::new("size: file with projections / du of the folder", Budget::AtMost(0.65), "MB");
    size.push(disk_usage(&db) / 1e6, disk_usage(&source) / 1e6);
    table.add(&size);
    let store = Store::open(&db).expect("open");
    store.search("build", &Default::default(), 1, &mut |_| {}).expect("search");
    drop(store);
    let mut size = Row::new("size: the same with a search index", Budget::Open, "MB");
    size.push(disk_usage(&db) / 1e6, disk_usage(&source) / 1e6);
    table.add(&size);
    archive(&db, &source, EVENTS, table);
}

/// Measures how much space an archive saves and how much slower it is to read.
fn archive(db: &Path, source: &Path, events: usize, table: &mut Table) {
    let store = Store::open(db).expect("open");
    let page = store.conversations(&Default::default(), Default::default(), None, 1).expect("list");
    let id = &page.conversations[0].id;
    let scan = || {
        let mut bytes = 0;
        let count = |event: annals::store::EventRef<'_>| {
            bytes += event.payload.len();
            Ok(true)
        };
        store.scan(id, annals::Sequence(0), count).expect("scan");
        assert_eq!(bytes as u64, page.conversations[0].payload_bytes);
    };
    let plain = rate(events, scan);
    let mut pack = Row::new("archive: events / plain scan", Budget::Open, "/s");
    let archive = || {
        let report = store.retention().archive(std::slice::from_ref(id), None, &mut |_| {}).expect("archive");
        assert_eq!(report.events, events as u64);
    };
    pack.push(rate(events, archive), plain);
    table.add(&pack);
    let mut row = Row::new("archive: scan of 50,000 / plain scan", Budget::Open, "/s");
    row.push(rate(events, scan), plain);
    table.add(&row);
    store.maintenance().vacuum().expect("vacuum");
    drop(store);
    let name = "size: archived, with projections and search index / du of the folder";
    let mut size = Row::new(name, Budget::AtMost(0.35), "MB");
    size.push(disk_usage(db) / 1e6, disk_usage(source) / 1e6);
    table.add(&size);
}

/// The disk usage as `du` reports it: the allocated blocks, in bytes.
fn disk_usage(path: &Path) -> f64 {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::symlink_metadata(path).expect("the path exists");
    let mut bytes = metadata.blocks() as f64 * 512.0;
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).expect("a folder") {
            bytes += disk_usage(&entry.expect("an entry").path());
        }
    }
    bytes
}
