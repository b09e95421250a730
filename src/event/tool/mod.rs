//! The built-in actions and observations of agents. Each family of tools has its own file.
//!
//! These are only types of data. Nothing here runs a tool. The kinds are those that SDK 1.58 knows after all of its own
//! tools are loaded (`docs/reference/fields.md#actions`).

mod browser;
pub(crate) mod catalogue;
mod delegation;
mod editor;
mod files;
pub(crate) mod mcp;
mod models;
mod search;
mod terminal;
mod thought;

use std::borrow::Cow;

pub use browser::*;
pub use delegation::*;
pub use editor::*;
pub use files::*;
pub use mcp::{ClientToolObservation, MCPToolAction, MCPToolObservation};
pub use models::*;
pub use search::*;
pub use terminal::*;
pub use thought::*;

use super::decode::{DecodeError, Mismatch};
use super::message::Content;
use super::model::{Field, Reading, kinds};
use crate::json::{Members, Raw};

kinds! {
    /// A checked tool call: what the tool must do.
    Action, "action" {
        /// Runs a command, or types into one that is running.
        Terminal(TerminalAction) = "TerminalAction",
        /// Views or changes a file.
        FileEditor(FileEditorAction) = "FileEditorAction",
        /// Views a file or changes the plan.
        PlanningFileEditor(PlanningFileEditorAction) = "PlanningFileEditorAction",
        /// Thinks.
        Think(ThinkAction) = "ThinkAction",
        /// Finishes the work.
        Finish(FinishAction) = "FinishAction",
        /// Shows or replaces the task list.
        TaskTracker(TaskTrackerAction) = "TaskTrackerAction",
        /// Invokes a skill.
        InvokeSkill(InvokeSkillAction) = "InvokeSkillAction",
        /// Calls a server's tool.
        Mcp(MCPToolAction) = "MCPToolAction",
        /// Reads a file.
        ReadFile(ReadFileAction) = "ReadFileAction",
        /// Writes a file.
        WriteFile(WriteFileAction) = "WriteFileAction",
        /// Replaces a text in a file.
        Edit(EditAction) = "EditAction",
        /// Lists a folder.
        ListDirectory(ListDirectoryAction) = "ListDirectoryAction",
        /// Applies a patch to several files.
        ApplyPatch(ApplyPatchAction) = "ApplyPatchAction",
        /// Finds files by name.
        Glob(GlobAction) = "GlobAction",
        /// Finds files by content.
        Grep(GrepAction) = "GrepAction",
        /// A browser action without members.
        Browser(BrowserAction) = "BrowserAction",
        /// Goes to a page.
        BrowserNavigate(BrowserNavigateAction) = "BrowserNavigateAction",
        /// Clicks on an element.
        BrowserClick(BrowserClickAction) = "BrowserClickAction",
        /// Types into an element.
        BrowserType(BrowserTypeAction) = "BrowserTypeAction",
        /// Asks what is on the page.
        BrowserGetState(BrowserGetStateAction) = "BrowserGetStateAction",
        /// Asks for the page's text.
        BrowserGetContent(BrowserGetContentAction) = "BrowserGetContentAction",
        /// Scrolls.
        BrowserScroll(BrowserScrollAction) = "BrowserScrollAction",
        /// Goes back.
        BrowserGoBack(BrowserGoBackAction) = "BrowserGoBackAction",
        /// Asks for the tabs.
        BrowserListTabs(BrowserListTabsAction) = "BrowserListTabsAction",
        /// Goes to another tab.
        BrowserSwitchTab(BrowserSwitchTabAction) = "BrowserSwitchTabAction",
        /// Closes a tab.
        BrowserCloseTab(BrowserCloseTabAction) = "BrowserCloseTabAction",
        /// Asks for cookies and local storage.
        BrowserGetStorage(BrowserGetStorageAction) = "BrowserGetStorageAction",
        /// Sets cookies and local storage.
        BrowserSetStorage(BrowserSetStorageAction) = "BrowserSetStorageAction",
        /// Starts a recording.
        BrowserStartRecording(BrowserStartRecordingAction) = "BrowserStartRecordingAction",
        /// Stops the recording.
        BrowserStopRecording(BrowserStopRecordingAction) = "BrowserStopRecordingAction",
        /// Gives a sub-agent a task.
        Task(TaskAction) = "TaskAction",
        /// Makes sub-agents or gives them work.
        Delegate(DelegateAction) = "DelegateAction",
        /// Starts a child conversation.
        StartChildConversation(StartChildConversationAction) = "StartChildConversationAction",
        /// Runs a script that controls sub-agents.
        Workflow(WorkflowAction) = "WorkflowAction",
        /// Asks a stronger model.
        AskOracle(AskOracleAction) = "AskOracleAction",
        /// Switches to another model.
        SwitchLlm(SwitchLLMAction) = "SwitchLLMAction",
        /// Classifies the task and switches to the model for its class.
        ClassifyAndSwitchLlm(ClassifyAndSwitchLLMAction) = "ClassifyAndSwitchLLMAction",
        /// Asks a vision model about a picture.
        VisionInspect(VisionInspectAction) = "VisionInspectAction",
        /// Asks for guidance about the person.
        ConsultTom(ConsultTomAction) = "ConsultTomAction",
        /// Analyzes past conversations.
        SleeptimeCompute(SleeptimeComputeAction) = "SleeptimeComputeAction",
    }
}

kinds! {
    /// What a tool answered.
    Observation, "observation" {
        /// What a command printed.
        Terminal(TerminalObservation) = "TerminalObservation",
        /// What happened to the file.
        FileEditor(FileEditorObservation) = "FileEditorObservation",
        /// What happened to the file or the plan.
        PlanningFileEditor(PlanningFileEditorObservation) = "PlanningFileEditorObservation",
        /// The thought was logged.
        Think(ThinkObservation) = "ThinkObservation",
        /// The work is finished.
        Finish(FinishObservation) = "FinishObservation",
        /// The task list.
        TaskTracker(TaskTrackerObservation) = "TaskTrackerObservation",
        /// The content of the skill.
        InvokeSkill(InvokeSkillObservation) = "InvokeSkillObservation",
        /// What the server's tool answered.
        Mcp(MCPToolObservation) = "MCPToolObservation",
        /// The client was notified of the call. It does the work.
        Client(ClientToolObservation) = "ClientToolObservation",
        /// A file's text.
        ReadFile(ReadFileObservation) = "ReadFileObservation",
        /// What happened to the file.
        WriteFile(WriteFileObservation) = "WriteFileObservation",
        /// What happened to the file.
        Edit(EditObservation) = "EditObservation",
        /// What is in a folder.
        ListDirectory(ListDirectoryObservation) = "ListDirectoryObservation",
        /// What happened to a patch.
        ApplyPatch(ApplyPatchObservation) = "ApplyPatchObservation",
        /// Files that were found by name.
        Glob(GlobObservation) = "GlobObservation",
        /// Files that were found by content.
        Grep(GrepObservation) = "GrepObservation",
        /// What the browser shows.
        Browser(BrowserObservation) = "BrowserObservation",
        /// What the sub-agent answered.
        Task(TaskObservation) = "TaskObservation",
        /// What the sub-agents answered.
        Delegate(DelegateObservation) = "DelegateObservation",
        /// The child conversation that was started.
        StartChildConversation(StartChildConversationObservation) = "StartChildConversationObservation",
        /// How the script ended.
        Workflow(WorkflowObservation) = "WorkflowObservation",
        /// What the stronger model answered.
        AskOracle(AskOracleObservation) = "AskOracleObservation",
        /// The model that is now active.
        SwitchLlm(SwitchLLMObservation) = "SwitchLLMObservation",
        /// The model that was chosen.
        ClassifyAndSwitchLlm(ClassifyAndSwitchLLMObservation) = "ClassifyAndSwitchLLMObservation",
        /// The vision model's answer.
        VisionInspect(VisionInspectObservation) = "VisionInspectObservation",
        /// Guidance about the person.
        ConsultTom(ConsultTomObservation) = "ConsultTomObservation",
        /// The result of the analysis.
        SleeptimeCompute(SleeptimeComputeObservation) = "SleeptimeComputeObservation",
    }
}

impl Observation {
    /// The tool's content, before it is prepared for a model, and whether the tool failed.
    #[must_use]
    pub fn content(&self) -> (Cow<'_, [Content]>, bool) {
        match self {
            Self::Terminal(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::FileEditor(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::PlanningFileEditor(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Think(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Finish(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::TaskTracker(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::InvokeSkill(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Mcp(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Client(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::ReadFile(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::WriteFile(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Edit(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::ListDirectory(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::ApplyPatch(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Glob(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Grep(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Browser(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Task(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Delegate(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::StartChildConversation(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Workflow(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::AskOracle(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::SwitchLlm(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::ClassifyAndSwitchLlm(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::VisionInspect(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::ConsultTom(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::SleeptimeCompute(inner) => (Cow::Borrowed(&inner.content), inner.is_error),
            Self::Unknown(unknown) => {
                let raw = unknown.json().raw();
                let reading = Reading { unfamiliar: super::decode::Unfamiliar::Keep };
                let content = raw.get("content").and_then(|content| Vec::read(content, reading).ok());
                let is_error = raw.get("is_error").and_then(|flag| bool::read(flag, reading).ok());
                let mut content = content.unwrap_or_default();
                // Its class made the text from its members when the model asked.
                if content.is_empty() {
                    content.extend(beside_content(Members::of(raw)).map(Content::text));
                }
                (Cow::Owned(content), is_error.unwrap_or_default())
            }
        }
    }

    /// All of its text parts, joined without a separator.
    #[must_use]
    pub fn text(&self) -> String {
        self.content().0.iter().filter_map(Content::as_text).collect()
    }
}

/// Returns the members of an observation that its class could render, as JSON text. `None` if it has only what every observation
/// has, and for an observation of another program (`codex:shell`), whose content is what the model read.
pub(crate) fn beside_content(mut observation: Members<'_>) -> Option<String> {
    let has_class = observation.str("kind").is_some_and(|kind| !kind.contains(':'));
    observation.retain(|name| !matches!(name, "content" | "is_error" | "kind"));
    let others = observation.to_json();
    (has_class && others != "{}").then_some(others)
}

/// Reads a number that must be 0 or more.
fn at_least_zero(raw: Raw<'_>, reading: Reading) -> Result<Option<f64>, DecodeError> {
    match Option::<f64>::read(raw, reading)? {
        Some(number) if number.is_nan() || number < 0.0 => {
            Err(DecodeError::new(Mismatch::Bounds { bounds: "0 or more" }))
        }
        number => Ok(number),
    }
}

/// Reads a whole number that must be 1 or more.
fn at_least_one(raw: Raw<'_>, reading: Reading) -> Result<Option<u64>, DecodeError> {
    match Option::<u64>::read(raw, reading)? {
        Some(0) => Err(DecodeError::new(Mismatch::Bounds { bounds: "1 or more" })),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_beside_the_content_are_text_unless_another_program_made_them() {
        for (observation, text) in [
            (r#"{"kind":"Weighed","content":[],"is_error":false,"ox":2.0}"#, Some(r#"{"ox":2.0}"#)),
            (r#"{"kind":"Weighed","content":[],"is_error":false}"#, None),
            (r#"{"kind":"codex:shell","content":[],"exit_code":1}"#, None),
            (r#"{"content":[],"ox":2.0}"#, None),
        ] {
            assert_eq!(
                beside_content(Members::of(Raw::parse(observation).unwrap())).as_deref(),
                text,
                "{observation}"
            );
        }
    }
}
