//! The classes of tools, and the names of the tools.

use std::borrow::Cow;

use super::{Action, Observation};

/// The classes of tools that SDK 1.58 knows.
const CLASSES: &[&str] = &[
    "ApplyPatchTool",
    "AskOracleTool",
    "BrowserClickTool",
    "BrowserCloseTabTool",
    "BrowserGetContentTool",
    "BrowserGetStateTool",
    "BrowserGetStorageTool",
    "BrowserGoBackTool",
    "BrowserListTabsTool",
    "BrowserNavigateTool",
    "BrowserScrollTool",
    "BrowserSetStorageTool",
    "BrowserStartRecordingTool",
    "BrowserStopRecordingTool",
    "BrowserSwitchTabTool",
    "BrowserToolSet",
    "BrowserTypeTool",
    "ClassifyAndSwitchLLMTool",
    "ClientTool",
    "EditTool",
    "FileEditorTool",
    "FinishTool",
    "GlobTool",
    "GrepTool",
    "InvokeSkillTool",
    "ListDirectoryTool",
    "MCPToolDefinition",
    "PlanningFileEditorTool",
    "ReadFileTool",
    "SleeptimeComputeTool",
    "StartChildConversationTool",
    "SwitchLLMTool",
    "TaskTool",
    "TaskToolSet",
    "TaskTrackerTool",
    "TerminalTool",
    "ThinkTool",
    "TomConsultTool",
    "VisionInspectTool",
    "WorkflowTool",
    "WorkflowToolSet",
    "WriteFileTool",
];

/// The classes of tools that earlier releases had and SDK 1.58 has not: `DelegateTool`, from 1.0 to 1.22.
const GONE: &[&str] = &["DelegateTool"];

/// Whether an agent's tool with this name, or of this class, is one that the reference had and has no more.
pub(crate) fn is_gone(tool: &str) -> bool {
    is_among(GONE, tool)
}

/// Whether a tool has one of these classes, by its own name or by the name of its class.
fn is_among(classes: &[&str], tool: &str) -> bool {
    classes.iter().any(|class| *class == tool || name_of(class) == tool)
}

/// The tools that an agent has beside those of the reference. A program that goes on with such an agent has their
/// classes, so it can load their actions and observations.
#[derive(Debug, Default)]
pub(crate) struct OwnTools(Vec<String>);

impl OwnTools {
    /// Finds them among the names of an agent's tools.
    pub(crate) fn among<'n>(names: impl Iterator<Item = Cow<'n, str>>) -> Self {
        let is_own = |name: &Cow<'_, str>| !is_among(CLASSES, name) && !is_gone(name);
        Self(names.filter(is_own).map(Cow::into_owned).collect())
    }

    /// Whether the tool that a model calls by this name is one of them. The tools of a set may have any name.
    pub(crate) fn has(&self, tool: &str) -> bool {
        let is_set = |name: &str| name_of(name).ends_with("set");
        let may_be_in_set = || !is_among(CLASSES, tool) && !is_gone(tool);
        self.0.iter().any(|name| name == tool || name_of(name) == tool || (is_set(name) && may_be_in_set()))
    }
}

/// Whether the reference knows this class.
pub(crate) fn knows(class: &str) -> bool {
    CLASSES.contains(&class)
}

/// The name of a tool of this class: the class in snake case without `_tool`, with two exceptions.
pub(crate) fn name_of(class: &str) -> Cow<'static, str> {
    match class {
        "ClassifyAndSwitchLLMTool" => Cow::Borrowed("route_task_to_model"),
        "VisionInspectTool" => Cow::Borrowed("inspect_image_with_vision"),
        _ => {
            let name = snake(class);
            Cow::Owned(name.strip_suffix("_tool").map_or(name.clone(), str::to_owned))
        }
    }
}

/// The class of the tool with this name. `None` unless the reference has it, with its own action and observation.
pub(crate) fn class_of(name: &str) -> Option<&'static str> {
    CLASSES.iter().copied().find(|class| name_of(class) == name && shapes_of(class).is_some())
}

/// The kinds of the action and the observation of a tool of this class, if it has its own.
pub(crate) fn shapes_of(class: &str) -> Option<(&'static str, &'static str)> {
    let stem = match class {
        "TomConsultTool" => "ConsultTom",
        _ => class.strip_suffix("Tool")?,
    };
    let answer = if stem.starts_with("Browser") { "Browser" } else { stem };
    let find = |kinds: &'static [&'static str], stem: &str, suffix: &str| {
        kinds.iter().copied().find(|kind| kind.strip_suffix(suffix) == Some(stem))
    };
    Some((find(Action::KINDS, stem, "Action")?, find(Observation::KINDS, answer, "Observation")?))
}

/// Converts a class name to snake case: `SwitchLLMTool` becomes `switch_llm_tool`.
fn snake(class: &str) -> String {
    let letters: Vec<char> = class.chars().collect();
    let mut name = String::with_capacity(class.len() + 8);
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(at + 1);
        let begins_word = letter.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase())
            });
        if begins_word {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_gives_the_name_of_its_tool() {
        for (class, name) in [
            ("TerminalTool", "terminal"),
            ("SwitchLLMTool", "switch_llm"),
            ("BrowserToolSet", "browser_tool_set"),
            ("TomConsultTool", "tom_consult"),
            ("VisionInspectTool", "inspect_image_with_vision"),
        ] {
            assert_eq!(name_of(class), name);
            assert!(knows(class));
        }
        assert!(!knows("DelegateTool"));
        assert_eq!(class_of("browser_click"), Some("BrowserClickTool"));
        assert_eq!(shapes_of("BrowserClickTool"), Some(("BrowserClickAction", "BrowserObservation")));
        assert_eq!(shapes_of("TomConsultTool"), Some(("ConsultTomAction", "ConsultTomObservation")));
        assert_eq!((class_of("fetch_fetch"), class_of("task_tool_set")), (None, None));
    }

    #[test]
    fn the_tools_of_an_agent_s_own_are_those_that_the_reference_never_had() {
        let own = |names: &[&'static str]| OwnTools::among(names.iter().map(|name| Cow::Borrowed(*name)));
        let one = own(&["terminal", "TerminalTool", "DelegateTool", "delegate", "WeighTool"]);
        assert_eq!(one.0, ["WeighTool"]);
        assert_eq!((one.has("weigh"), one.has("terminal"), one.has("lift")), (true, false, false));
        assert!(own(&["weigh"]).has("weigh"));
        for set in ["ScalesToolSet", "scales_toolset"] {
            let set = own(&[set]);
            assert_eq!((set.has("lift"), set.has("delegate"), set.has("glob")), (true, false, false));
        }
        assert!(!own(&["browser_tool_set"]).has("lift"));
    }
}
