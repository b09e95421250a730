//! Finds skills in folders: a project's, and the user's own.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::file::{Beside, Names, is_skill_md, read, read_file, read_third_party, slashed, third_party_name};
use super::{Skill, SkillProblem, Trigger};
use crate::untrusted::{self, LeftOut};

/// The maximum number of entries of folders that a search looks at.
const FILES_MAX: usize = 100_000;

/// The maximum number of files that a search reads as skills.
const SKILLS_MAX: usize = 1000;

/// The maximum depth of a search below a folder.
const DEPTH_MAX: usize = 16;

/// The skills of one or more folders.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Folder {
    /// The skills. [`Folder::take_all`] keeps the first skill of each name.
    pub skills: Vec<Skill>,
    /// The files that could not be read as skills, and the folders of which a part was left out.
    pub problems: Vec<SkillProblem>,
}

impl Folder {
    /// Reads a folder: its subfolders with a `SKILL.md`, and the other Markdown files at any depth outside of these.
    #[must_use]
    pub fn read(folder: &Path, names: Names) -> Self {
        Self::read_except(folder, names, None)
    }

    /// Does the same as [`Folder::read`], without the Markdown files in the folder `skip`.
    fn read_except(folder: &Path, names: Names, skip: Option<PathBuf>) -> Self {
        let (mut found, mut search) = (Self::default(), Search::new());
        let (mut own, mut files) = (HashSet::new(), Vec::new());
        for path in search.first(folder, FILES_MAX, Path::is_dir) {
            if let Some(skill_md) = search.skill_md(&path) {
                own.insert(path);
                files.push(skill_md);
            }
        }
        own.extend(skip);
        let mut markdown = Vec::new();
        search.markdown(folder, &own, 0, &mut markdown);
        markdown.sort();
        files.append(&mut markdown);
        search.cut(folder, &mut files);
        found.take_all(files.iter().map(|file| read_file(file, Some(folder), names)));
        // The reference's order: skills that are always on, those with a trigger, those with their own folder.
        let rank = |skill: &Skill| match (skill.is_agentskills_format, &skill.trigger) {
            (false, None) => 0,
            (false, Some(_)) => 1,
            (true, _) => 2,
        };
        found.skills.sort_by_key(rank);
        found.problems.extend(search.problems);
        found
    }

    /// Reads the skills of a plugin: the folders and Markdown files directly in its folder `skills/`, in the order of
    /// their paths. Without such a folder, the plugin's folder itself may be a skill. Linked files are not read if they
    /// lie outside the plugin's folder.
    #[must_use]
    pub fn of_plugin(plugin: &Path) -> Self {
        let (mut found, mut search) = (Self::default(), Search::new());
        let folder = plugin.join("skills");
        if fs::symlink_metadata(&folder).is_err() {
            if let Some(skill_md) = search.skill_md(plugin).filter(|path| lies_within(path, plugin)) {
                // The servers beside it belong to the plugin.
                found.take_all([read(&skill_md, None, Names::Loose, Beside::Leave)]);
            }
            found.problems.extend(search.problems);
            return found;
        }
        let is_markdown = |path: &Path| {
            let is_read_me =
                path.file_name().is_some_and(|name| name.to_string_lossy().eq_ignore_ascii_case("readme.md"));
            path.extension() == Some(OsStr::new("md")) && !is_read_me && path.is_file()
        };
        let is_wanted = |path: &Path| (path.is_dir() || is_markdown(path)) && lies_within(path, plugin);
        let mut files = Vec::new();
        for path in search.first(&folder, FILES_MAX, is_wanted) {
            let (file, beside) = match search.skill_md(&path) {
                Some(file) if lies_within(&path.join(".mcp.json"), plugin) => (file, Beside::Read),
                Some(file) => (file, Beside::Leave),
                None if is_markdown(&path) => (path, Beside::Read),
                None => continue,
            };
            if lies_within(&file, plugin) {
                files.push((file, beside));
            }
        }
        search.cut(&folder, &mut files);
        let mut skills: Vec<Skill> = Vec::new();
        for (file, beside) in files {
            match read(&file, Some(&folder), Names::Loose, beside) {
                Ok(skill) => skills.push(skill),
                Err(problem) => found.problems.push(problem),
            }
        }
        // Of several skills with the same name and kind, the last one is kept.
        let kind = |skill: &Skill| {
            (skill.is_agentskills_format, skill.trigger.is_some() && !skill.is_agentskills_format)
        };
        let mut later = HashSet::new();
        let last = skills.into_iter().rev().filter(|skill| later.insert((skill.name.clone(), kind(skill))));
        found.skills = last.collect();
        found.skills.reverse();
        found.problems.extend(search.problems);
        found
    }

    /// Adds the skills whose names are not present, and the problems.
    pub fn take_all(&mut self, skills: impl IntoIterator<Item = Result<Skill, SkillProblem>>) {
        let mut names: HashSet<String> = self.skills.iter().map(|skill| skill.name.clone()).collect();
        for skill in skills {
            match skill {
                Ok(skill) if !names.insert(skill.name.clone()) => {}
                Ok(skill) => self.skills.push(skill),
                Err(problem) => self.problems.push(problem),
            }
        }
    }

    /// Adds the problems of another folder, and its skills whose names are not present.
    pub fn append(&mut self, other: Self) {
        self.take_all(other.skills.into_iter().map(Ok));
        self.problems.extend(other.problems);
    }
}

/// Finds the skills of a project: instruction files of other programs, and the skills in the folders `.agents/skills`,
/// `.openhands/skills` and `.openhands/microagents`. An instruction file in a subfolder is a rule for the files of that
/// subfolder. Skills of `working_dir` take precedence over those at the root of its Git repository.
#[must_use]
pub fn project(working_dir: &Path) -> Folder {
    let mut roots = vec![working_dir.to_owned()];
    let root = working_dir.ancestors().find(|folder| folder.join(".git").exists());
    roots.extend(root.filter(|root| *root != working_dir).map(Path::to_owned));
    let mut found = Folder::default();
    for root in &roots {
        let (mut names, mut real) = (HashSet::new(), HashSet::new());
        let mut search = Search::new();
        let is_wanted = |path: &Path| third_party_name(path).is_some() && path.is_file();
        found.take_all(search.first(root, FILES_MAX, is_wanted).into_iter().filter_map(|path| {
            let skill = read_third_party(&path)?;
            let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
            // `CLAUDE.md` may be a link to `AGENTS.md`.
            let is_new = names.insert(name) && real.insert(fs::canonicalize(&path).unwrap_or(path));
            is_new.then_some(skill)
        }));
        found.problems.extend(search.problems);
    }
    nested(working_dir, &mut found);
    for root in &roots {
        for folder in [".agents/skills", ".openhands/skills", ".openhands/microagents"] {
            found.append(Folder::read(&root.join(folder), Names::Strict));
        }
    }
    found
}

/// Finds the user's skills below the home folder, except installed ones.
#[must_use]
pub fn user(home: &Path) -> Folder {
    let mut found = Folder::default();
    // Installed skills are enabled and disabled elsewhere.
    let installed = fs::canonicalize(home.join(".openhands/skills/installed")).ok();
    for folder in [".agents/skills", ".openhands/skills", ".openhands/microagents"] {
        let folder = home.join(folder);
        let real = fs::canonicalize(&folder).ok();
        let inner = installed
            .as_ref()
            .zip(real)
            .and_then(|(installed, real)| Some(folder.join(installed.strip_prefix(real).ok()?)));
        found.append(Folder::read_except(&folder, Names::Strict, inner));
    }
    found
}

/// Returns whether a path lies in a folder after links are followed.
fn lies_within(path: &Path, folder: &Path) -> bool {
    match (fs::canonicalize(path), fs::canonicalize(folder)) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Adds the instruction files of other programs in subfolders of the workspace, as rules for the files of these
/// subfolders.
fn nested(working_dir: &Path, found: &mut Folder) {
    if !untrusted::may_be_walked(working_dir) {
        return;
    }
    let walk = ignore::WalkBuilder::new(working_dir)
        .hidden(false)
        .parents(working_dir.ancestors().all(untrusted::may_be_walked))
        .filter_entry(|entry| {
            let name = entry.file_name();
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_wanted = name != OsStr::new(".git") && name != OsStr::new("node_modules");
            !is_folder || (is_wanted && untrusted::may_be_walked(entry.path()))
        })
        .build();
    let mut rules = Vec::new();
    let mut entries = walk.flatten();
    for entry in entries.by_ref().take(FILES_MAX) {
        let path = entry.path();
        if entry.depth() < 2 || third_party_name(path).is_none() || !path.is_file() {
            continue;
        }
        let Some(folder) = path.parent().and_then(|folder| folder.strip_prefix(working_dir).ok()) else {
            continue;
        };
        rules.push((slashed(folder), path.to_owned()));
    }
    if entries.next().is_some() {
        found.problems.push(ended_early(working_dir));
    }
    rules.sort();
    let mut real = HashSet::new();
    rules.retain(|(_, path)| real.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    if rules.len() > SKILLS_MAX {
        rules.truncate(SKILLS_MAX);
        found.problems.push(too_many(working_dir));
    }
    found.take_all(rules.into_iter().filter_map(|(folder, path)| {
        let rule = |skill: Skill| Skill {
            name: format!("{}:{folder}", skill.name),
            trigger: Some(Trigger::Path(vec![format!("{folder}/**")])),
            ..skill
        };
        Some(read_third_party(&path)?.map(|skill| rule(skill).checked()))
    }));
}

/// Returns the problem that a search ended at a folder.
fn ended_early(folder: &Path) -> SkillProblem {
    let reason = format!("a search looks at {FILES_MAX} entries and ended here: the others were left out");
    SkillProblem { path: slashed(folder), reason }
}

/// Returns the problem that a folder has more skills than a search reads.
fn too_many(folder: &Path) -> SkillProblem {
    SkillProblem { path: slashed(folder), reason: LeftOut::Beyond(SKILLS_MAX).to_string() }
}

/// A search through folders. It looks at a limited number of entries of all of them together.
struct Search {
    entries_left: usize,
    /// Whether it has ended early.
    is_over: bool,
    /// The folders of which a part was left out.
    problems: Vec<SkillProblem>,
}

impl Search {
    fn new() -> Self {
        Self { entries_left: FILES_MAX, is_over: false, problems: Vec::new() }
    }

    /// Returns the first paths of a folder's entries that `is_wanted` accepts, sorted. There are none if the search has
    /// ended early.
    fn first(&mut self, folder: &Path, paths_max: usize, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        if self.is_over {
            return Vec::new();
        }
        let first = untrusted::first_paths_within(&mut self.entries_left, folder, paths_max, is_wanted);
        match first.left_out {
            Some(LeftOut::Unread) => {
                self.is_over = true;
                self.problems.push(ended_early(folder));
            }
            Some(failed @ LeftOut::Failed(_)) => {
                let problem = SkillProblem { path: slashed(folder), reason: failed.to_string() };
                // A folder is looked at several times.
                if self.problems.len() < SKILLS_MAX && !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
            // The caller wants no more than these.
            Some(LeftOut::Beyond(_)) | None => {}
        }
        first.paths
    }

    /// Cuts the files of a folder's skills to the number that a search reads.
    fn cut<T>(&mut self, folder: &Path, files: &mut Vec<T>) {
        if files.len() > SKILLS_MAX {
            files.truncate(SKILLS_MAX);
            self.problems.push(too_many(folder));
        }
    }

    /// Returns the path of a folder's `SKILL.md`. Of several spellings, the first in order is returned.
    fn skill_md(&mut self, folder: &Path) -> Option<PathBuf> {
        if !folder.is_dir() {
            return None;
        }
        self.first(folder, 1, |path| is_skill_md(path) && path.is_file()).pop()
    }

    /// Collects the Markdown files below a folder, except `README.md`, `SKILL.md` and files in the folders `own`. Does
    /// not enter linked folders.
    fn markdown(&mut self, folder: &Path, own: &HashSet<PathBuf>, depth: usize, files: &mut Vec<PathBuf>) {
        if depth > DEPTH_MAX {
            return;
        }
        let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
        let is_markdown = |path: &Path| {
            let is_read_me = path.file_name() == Some(OsStr::new("README.md"));
            path.extension() == Some(OsStr::new("md")) && !is_read_me && !is_skill_md(path) && path.is_file()
        };
        for path in self.first(folder, FILES_MAX, |path| is_markdown(path) || is_folder(path)) {
            if !is_folder(&path) {
                files.push(path);
            } else if !own.contains(&path) {
                self.markdown(&path, own, depth + 1, files);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_search_ends_at_its_bound_and_says_where() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        for name in ["a/1.md", "a/2.md", "b/3.md", "b/4.md", "b/5.md"] {
            write(&folder.join(name), "Text.");
        }
        let collected = |entries_left: usize| {
            let (mut search, mut files) = (Search { entries_left, ..Search::new() }, Vec::new());
            search.markdown(folder, &HashSet::new(), 0, &mut files);
            (files.len(), search.problems)
        };
        assert_eq!(collected(7), (5, Vec::new()));
        assert_eq!(collected(6), (4, vec![ended_early(&folder.join("b"))]));
        assert_eq!(collected(3), (1, vec![ended_early(&folder.join("a"))]), "b is not looked at any more");
    }

    #[test]
    fn a_folder_with_too_many_names_for_its_skill_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("s");
        (0..10).for_each(|number| write(&folder.join(number.to_string()), ""));
        let mut search = Search { entries_left: 5, ..Search::new() };
        assert_eq!(search.skill_md(&folder), None);
        assert_eq!(search.problems, [ended_early(&folder)]);
    }

    #[test]
    fn of_too_many_skills_the_first_are_read_and_the_rest_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("skills");
        for number in 0..SKILLS_MAX {
            write(&folder.join(format!("s{number:04}/SKILL.md")), "Text.");
        }
        // A folder that is a skill has no others in it.
        write(&folder.join("s0000/inner.md"), "Text.");
        let all = [Folder::read(&folder, Names::Strict), Folder::of_plugin(scratch.path())];
        for found in all {
            assert_eq!((found.skills.len(), found.problems), (SKILLS_MAX, Vec::new()));
        }
        write(&folder.join("t.md"), "Text.");
        write(&folder.join("t/SKILL.md"), "Text.");
        for found in [Folder::read(&folder, Names::Strict), Folder::of_plugin(scratch.path())] {
            let last = found.skills.iter().map(|skill| skill.name.as_str()).max();
            assert_eq!((found.skills.len(), last), (SKILLS_MAX, Some("s0999")));
            assert_eq!(found.problems, [too_many(&folder)]);
        }
    }

    #[test]
    fn of_several_skills_with_one_name_the_first_is_kept_and_of_a_plugin_the_last() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("skills");
        for (name, text) in [("a", "First."), ("b", "Second."), ("c", "Third.")] {
            write(&folder.join(format!("{name}.md")), &format!("---\nname: same\n---\n{text}"));
        }
        let contents = |found: Folder| {
            found.skills.into_iter().map(|skill| skill.content.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(contents(Folder::read(&folder, Names::Strict)), ["First."]);
        assert_eq!(contents(Folder::of_plugin(scratch.path())), ["Third."]);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_cannot_be_listed_is_reported_once_and_does_not_end_the_search() {
        let scratch = tempfile::tempdir().unwrap();
        let looped = scratch.path().join("a");
        std::os::unix::fs::symlink(&looped, &looped).unwrap();
        write(&scratch.path().join("b.md"), "Text.");
        let mut search = Search::new();
        assert!(
            search.first(&looped, 1, |_| true).is_empty() && search.first(&looped, 2, |_| true).is_empty()
        );
        assert_eq!(search.first(scratch.path(), 10, |path| path.is_file()).len(), 1);
        let [problem] = &search.problems[..] else { panic!("{:?}", search.problems) };
        assert_eq!(problem.path, slashed(&looped));
    }
}
