//! Time travel: state, view and messages as of a point, differences, and a HEAD that was moved by hand.

use annals::event::{Event, UserMessageEvent};
use annals::replay::{Difference, Memory, Moment, Point};
use annals::state::FieldChange;
use annals::store::{BaseStateChange, Leaf};
use annals::transfer::{ImportOptions, Importer};
use annals::{ConversationId, Error, EventId, ExecutionStatus, Expected, NewEvent, Sequence, Store};

use crate::support::Scratch;
use crate::support::folder::golden;

fn imported(scratch: &Scratch, name: &str) -> (Store, ConversationId) {
    let store = scratch.open_without_projector();
    let reports = Importer::new(&store, ImportOptions::default())
        .import(&golden(&format!("conversations/{name}")), &mut |_| ())
        .unwrap();
    let id = reports[0].id.clone().unwrap();
    (store, id)
}

fn user_message(id: &str, parent: Option<&str>, text: &str) -> NewEvent {
    let event = UserMessageEvent::new(text).to_event(annals::event::Common::new(
        EventId::new(id).unwrap(),
        format!("2026-01-01T00:00:0{}", text.len() % 10),
        annals::event::Source::User,
    ));
    let event = parent.map_or(event.clone(), |parent| event.with_parent(parent));
    NewEvent::parse(event.dump()).unwrap()
}

#[test]
fn a_point_is_a_sequence_an_id_or_a_time() {
    let scratch = Scratch::new();
    let (store, id) = imported(&scratch, "coding-task");
    let parse = |text: &str| Point::parse(&store, &id, text);
    let third = store.events(&id, &Default::default(), 3).unwrap().events.pop().unwrap();
    assert_eq!(parse("2").unwrap(), Point::Behind(Sequence(2)));
    assert_eq!(parse(third.id.as_str()).unwrap(), Point::Behind(Sequence(2)));
    assert_eq!(parse(&third.id.as_str()[..13]).unwrap(), Point::Behind(Sequence(2)));
    assert_eq!(parse(third.timestamp.as_deref().unwrap()).unwrap(), Point::Behind(Sequence(2)));
    assert_eq!(parse("2001-01-01").unwrap(), Point::Start);
    assert_eq!(parse("2101-01-01T00:00:00Z").unwrap(), Point::Behind(Sequence(35)));
    assert!(matches!(parse("36"), Err(Error::NoSuchPoint { sequence: 36, events: 36, .. })));
    assert!(matches!(parse("nothing-like-it"), Err(Error::UnknownEvent { .. })));
}

#[test]
fn every_prefix_of_a_conversation_has_a_state_a_view_and_messages() {
    let scratch = Scratch::new();
    let (store, id) = imported(&scratch, "coding-task");
    let mut steps = 0;
    for sequence in 0..36 {
        let moment = Moment::new(&store, &id, Point::Behind(Sequence(sequence))).unwrap();
        let state = moment.state().unwrap();
        assert_eq!(moment.length(), sequence + 1);
        assert_eq!(state.whole.event_count(), sequence + 1);
        assert!(state.whole.iteration() >= steps);
        steps = state.whole.iteration();
        assert!(moment.view(Memory::Reloaded).unwrap().len() <= moment.view(Memory::Live).unwrap().len());
        moment.messages(Memory::Live).unwrap();
    }
    assert_eq!(steps, 11);
    let start = Moment::new(&store, &id, Point::Start).unwrap();
    assert_eq!(start.state().unwrap().execution_status, ExecutionStatus::Idle);
    assert!(start.messages(Memory::Reloaded).unwrap().is_empty());
}

#[test]
fn cost_as_of_an_event_is_that_of_the_replies_so_far() {
    let scratch = Scratch::new();
    let (store, id) = imported(&scratch, "coding-task");
    let cost = |point| {
        let stats = Moment::new(&store, &id, point).unwrap().state().unwrap().stats.combined();
        (stats.accumulated_token_usage.prompt_tokens, stats.accumulated_cost)
    };
    let (tokens, price) = cost(Point::End);
    assert_eq!(tokens, 82_683);
    let (before, price_before) = cost(Point::Behind(Sequence(33)));
    assert!(before < tokens && price_before < price);
    assert_eq!(cost(Point::Behind(Sequence(0))), (0, 0.0));
}

#[test]
fn a_moved_head_stays_until_the_next_event() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = ConversationId::new("talk").unwrap();
    store.append(&talk, Expected::Empty, &[user_message("a", Some("__root__"), "one")]).unwrap();
    store.append(&talk, Expected::Any, &[user_message("b", Some("a"), "two")]).unwrap();
    store.set_leaf(&talk, Leaf::At(EventId::new("a").unwrap())).unwrap();
    let leaf = |point| Moment::new(&store, &talk, point).unwrap().active_leaf().map(str::to_owned);
    assert_eq!(leaf(Point::End).as_deref(), Some("a"));
    assert_eq!(leaf(Point::Behind(Sequence(0))).as_deref(), Some("a"));
    store.append(&talk, Expected::Any, &[user_message("c", Some("a"), "three")]).unwrap();
    assert_eq!(leaf(Point::End).as_deref(), Some("c"));
    // After b, HEAD was moved back to a.
    assert_eq!(leaf(Point::Behind(Sequence(1))).as_deref(), Some("a"));
    store.set_leaf(&talk, Leaf::Empty).unwrap();
    assert_eq!(leaf(Point::End), None);
    assert!(Moment::new(&store, &talk, Point::End).unwrap().view(Memory::Reloaded).unwrap().is_empty());
}

#[test]
fn a_recorded_status_is_read_as_of_a_point() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = ConversationId::new("talk").unwrap();
    store.append(&talk, Expected::Empty, &[user_message("a", None, "one")]).unwrap();
    let change = |status: &str| {
        BaseStateChange::new(vec![FieldChange::set("execution_status", format!("\"{status}\"")).unwrap()])
    };
    store.save_base_state(&talk, change("paused")).unwrap();
    store.append(&talk, Expected::Any, &[user_message("b", None, "two")]).unwrap();
    store.save_base_state(&talk, change("finished")).unwrap();
    let status = |point| Moment::new(&store, &talk, point).unwrap().state().unwrap().execution_status;
    assert_eq!(status(Point::End), ExecutionStatus::Finished);
    assert_eq!(status(Point::Behind(Sequence(0))), ExecutionStatus::Paused);
}

#[test]
fn branches_differ_from_their_fork_on() {
    let scratch = Scratch::new();
    let (store, id) = imported(&scratch, "tree-navigate");
    let tips: Vec<usize> = store.tree(&id).unwrap().branches().iter().map(|branch| branch.tip).collect();
    assert_eq!(tips, [12, 14, 16]);
    let at = |tip| Moment::new(&store, &id, Point::Behind(Sequence(tip))).unwrap();
    let difference = Difference::between(&at(12), &at(16)).unwrap();
    assert_eq!(difference.common, 1);
    assert_eq!(difference.lost.first().map(|mark| mark.sequence), Some(5));
    assert_eq!(difference.added.iter().map(|mark| mark.sequence).collect::<Vec<_>>(), [1, 2, 3, 4, 15, 16]);
    let fields: Vec<&str> = difference.fields.iter().map(|field| field.field.as_str()).collect();
    assert!(fields.contains(&"agent_final_response") && !fields.contains(&"conversation_id"), "{fields:?}");
    let nothing = Difference::between(&at(16), &at(16)).unwrap();
    assert_eq!((nothing.common, nothing.lost, nothing.added, nothing.fields), (7, vec![], vec![], vec![]));
}

#[test]
fn a_cost_that_neither_side_knows_is_not_zero() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = ConversationId::new("talk").unwrap();
    let events = [user_message("a", Some("__root__"), "one"), user_message("b", Some("a"), "two")];
    store.append(&talk, Expected::Empty, &events).unwrap();
    let at = |tip| Moment::new(&store, &talk, Point::Behind(Sequence(tip))).unwrap();
    let difference = Difference::between(&at(0), &at(1)).unwrap();
    assert_eq!((difference.cost, difference.estimated_cost, difference.tokens), (None, None, (0, 0)));
}

#[test]
fn an_unreadable_event_hides_only_itself() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = ConversationId::new("talk").unwrap();
    let strange = NewEvent::parse(r#"{"id":"x","kind":"ActionEvent","tool_name":[]}"#).unwrap();
    let future = NewEvent::parse(r#"{"id":"y","kind":"FutureEvent","all":"new"}"#).unwrap();
    store
        .append(
            &talk,
            Expected::Empty,
            &[user_message("a", None, "one"), strange, future, user_message("b", None, "two")],
        )
        .unwrap();
    let moment = Moment::new(&store, &talk, Point::End).unwrap();
    let view = moment.view(Memory::Reloaded).unwrap();
    assert_eq!(view.ids().collect::<Vec<_>>(), ["a", "b"]);
    let mut unknown = 0;
    moment
        .each(|_, event| {
            unknown += usize::from(matches!(event, Event::Unknown(_)));
            Ok(())
        })
        .unwrap();
    assert_eq!(unknown, 2);
}
