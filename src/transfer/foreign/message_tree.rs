//! All message lists of a LangGraph thread, as a tree: lists that begin alike share their beginning.
//!
//! A `DeltaChannel` keeps no lists, only what each step wrote. A write adds messages, replaces or removes those with its
//! ids, or replaces the whole list. Source: `langgraph.channels.delta` and `_messages_delta_reducer` of langgraph 1.2.

use std::collections::{HashMap, HashSet};

use crate::chain::Digest;
use crate::ids::EventId;
use crate::json::{Object, Raw};

/// The empty list.
pub(super) const EMPTY: usize = 0;

/// The id in a removal that removes all messages.
const ALL: &str = "__remove_all__";

/// The types and roles of messages.
const TYPES: &[&str] = &["human", "user", "ai", "assistant", "tool", "system", "remove"];

/// A list that is one message longer than that of its parent.
#[derive(Debug, Default)]
struct Node {
    parent: usize,
    next: HashMap<Digest, usize>,
    /// The last message.
    message: String,
    id: Option<String>,
    /// Whether the message became events.
    is_event: bool,
    /// The last event of the list.
    event: Option<EventId>,
}

/// The message lists.
#[derive(Debug)]
pub(super) struct MessageTree {
    nodes: Vec<Node>,
    /// The ids of all messages.
    ids: HashSet<String>,
    /// Whether messages are kept after they became events, because a write may change the list before them.
    pub keeps_messages: bool,
}

impl Default for MessageTree {
    fn default() -> Self {
        let root = Node { is_event: true, ..Node::default() };
        Self { nodes: vec![root], ids: HashSet::new(), keeps_messages: false }
    }
}

impl MessageTree {
    /// Returns the list `at` with one more message.
    pub(super) fn with(&mut self, at: usize, message: &str) -> usize {
        let digest = Digest::of(message.as_bytes());
        if let Some(known) = self.nodes[at].next.get(&digest) {
            return *known;
        }
        let id = id_of(Raw::checked(message));
        // A snapshot may have more members of a message than its write.
        let same = |node: &usize| {
            id.is_some()
                && self.nodes[*node].id == id
                && content_of(Raw::checked(&self.nodes[*node].message)) == content_of(Raw::checked(message))
        };
        if self.keeps_messages
            && let Some(known) = self.nodes[at].next.values().copied().find(same)
        {
            return known;
        }
        self.ids.extend(id.clone());
        self.nodes.push(Node { parent: at, message: message.to_owned(), id, ..Node::default() });
        let new = self.nodes.len() - 1;
        self.nodes[at].next.insert(digest, new);
        new
    }

    /// Returns the list `at` after a write. `None` if the value is neither a message nor a list of messages.
    pub(super) fn written(&mut self, mut at: usize, value: Raw<'_>) -> Option<usize> {
        let value = match overwritten(value) {
            Some(value) => {
                at = EMPTY;
                value
            }
            None => value,
        };
        let is_one = members(value).is_some();
        let messages: Vec<Raw<'_>> = if is_one { vec![value] } else { value.elements().collect() };
        if !is_one && !value.is_array() && !value.is_null()
            || messages.iter().any(|message| members(*message).is_none())
        {
            return None;
        }
        for message in messages {
            at = self.after(at, message);
        }
        Some(at)
    }

    /// Returns the list `at` after the write of one message.
    fn after(&mut self, at: usize, message: Raw<'_>) -> usize {
        let id = id_of(message);
        let is_removal = kind(message).as_deref() == Some("remove");
        if is_removal && id.as_deref() == Some(ALL) {
            return EMPTY;
        }
        let place = id.filter(|id| self.ids.contains(id)).and_then(|id| {
            let path = self.path(at);
            let place = path.iter().position(|node| self.nodes[*node].id.as_ref() == Some(&id))?;
            Some((path, place))
        });
        let Some((path, place)) = place else {
            return if is_removal { at } else { self.with(at, message.text()) };
        };
        let mut list = self.nodes[path[place]].parent;
        if !is_removal {
            list = self.with(list, message.text());
            if list == path[place] {
                return at;
            }
        }
        for node in &path[place + 1..] {
            let message = self.nodes[*node].message.clone();
            list = self.with(list, &message);
        }
        list
    }

    /// Returns the lists from the first message on to the list `at`.
    fn path(&self, at: usize) -> Vec<usize> {
        let parent = |node: &usize| Some(self.nodes[*node].parent).filter(|parent| *parent != EMPTY);
        let mut path: Vec<usize> =
            std::iter::successors(Some(at).filter(|at| *at != EMPTY), parent).collect();
        path.reverse();
        path
    }

    /// Returns the messages of the list `at` that did not become events, and the lists that they end.
    pub(super) fn pending(&self, at: usize) -> Vec<(usize, String)> {
        let is_pending = |node: &usize| !self.nodes[*node].is_event;
        let parent = |node: &usize| Some(self.nodes[*node].parent).filter(is_pending);
        let mut path: Vec<usize> = std::iter::successors(Some(at).filter(is_pending), parent).collect();
        path.reverse();
        path.into_iter().map(|node| (node, self.nodes[node].message.clone())).collect()
    }

    /// Returns the event that the last message of the list `at` follows.
    pub(super) fn before(&self, at: usize) -> Option<EventId> {
        self.event(self.nodes[at].parent)
    }

    /// Returns the last event of the list `at`.
    pub(super) fn event(&self, at: usize) -> Option<EventId> {
        self.nodes[at].event.clone()
    }

    /// Notes the last event of the list `at`.
    pub(super) fn tell(&mut self, at: usize, event: Option<EventId>) {
        let node = &mut self.nodes[at];
        (node.event, node.is_event) = (event, true);
        if !self.keeps_messages {
            node.message = String::new();
        }
    }
}

/// Returns the members of a message of LangChain. `None` for any other value.
///
/// In MessagePack, a message is an extension, `[module, class, members, ..]`. In the older JSON, it is a constructor
/// with `id` and `kwargs`. A write may be what a caller gave: an object with a role or a type.
pub(super) fn members<'a>(value: Raw<'a>) -> Option<Object<'a>> {
    let (class, members) = match value.get("$ext") {
        Some(extension) => {
            let mut parts = extension.elements().nth(1)?.elements().skip(1);
            (parts.next()?, parts.next()?)
        }
        None if value.get("content").is_some() => {
            let named = value.get("role").or_else(|| value.get("type")).and_then(Raw::as_str);
            return named.filter(|named| TYPES.contains(&&**named)).map(|_| value.to_object());
        }
        None => (value.get("id")?.elements().last()?, value.get("kwargs")?),
    };
    let is_message = class.as_str().is_some_and(|class| class.contains("Message"));
    (is_message && members.is_object()).then(|| members.to_object())
}

/// Returns the type of a message.
pub(super) fn kind(message: Raw<'_>) -> Option<String> {
    let members = members(message)?;
    members.text("type").or_else(|| members.text("role")).map(|kind| kind.into_owned())
}

fn id_of(message: Raw<'_>) -> Option<String> {
    members(message)?.text("id").map(|id| id.into_owned())
}

/// Returns the content of a message, and the call that it answers.
fn content_of(message: Raw<'_>) -> [Option<String>; 2] {
    let members = members(message).unwrap_or_default();
    ["content", "tool_call_id"].map(|member| members.get(member).map(|value| value.text().to_owned()))
}

/// Returns the list in a write that replaces the whole list.
fn overwritten(value: Raw<'_>) -> Option<Raw<'_>> {
    if let Some(list) = value.get("__overwrite__") {
        return Some(list);
    }
    if value.get("type").and_then(Raw::as_str).is_some_and(|kind| kind == "__overwrite__") {
        return value.get("value");
    }
    let mut parts = value.get("$ext")?.elements().nth(1)?.elements().skip(1);
    let class = parts.next()?.as_str()?;
    parts.next().filter(|_| class == "Overwrite")?.get("value")
}

/// Returns the value of a channel: what is in a snapshot of a `DeltaChannel`, or the value itself.
pub(super) fn snapshot(value: Raw<'_>) -> Raw<'_> {
    const SNAPSHOT: i64 = 7;
    let Some(extension) = value.get("$ext") else { return value };
    let mut parts = extension.elements();
    let is_snapshot = parts.next().and_then(Raw::as_i64) == Some(SNAPSHOT);
    parts.next().filter(|_| is_snapshot).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, id: &str, content: &str) -> String {
        format!(r#"{{"type":"{kind}","id":"{id}","content":"{content}"}}"#)
    }

    /// The contents of the list after these writes.
    fn list(writes: &[String]) -> Option<String> {
        let mut tree = MessageTree { keeps_messages: true, ..MessageTree::default() };
        let at = writes.iter().try_fold(EMPTY, |at, write| tree.written(at, Raw::parse(write).unwrap()))?;
        let content = |(_, message): (usize, String)| {
            members(Raw::checked(&message))
                .and_then(|members| members.text("content").map(|text| text.into_owned()))
        };
        Some(tree.pending(at).into_iter().filter_map(content).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn writes_add_replace_and_remove_messages() {
        let (a, b, c) = (message("human", "a", "A"), message("ai", "b", "B"), message("human", "c", "C"));
        let all = vec![format!("[{a},{b}]"), c.clone()];
        let after = |write: String| list(&[all.clone(), vec![write]].concat());
        assert_eq!(list(&all).as_deref(), Some("A B C"));
        assert_eq!(after(b.clone()).as_deref(), Some("A B C"), "the same once more");
        assert_eq!(after(message("ai", "b", "X")).as_deref(), Some("A X C"));
        assert_eq!(after(message("remove", "b", "")).as_deref(), Some("A C"));
        assert_eq!(after(message("remove", "z", "")).as_deref(), Some("A B C"));
        assert_eq!(after(message("remove", ALL, "")).as_deref(), Some(""));
        assert_eq!(after(format!(r#"{{"__overwrite__":[{c}]}}"#)).as_deref(), Some("C"));
        assert_eq!(
            after(format!(r#"{{"$ext":[2,["langgraph.types","Overwrite",{{"value":[{b}]}}]]}}"#)).as_deref(),
            Some("B")
        );
        assert_eq!(after("7".to_owned()), None);
        assert_eq!(after("[7]".to_owned()), None);
    }
}
