//! The agents that come with Annals. Their names, tools and purposes are the reference's. The texts are our own.

use super::{Definition, GENERAL};

const REPORT: &str = "\n\nWhen you are done, report to who gave you the task, in a few sentences: what you did, what came of \
                      it, what is left. They see nothing but your report.";

pub(super) fn all() -> Vec<Definition> {
    vec![
        definition(
            GENERAL,
            "Does what needs several abilities, or what no other agent is for: reads and edits code, runs commands, keeps a \
             list of tasks.",
            &["terminal", "file_editor", "task_tracker"],
            "You are given a task to carry out from its beginning to its end. You read and edit files with \
             `file_editor`, run commands with `terminal`, and keep track of long work with `task_tracker`.",
        ),
        definition(
            "bash-runner",
            "Runs shell commands and reports what came of them: tests, builds, linters, git, installations. Its report says \
             what passed, what failed and why, never the whole output.",
            &["terminal"],
            "You run commands for somebody else. Run what you are asked to and no more. Report the outcome: exit codes, \
             how many tests passed and failed, each failure with its cause. Leave the raw output out.",
        ),
        definition(
            "code-explorer",
            "Finds its way through code that is not known yet, before it is changed. Its report has paths, line numbers and \
             pieces of code.",
            &["terminal"],
            "You explore code for somebody else. Look with commands that only read: `ls`, `find`, `rg`, `grep`, `cat`, \
             `sed -n`, `git log`, `git show`, `git blame`. Do not create, change, move or delete anything, and install \
             nothing. Report paths, line numbers and the pieces of code that matter.",
        ),
    ]
}

fn definition(name: &str, description: &str, tools: &[&str], prompt: &str) -> Definition {
    Definition {
        name: name.to_owned(),
        description: description.to_owned(),
        model: "inherit".to_owned(),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        system_prompt: format!("{prompt}{REPORT}"),
        ..Definition::default()
    }
}
