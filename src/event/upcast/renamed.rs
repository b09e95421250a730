//! Gives an event another id, in the event and in all events that name it.
//!
//! The reference finds an event by its file name and accepts only ids of hex digits and dashes there. An event of
//! another program may have any id.

use std::borrow::Cow;

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

/// Returns the new id of the event that a text names, and `None` if that keeps its id or if the text names no event.
pub(crate) type NewId<'a, E> = &'a dyn Fn(&str) -> Result<Option<String>, E>;

/// Returns the event's text with other ids. `None` if nothing changes.
///
/// # Errors
/// The first error of `new_id`.
pub(crate) fn renamed<E>(event: &str, new_id: NewId<'_, E>) -> Result<Option<String>, E> {
    let Ok(event) = Raw::parse(event) else { return Ok(None) };
    let mut draft = Draft::Raw(event);
    let Some(members) = draft.object() else { return Ok(None) };
    let mut is_changed = set_ids(members, &ID_MEMBERS, new_id)?;
    if let Some(ids) = members.get_mut(LIST_MEMBER).and_then(Draft::array) {
        for id in ids {
            let new_of = |named: Cow<'_, str>| match (new_id(&named)?, named.strip_suffix(SUMMARY)) {
                (None, Some(condensation)) => Ok(new_id(condensation)?.map(|new| new + SUMMARY)),
                (new, _) => Ok(new),
            };
            if let Some(new) = id.as_str().map(new_of).transpose()?.flatten() {
                *id = Draft::text(new);
                is_changed = true;
            }
        }
    }
    for name in KEY_MEMBERS {
        if let Some(of_events) = members.object(name) {
            is_changed |= of_events.rename_all(new_id)?;
        }
    }
    Ok(is_changed.then(|| members.to_json()))
}

/// Returns the base state's text with other ids of events. `None` if nothing changes.
///
/// # Errors
/// The first error of `new_id`.
pub(crate) fn renamed_in_base_state<E>(document: &str, new_id: NewId<'_, E>) -> Result<Option<String>, E> {
    let Ok(document) = Raw::parse(document) else { return Ok(None) };
    let mut draft = Draft::Raw(document);
    let Some(members) = draft.object() else { return Ok(None) };
    Ok(set_ids(members, &BASE_STATE_MEMBERS, new_id)?.then(|| members.to_json()))
}

/// Replaces the ids in the members with these names. Returns whether any was replaced.
fn set_ids<E>(members: &mut Members<'_>, names: &[&str], new_id: NewId<'_, E>) -> Result<bool, E> {
    let mut is_changed = false;
    for name in names {
        if let Some(new) = members.str(name).map(|id| new_id(&id)).transpose()?.flatten() {
            members.set_text(name, new);
            is_changed = true;
        }
    }
    Ok(is_changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_renamed(event: &str, expected: Option<&str>) {
        let named = |id: &str| {
            let number =
                id.strip_prefix("line-").filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
            Ok::<_, std::convert::Infallible>(number.map(|number| format!("0{number}")))
        };
        let Ok(renamed) = renamed(event, &named);
        assert_eq!(renamed.as_deref(), expected);
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
        assert_renamed(r#"{"id":"ab","forgotten_event_ids":["cd-summary","line-summary"]}"#, None);
        assert_renamed("[]", None);
    }
}
