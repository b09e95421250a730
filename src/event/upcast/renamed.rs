//! Gives an event another id, in the event and in all events that name it.
//!
//! The reference finds an event by its file name and accepts only ids of hex digits and dashes there. An event of
//! another program may have any id.

use crate::json::{Draft, Members, Raw};

/// Members whose text is the id of an event.
const ID_MEMBERS: [&str; 4] = ["id", "parent_id", "action_id", "message_id"];

/// Members of a base state whose text is the id of an event.
const BASE_STATE_MEMBERS: [&str; 2] = ["leaf_event_id", "last_user_message_id"];

/// The member that lists ids of events.
const LIST_MEMBER: &str = "forgotten_event_ids";

/// Members whose keys are ids of events.
const KEY_MEMBERS: [&str; 2] = ["risks", "details"];

/// The end of the id of a condensation's summary. The reference makes it from the condensation's id.
const SUMMARY: &str = "-summary";

/// Returns the event's text with other ids. `new_id` returns the new id of an event, and `None` if it keeps its id.
/// `None` if nothing changes.
pub(crate) fn renamed(event: &str, new_id: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut draft = Draft::Raw(Raw::parse(event).ok()?);
    let members = draft.object()?;
    let mut is_changed = set_ids(members, &ID_MEMBERS, new_id);
    if let Some(ids) = members.get_mut(LIST_MEMBER).and_then(Draft::array) {
        for id in ids {
            let of_summary = |id: &str| Some(new_id(id.strip_suffix(SUMMARY)?)? + SUMMARY);
            if let Some(new) = id.as_str().and_then(|id| of_summary(&id).or_else(|| new_id(&id))) {
                *id = Draft::text(new);
                is_changed = true;
            }
        }
    }
    for name in KEY_MEMBERS {
        if let Some(of_events) = members.object(name) {
            is_changed |= of_events.rename_all(new_id);
        }
    }
    is_changed.then(|| members.to_json())
}

/// Returns the base state's text with other ids of events. `None` if nothing changes.
pub(crate) fn renamed_in_base_state(
    document: &str,
    new_id: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let mut draft = Draft::Raw(Raw::parse(document).ok()?);
    let members = draft.object()?;
    set_ids(members, &BASE_STATE_MEMBERS, new_id).then(|| members.to_json())
}

/// Replaces the ids in the members with these names. Returns whether any was replaced.
fn set_ids(members: &mut Members<'_>, names: &[&str], new_id: &dyn Fn(&str) -> Option<String>) -> bool {
    let mut is_changed = false;
    for name in names {
        if let Some(new) = members.str(name).and_then(|id| new_id(&id)) {
            members.set_text(name, new);
            is_changed = true;
        }
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_renamed(event: &str, expected: Option<&str>) {
        let new_id = |id: &str| id.strip_prefix("line-").map(|number| format!("0{number}"));
        assert_eq!(renamed(event, &new_id).as_deref(), expected);
    }

    #[test]
    fn an_id_changes_wherever_an_event_names_it() {
        assert_renamed(
            r#"{"id":"line-2","parent_id":"line-1","action_id":"ab","n": 1.50,"text":"line-1"}"#,
            Some(r#"{"id":"02","parent_id":"01","action_id":"ab","n":1.50,"text":"line-1"}"#),
        );
        assert_renamed(
            r#"{"id":"ab","forgotten_event_ids":["line-1","cd","line-2-summary"],"parent_id":null}"#,
            Some(r#"{"id":"ab","forgotten_event_ids":["01","cd","02-summary"],"parent_id":null}"#),
        );
        assert_renamed(
            r#"{"id":"ab","risks":{"line-1":"HIGH","cd":"LOW"},"details":{"line-1":"line-1"}}"#,
            Some(r#"{"id":"ab","risks":{"01":"HIGH","cd":"LOW"},"details":{"01":"line-1"}}"#),
        );
    }

    #[test]
    fn an_event_without_such_ids_stays_as_it_is() {
        assert_renamed(r#"{"id":"ab","parent_id":null,"text":"line-1"}"#, None);
        assert_renamed("[]", None);
    }
}
