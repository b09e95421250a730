//! Finds skills in folders: a project's, and the user's own.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::file::{Beside, Names, is_skill_md, read, read_file, read_third_party, slashed, third_party_name};
use super::{Skill, SkillProblem, Trigger};
use crate::untrusted;

/// The maximum number of files that a search looks at.
const FILES_MAX: usize = 100_000;

/// The maximum depth of a search below a folder.
const DEPTH_MAX: usize = 16;

/// The skills of one or more folders.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Folder {
    /// The skills. [`Folder::take`] keeps the first skill of each name.
    pub skills: Vec<Skill>,
    /// The files that could not be read as skills.
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
        let mut found = Self::default();
        let mut own = Vec::new();
        for path in sorted(folder) {
            if let Some(skill_md) = skill_md(&path) {
                own.push(path);
                found.take(read_file(&skill_md, Some(folder), names));
            }
        }
        own.extend(skip);
        let mut files = Vec::new();
        markdown(folder, &own, 0, &mut files);
        files.sort();
        for file in files {
            found.take(read_file(&file, Some(folder), names));
        }
        // The reference's order: skills that are always on, those with a trigger, those with their own folder.
        let rank = |skill: &Skill| match (skill.is_agentskills_format, &skill.trigger) {
            (false, None) => 0,
            (false, Some(_)) => 1,
            (true, _) => 2,
        };
        found.skills.sort_by_key(rank);
        found
    }

    /// Reads the skills of a plugin: the folders and Markdown files directly in its folder `skills/`, in the order of
    /// their paths. Without such a folder, the plugin's folder itself may be a skill. Linked files are not read if they
    /// lie outside the plugin's folder.
    #[must_use]
    pub fn of_plugin(plugin: &Path) -> Self {
        let mut found = Self::default();
        let folder = plugin.join("skills");
        if fs::symlink_metadata(&folder).is_err() {
            if let Some(skill_md) = skill_md(plugin).filter(|path| lies_within(path, plugin)) {
                // The servers beside it belong to the plugin.
                found.take(read(&skill_md, None, Names::Loose, Beside::Leave));
            }
            return found;
        }
        let mut skills: Vec<Skill> = Vec::new();
        for path in sorted(&folder).into_iter().filter(|path| lies_within(path, plugin)) {
            let is_markdown = path.extension() == Some(OsStr::new("md")) && path.is_file();
            let is_read_me =
                path.file_name().is_some_and(|name| name.to_string_lossy().eq_ignore_ascii_case("readme.md"));
            let (file, beside) = match skill_md(&path) {
                Some(file) if lies_within(&path.join(".mcp.json"), plugin) => (file, Beside::Read),
                Some(file) => (file, Beside::Leave),
                None if is_markdown && !is_read_me => (path, Beside::Read),
                None => continue,
            };
            if !lies_within(&file, plugin) {
                continue;
            }
            match read(&file, Some(&folder), Names::Loose, beside) {
                Ok(skill) => skills.push(skill),
                Err(problem) => found.problems.push(problem),
            }
        }
        // Of several skills with the same name and kind, the last one is kept.
        let kind = |skill: &Skill| {
            (skill.is_agentskills_format, skill.trigger.is_some() && !skill.is_agentskills_format)
        };
        let is_last = |place: usize| {
            let skill = &skills[place];
            !skills[place + 1..].iter().any(|other| other.name == skill.name && kind(other) == kind(skill))
        };
        let last: Vec<bool> = (0..skills.len()).map(is_last).collect();
        found.skills =
            skills.into_iter().zip(last).filter_map(|(skill, is_last)| is_last.then_some(skill)).collect();
        found
    }

    /// Adds a skill unless one of its name is present. Adds a problem.
    pub fn take(&mut self, skill: Result<Skill, SkillProblem>) {
        match skill {
            Ok(skill) if self.skills.iter().any(|known| known.name == skill.name) => {}
            Ok(skill) => self.skills.push(skill),
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Adds the problems of another folder, and its skills whose names are not present.
    pub fn append(&mut self, other: Self) {
        other.skills.into_iter().for_each(|skill| self.take(Ok(skill)));
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
        for path in sorted(root).into_iter().filter(|path| path.is_file()) {
            let Some(skill) = third_party_name(&path).and_then(|_| read_third_party(&path)) else { continue };
            let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
            // `CLAUDE.md` may be a link to `AGENTS.md`.
            if names.insert(name) && real.insert(fs::canonicalize(&path).unwrap_or(path)) {
                found.take(skill);
            }
        }
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
    for entry in walk.flatten().take(FILES_MAX) {
        let path = entry.path();
        if entry.depth() < 2 || third_party_name(path).is_none() || !path.is_file() {
            continue;
        }
        let Some(folder) = path.parent().and_then(|folder| folder.strip_prefix(working_dir).ok()) else {
            continue;
        };
        rules.push((slashed(folder), path.to_owned()));
    }
    rules.sort();
    let mut real = HashSet::new();
    for (folder, path) in rules {
        if !real.insert(fs::canonicalize(&path).unwrap_or_else(|_| path.clone())) {
            continue;
        }
        match read_third_party(&path) {
            Some(Ok(skill)) => {
                let rule = Skill {
                    name: format!("{}:{folder}", skill.name),
                    trigger: Some(Trigger::Path(vec![format!("{folder}/**")])),
                    ..skill
                };
                found.take(Ok(rule.checked()));
            }
            Some(Err(problem)) => found.problems.push(problem),
            None => {}
        }
    }
}

/// Returns the path of a folder's `SKILL.md`.
fn skill_md(folder: &Path) -> Option<PathBuf> {
    if !folder.is_dir() {
        return None;
    }
    sorted(folder).into_iter().find(|path| is_skill_md(path) && path.is_file())
}

/// Returns the paths of a folder's entries, sorted. There are none if the folder cannot be read.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    untrusted::first_paths(folder, FILES_MAX, |_| true)
}

/// Collects the Markdown files below a folder, except `README.md`, `SKILL.md` and files in the folders `own`. Does not
/// enter linked folders.
fn markdown(folder: &Path, own: &[PathBuf], depth: usize, files: &mut Vec<PathBuf>) {
    if depth > DEPTH_MAX {
        return;
    }
    for path in sorted(folder) {
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        if is_folder && !own.contains(&path) {
            markdown(&path, own, depth + 1, files);
        }
        let is_markdown = path.extension() == Some(OsStr::new("md"));
        let is_read_me = path.file_name() == Some(OsStr::new("README.md"));
        if is_markdown && !is_read_me && !is_skill_md(&path) && path.is_file() && files.len() < FILES_MAX {
            files.push(path);
        }
    }
}
