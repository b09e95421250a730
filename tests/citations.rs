//! Citations: every page and every heading that a comment or a document names exists.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The path from the root of the repository, for messages.
fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Documents outside the repository that comments once cited. A page of the repository with one of these names is cited
/// with its path.
const OUTSIDE: &[&str] = &["api.md", "events.md", "events_fields.md", "routes.md", "runtime.md"];

/// Returns all files below `place` with one of these endings. If `place` is a file, only that file is checked.
fn files_of(place: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root().join(place)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the lines of a page outside code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((number + 1, line))
    })
}

/// Returns the anchors of a page, as GitHub derives them from its headings.
fn anchors(page: &Path) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(&fs::read_to_string(page).unwrap()) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: char| (c.is_alphanumeric() || " -_".contains(c)).then(|| c.to_lowercase());
        let text = without_links(heading).0.trim().to_owned();
        let slug = text.chars().filter_map(kept).flatten().map(|c| if c == ' ' { '-' } else { c }).collect();
        let same = anchors.iter().filter(|known| **known == slug).count();
        anchors.push(if same == 0 { slug } else { format!("{slug}-{same}") });
    }
    anchors
}

/// Returns the line with `text` in place of `[text](target)`, and the targets. A `text` that names a page is removed.
fn without_links(line: &str) -> (String, Vec<&str>) {
    let (mut text, mut targets, mut rest) = (String::new(), Vec::new(), line);
    while let Some((before, link)) = rest.split_once("](") {
        let Some((target, after)) = link.split_once(')') else { break };
        let (outer, label) = before.rsplit_once('[').unwrap_or((before, ""));
        text.push_str(outer);
        text.push_str(if label.ends_with(".md") { "" } else { label });
        targets.push(target);
        rest = after;
    }
    text.push_str(rest);
    (text, targets)
}

/// Returns the paths of pages that a text names, each with its `#anchor` if it has one.
fn pages(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./#".contains(c);
    let words = text.split(move |c| !is_part(c)).map(|word| word.trim_end_matches(['.', '#', '/']));
    words.filter(|word| word.split('#').next().is_some_and(|path| path.ends_with(".md")))
}

/// Returns the comment of a line, according to the language of its file. A page's line is returned whole.
fn comment<'a>(path: &Path, line: &'a str) -> &'a str {
    let mark = match path.extension().and_then(|ending| ending.to_str()) {
        Some("rs" | "js" | "mjs") => "//",
        Some("sql") => "--",
        Some("py" | "sh") => "#",
        _ => return line,
    };
    let line = line.trim_start();
    if line.starts_with(mark) {
        return line;
    }
    line.find(&format!(" {mark} ")).map_or("", |at| &line[at..])
}

/// Why `anchor` of the page at `path` cannot be cited. `None` if both exist.
fn missing(path: &Path, anchor: Option<&str>) -> Option<&'static str> {
    match anchor {
        _ if !path.exists() => Some("there is no such file"),
        Some(anchor) if path.is_file() && !anchors(path).iter().any(|known| known == anchor) => {
            Some("there is no such heading")
        }
        _ => None,
    }
}

#[test]
fn every_page_and_heading_that_is_cited_exists() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    let mut paths = files_of("docs", &["md"]);
    for page in ["README.md", "CONTRIBUTING.md", "SECURITY.md"] {
        paths.extend(Some(root().join(page)).filter(|path| path.exists()));
    }
    for folder in ["src", "tests", "benches"] {
        paths.extend(files_of(folder, &["rs", "sql", "py", "sh", "js", "mjs", "md"]));
    }
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let is_page = path.extension().is_some_and(|ending| ending == "md");
        let lines: Vec<(usize, &str)> = match is_page {
            true => prose(&text).collect(),
            false => text.lines().enumerate().map(|(number, line)| (number + 1, line)).collect(),
        };
        for (number, line) in lines {
            let (prose, targets) = match is_page {
                true => without_links(line),
                false => (comment(&path, line).to_owned(), Vec::new()),
            };
            let mut found = |cited: &str, what| {
                wrong.push(format!("{}:{number}: {cited}: {what}", name(&path)));
            };
            for target in targets {
                let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
                let is_here = file.is_empty() || (file.ends_with(".md") && !file.contains("://"));
                if is_here {
                    count += 1;
                    let to = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
                    missing(&to, anchor).into_iter().for_each(|what| found(target, what));
                }
            }
            for cited in pages(&prose) {
                let (file, anchor) = cited.split_once('#').map_or((cited, None), |(f, a)| (f, Some(a)));
                let folder = match file {
                    _ if OUTSIDE.contains(&file) => {
                        found(cited, "this page is not in the repository; cite docs/...");
                        continue;
                    }
                    _ if file.starts_with("docs/") => root(),
                    _ if file.starts_with("reference/") => root().join("docs"),
                    _ => continue,
                };
                count += 1;
                missing(&folder.join(file), anchor).into_iter().for_each(|what| found(cited, what));
            }
        }
    }
    assert!(wrong.is_empty(), "these are cited and do not exist:\n{}", wrong.join("\n"));
    assert!(count > 200, "{count} pages are cited");
}

#[test]
fn every_page_is_in_the_book() {
    let summary = root().join("docs/SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    let listed: Vec<PathBuf> = text
        .lines()
        .flat_map(|line| without_links(line).1)
        .map(|target| summary.parent().unwrap().join(target).canonicalize().unwrap())
        .collect();
    let pages = files_of("docs", &["md"]).into_iter().map(|page| page.canonicalize().unwrap());
    let missing: Vec<String> = pages
        .filter(|page| page.file_name() != summary.file_name() && !listed.contains(page))
        .map(|page| name(&page))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
    assert!(listed.len() > 50, "{} pages", listed.len());
}
