//! The table matches the folders. The page is small and complete, and contains nothing that its policy forbids.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{ASSETS, Asset, asset, packed};

/// The maximum size of all files together, plain and compressed (as a browser receives them), in bytes.
const BYTES_MAX: usize = 450_000;
const PACKED_BYTES_MAX: usize = 150_000;

/// The maximum number of lines of one file, third-party files excepted.
const LINES_MAX: usize = 300;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page");

/// Adds the paths of the files below a folder, relative to `FOLDER`.
fn walk(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.insert(path.strip_prefix(FOLDER).unwrap().to_str().unwrap().to_owned());
        }
    }
}

/// `UPDATE_GOLDEN=1 cargo test --lib page` updates the table.
#[test]
fn the_table_has_every_file_of_the_folders() {
    let mut files = BTreeSet::new();
    walk(&Path::new(FOLDER).join("app"), &mut files);
    walk(&Path::new(FOLDER).join("vendor"), &mut files);
    files.retain(|file| !file.ends_with(".md") && !file.ends_with(".sh"));
    let paths: BTreeSet<(&str, &str)> =
        files.iter().map(|file| (file.strip_prefix("app/").unwrap_or(file), file.as_str())).collect();
    let rows = paths.iter().fold(String::new(), |mut rows, (path, file)| {
        let _ = writeln!(rows, "    file(\"{path}\", include_bytes!(\"{file}\")),");
        rows
    });
    let table = format!("{FOLDER}/assets.rs");
    let text = fs::read_to_string(&table).unwrap();
    let (begin, end) = (text.find("&[\n").unwrap() + 3, text.find("\n];").unwrap() + 1);
    let wanted = format!("{}{rows}{}", &text[..begin], &text[end..]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&table, &wanted).unwrap();
    }
    assert!(text == wanted, "src/page/assets.rs does not match the folders; set UPDATE_GOLDEN=1");
}

#[test]
fn a_file_is_found_by_its_path_with_a_tag_of_its_own() {
    let mut tags = BTreeSet::new();
    for file in ASSETS {
        let (plain, small) = (asset(file.path).unwrap(), packed(file.path).unwrap());
        assert_eq!((plain.content_type, plain.bytes.len()), (file.content_type, file.bytes.len()));
        assert_eq!(zstd::bulk::decompress(small.bytes, BYTES_MAX).unwrap(), file.bytes, "{}", file.path);
        for tag in [plain.tag, small.tag] {
            assert!(tag.starts_with('"') && tag.ends_with('"') && tags.insert(tag), "{}: {tag}", file.path);
        }
        assert_ne!(file.content_type, "application/octet-stream", "{}", file.path);
    }
    for nothing in ["", "index", "../mod.rs", "vendor/README.md", "/index.html"] {
        assert!(asset(nothing).is_none(), "{nothing}");
    }
}

#[test]
fn the_page_is_small_and_its_files_are_short() {
    let bytes: usize = ASSETS.iter().map(|file| file.bytes.len()).sum();
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
    let bytes: usize = ASSETS.iter().map(|file| packed(file.path).unwrap().bytes.len()).sum();
    assert!(bytes < PACKED_BYTES_MAX, "{bytes} bytes packed");
    for file in own() {
        let lines = text(file).lines().count();
        assert!(lines <= LINES_MAX, "{}: {lines} lines", file.path);
    }
}

/// The files of the page, without third-party files.
fn own() -> impl Iterator<Item = &'static Asset> {
    ASSETS.iter().filter(|file| !file.path.starts_with("vendor/"))
}

fn text(file: &Asset) -> &'static str {
    std::str::from_utf8(file.bytes).unwrap()
}

/// Returns the texts that follow `mark`, each up to the next quotation mark.
fn quoted<'t>(text: &'t str, mark: &str) -> Vec<&'t str> {
    let behind = text.split(mark).skip(1);
    behind.filter_map(|rest| rest.split(['"', '\'']).next()).collect()
}

/// Resolves a path relative to the folder of the file `from`.
fn joined(from: &str, to: &str) -> String {
    let mut steps: Vec<&str> = from.split('/').collect();
    steps.pop();
    for step in to.split('/') {
        match step {
            "." => {}
            ".." => assert!(steps.pop().is_some(), "{from} leads out of the page: {to}"),
            step => steps.push(step),
        }
    }
    steps.join("/")
}

#[test]
fn every_referenced_module_and_sheet_exists() {
    for file in ASSETS.iter().filter(|file| file.path.ends_with("js")) {
        for mark in ["from '", "from \"", "from\"", "import '", "import('"] {
            for named in quoted(text(file), mark).into_iter().filter(|name| name.starts_with('.')) {
                let path = joined(file.path, named);
                assert!(asset(&path).is_some(), "{} names {path}", file.path);
            }
        }
    }
    let index = std::str::from_utf8(asset("index.html").unwrap().bytes).unwrap();
    for path in quoted(index, "src=\"").into_iter().chain(quoted(index, "href=\"page/")) {
        let path = path.strip_prefix("page/").unwrap_or(path);
        assert!(asset(path).is_some(), "index.html names {path}");
    }
}

/// `views.js` names the sheets of each view by their names: each of them exists, and each sheet has a view.
#[test]
fn every_sheet_belongs_to_a_view_or_to_all() {
    let content = |path: &str| std::str::from_utf8(asset(path).unwrap().bytes).unwrap();
    let of_views: BTreeSet<_> = content("views.js")
        .split("withSheets(import(")
        .skip(1)
        .flat_map(|call| call.split('}').next().unwrap().split('\'').skip(3).step_by(2))
        .map(|name| format!("style/{name}.css"))
        .collect();
    let of_all: BTreeSet<_> = quoted(content("index.html"), "href=\"page/")
        .into_iter()
        .filter(|path| path.ends_with(".css"))
        .map(str::to_owned)
        .collect();
    let sheets: BTreeSet<_> =
        ASSETS.iter().filter(|file| file.path.ends_with(".css")).map(|file| file.path.to_owned()).collect();
    assert_eq!(of_views.union(&of_all).cloned().collect::<BTreeSet<_>>(), sheets);
    assert_eq!(of_views.intersection(&of_all).count(), 0);
}

#[test]
fn no_file_uses_what_the_policy_forbids() {
    let index = std::str::from_utf8(asset("index.html").unwrap().bytes).unwrap();
    assert!(!index.contains("<style") && !index.contains(" style=") && !index.contains(" on"), "{index}");
    assert_eq!(
        index.matches("<script").count(),
        index.matches("<script type=\"module\" src=\"page/").count()
    );
    for file in own().filter(|file| !file.path.ends_with(".svg")) {
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "http://",
            "https://",
        ] {
            assert!(!text(file).contains(forbidden), "{}: {forbidden}", file.path);
        }
    }
}
