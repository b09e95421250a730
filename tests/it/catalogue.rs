//! The catalogue: the conversations of a store, one by one and page by page.

use annals::store::{ConversationFilter, Order};
use annals::{ConversationId, Error, Expected, Store};

use crate::support::events::pause;
use crate::support::{conversation, without_projector};

/// More than one page of the iterator.
const COUNT: usize = 1003;

fn all(store: &Store, filter: &ConversationFilter, order: Order) -> Vec<ConversationId> {
    store.iter(filter, order).map(|row| row.unwrap().id).collect()
}

#[test]
fn every_conversation_is_iterated_once_in_every_order() {
    let store = Store::in_memory(&without_projector()).unwrap();
    assert_eq!(all(&store, &ConversationFilter::default(), Order::Created), []);
    let ids: Vec<_> = (0..COUNT).map(|number| conversation(&format!("c{number}"))).collect();
    for id in &ids {
        store.append(id, Expected::Empty, &[pause("a")]).unwrap();
    }
    let everything = ConversationFilter::default();
    assert_eq!(all(&store, &everything, Order::Created), ids);
    let backward: Vec<_> = ids.iter().rev().cloned().collect();
    assert_eq!(all(&store, &everything, Order::CreatedDescending), backward);
    assert_eq!(all(&store, &everything, Order::Updated), ids);
    let title = everything.title("nothing has this".to_owned());
    assert_eq!(all(&store, &title, Order::Created), []);
    // The iterator reads on behind the last conversation of a page.
    let mut rows = store.iter(&ConversationFilter::default(), Order::Created);
    assert_eq!(rows.next().unwrap().unwrap().id, ids[0]);
    store.retention().delete(&ids[999]).unwrap();
    let last = rows.last().unwrap();
    assert!(matches!(last, Err(Error::UnknownConversation { .. })), "{last:?}");
}

#[test]
fn a_store_says_whether_it_has_a_conversation() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let id = conversation("talk");
    assert!(!store.contains(&id).unwrap());
    store.append(&id, Expected::Empty, &[pause("a")]).unwrap();
    assert!(store.contains(&id).unwrap());
}
