//! The state of a conversation under the seed's names: in memory, stored, loaded from a database or a folder.

use std::path::Path;

use annals::event::{Event, UserMessageEvent};
use annals::{ConversationState, Error, ExecutionStatus, Sequence};
use tempfile::tempdir;

use crate::support::folder::golden;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn appended_events_are_there_after_a_restart() {
    let folder = tempdir().unwrap();
    let mut state = ConversationState::persistent(folder.path(), "my-task-123").unwrap();
    assert_eq!(state.append_event(UserMessageEvent::new("Hello")).unwrap(), Sequence(0));
    assert_eq!(state.append_event(UserMessageEvent::new("Are you there?")).unwrap(), Sequence(1));
    state.save().unwrap();
    let before: Vec<Event> = state.events().to_vec();
    drop(state);

    let loaded = ConversationState::load(folder.path(), "my-task-123").unwrap();
    assert_eq!(loaded.events().to_vec(), before);
    assert_eq!(loaded.agent_execution_status(), ExecutionStatus::Idle);
    assert_eq!(before[0].common().parent_id.as_deref(), Some("__root__"));
    assert_eq!(before[1].common().parent_id.as_deref(), Some(before[0].id().as_str()));
    assert_eq!(loaded.events().by_id(before[1].id().as_str()), Some(&before[1]));
    assert_eq!(loaded.events().place("nobody"), None);
    assert_eq!(&loaded.events()[..1], &before[..1]);
}

#[test]
fn appending_twice_changes_nothing_and_another_event_with_the_same_id_is_rejected() {
    let folder = tempdir().unwrap();
    let stored = ConversationState::persistent(folder.path(), "twice").unwrap();
    for mut state in [ConversationState::new(), stored] {
        let event = Event::from(UserMessageEvent::new("Hello"));
        assert_eq!(state.append_event(event.clone()).unwrap(), Sequence(0));
        assert_eq!(state.append_event(event.clone()).unwrap(), Sequence(0));
        assert_eq!(state.append_event(state.events()[0].clone()).unwrap(), Sequence(0));
        let other = event.with_parent("elsewhere");
        assert!(matches!(state.append_event(other), Err(Error::DuplicateEvent { sequence: 0, .. })));
        let orphan = Event::from(UserMessageEvent::new("?")).with_parent("elsewhere");
        assert!(matches!(state.append_event(orphan), Err(Error::UnknownParent { .. })));
        assert_eq!(state.events().len(), 1);
    }
}

#[test]
fn a_stale_state_of_a_conversation_gets_a_conflict() {
    let folder = tempdir().unwrap();
    let mut first = ConversationState::persistent(folder.path(), "shared").unwrap();
    first.append_event(UserMessageEvent::new("one")).unwrap();
    let mut second = ConversationState::load(folder.path(), "shared").unwrap();
    second.append_event(UserMessageEvent::new("two")).unwrap();
    let error = first.append_event(UserMessageEvent::new("three")).unwrap_err();
    assert!(matches!(error, Error::Conflict { actual: 2, .. }), "{error}");
    assert_eq!(first.events().len(), 1);
}

#[test]
fn a_folder_of_the_sdk_loads_with_its_metrics_and_tasks() {
    let folder = tempdir().unwrap();
    copy(&golden("conversations/coding-task"), &folder.path().join("5610a708170e58dabb0833350f7cdc03"));
    let id = "5610a708-170e-58da-bb08-33350f7cdc03";
    let state = ConversationState::load(folder.path(), id).unwrap();
    assert_eq!(state.events().len(), 36);
    assert_eq!(state.agent_execution_status(), ExecutionStatus::Finished);
    assert_eq!(state.iteration(), 11);
    assert_eq!(state.metrics().input_tokens, 82_683);
    assert!(state.metrics().llm_call_count >= 11);
    let tasks = state.task_list();
    assert_eq!(tasks.len(), 3);
    assert!(tasks.iter().all(|task| task.done));
    assert_eq!(ConversationState::load(folder.path(), id).unwrap().events().len(), 36);

    // Appending the events one by one gives the same state as the load.
    let mut again = ConversationState::new();
    for event in state.events().iter() {
        again.append_event(event.clone()).unwrap();
    }
    assert_eq!(again.agent_execution_status(), state.agent_execution_status());
    assert_eq!(again.iteration(), state.iteration());
    assert_eq!(again.conversation_history().count(), state.conversation_history().count());
}

#[test]
fn a_folder_of_the_seed_loads() {
    let folder = tempdir().unwrap();
    let events = folder.path().join("my-task-123/events");
    std::fs::create_dir_all(&events).unwrap();
    let hello =
        r#"{"id":"u1","timestamp":"2026-01-01T00:00:00","kind":"user_message","content":"Hello, agent!"}"#;
    std::fs::write(events.join("0001_user_message.json"), hello).unwrap();
    let state = ConversationState::load(folder.path(), "my-task-123").unwrap();
    let Event::Message(message) = &state.events()[0] else { panic!("{:?}", state.events()) };
    assert_eq!(UserMessageEvent::from(&**message).content, "Hello, agent!");
}

#[test]
fn a_missing_conversation_cannot_be_loaded() {
    let folder = tempdir().unwrap();
    let error = ConversationState::load(folder.path(), "nothing").unwrap_err();
    assert!(matches!(error, Error::UnknownConversation { .. }), "{error}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "a failed load makes no file");
}
