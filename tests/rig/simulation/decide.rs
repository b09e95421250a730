//! Decides the next call from a random number and from what the model holds, so that a seed decides everything.

use annals::state::FieldChange;
use annals::store::{Append, BaseStateChange, Leaf, PruneRules};
use annals::{EventId, Expected, NewEvent, Timestamp, Version};
use serde_json::{Value, json};

use super::call::Call;
use super::fold::{Seen, usage};
use super::model::{File, Talk};
use super::payload::{self, Surroundings, WORDS, pick, time};
use super::random::Random;

/// One operation of a run. The same number and seed do the same to the same file.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub number: u64,
    pub seed: u64,
}

/// Returns the operations of a run.
pub fn operations(seed: u64, from: u64, count: u64) -> Vec<Operation> {
    let mut random = Random::new(seed);
    (from..from + count).map(|number| Operation { number, seed: random.next() }).collect()
}

/// The conversations that a run uses.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The prefix of their names.
    pub prefix: String,
    /// Their number.
    pub talks: u64,
}

/// Returns the call that an operation makes on a file whose content is that of the model `file`.
pub fn decide(operation: Operation, file: &File, scope: &Scope) -> Call {
    let mut random = Random::new(operation.seed);
    let mut decision = Decision { number: operation.number, random: &mut random, file, scope };
    match file.is_alone {
        true => decision.alone(),
        false => decision.among_others(),
    }
}

struct Decision<'a> {
    number: u64,
    random: &'a mut Random,
    file: &'a File,
    scope: &'a Scope,
}

impl<'a> Decision<'a> {
    fn alone(&mut self) -> Call {
        match self.random.below(100) {
            0..3 => Call::Prune { rules: self.rules() },
            3..7 => Call::Carry { talks: self.some_talks(), removes: self.random.below(3) == 0 },
            7..10 => Call::BackUp,
            10..12 => Call::Restore { from_folder: self.random.below(2) == 0 },
            12..15 => Call::SetParent { talk: self.talk(), parent: self.talk() },
            _ => self.among_others(),
        }
    }

    fn among_others(&mut self) -> Call {
        match self.random.below(100) {
            0..46 => self.append(),
            46..52 => Call::SaveState { talk: self.talk(), change: self.change() },
            52..56 => {
                let talk = self.talk();
                Call::SetLeaf { leaf: self.leaf(&talk), talk }
            }
            56..59 => {
                let title = format!("title {}", pick(self.random, &WORDS));
                Call::SetTitle { talk: self.talk(), title: Some(title).filter(|_| self.random.below(4) > 0) }
            }
            59..62 => {
                let content = vec![b'x'; self.random.below(9000) as usize];
                let path = format!("files/{}", pick(self.random, &WORDS));
                Call::Attach { talk: self.talk(), path, content }
            }
            62..64 => self.fork(),
            64..66 => Call::Delete { talk: self.talk() },
            66..68 => Call::Erase { talk: self.talk() },
            68..72 => self.redact(),
            72..75 => Call::Archive { talks: self.some_talks() },
            75..77 => Call::Unarchive { talk: self.talk() },
            77..79 => Call::Rebuild,
            79..80 => Call::Vacuum,
            80..81 => Call::EmptyLog,
            81..83 => Call::CatchUp,
            83..88 => Call::Look { talk: self.talk() },
            88..91 => {
                let everywhere = self.file.is_alone && self.random.below(2) == 0;
                let word = (*pick(self.random, &WORDS)).to_owned();
                Call::Search { word, talk: Some(self.talk()).filter(|_| !everywhere) }
            }
            91..96 => Call::Follow { limit: 1 + self.random.below(12) as usize },
            96..98 => Call::Reopen,
            _ => self.copy(),
        }
    }

    fn talk(&mut self) -> String {
        format!("{}{}", self.scope.prefix, self.random.below(self.scope.talks))
    }

    fn known(&self, talk: &str) -> Option<&'a Talk> {
        self.file.talks.get(talk)
    }

    fn some_talks(&mut self) -> Vec<String> {
        // In one of three cases, the list has a conversation that may not exist.
        let mut talks: Vec<String> = match self.random.below(3) {
            0 => vec![self.talk()],
            _ => Vec::new(),
        };
        for name in self.file.talks.keys() {
            if self.random.below(2) == 0 && (self.file.is_alone || talks.is_empty()) {
                talks.push(name.clone());
            }
        }
        talks.sort();
        talks.dedup();
        talks
    }

    fn append(&mut self) -> Call {
        let talk = self.talk();
        let count = [0, 1, 1, 1, 1, 2, 2, 3, 4, 7][self.random.below(10) as usize];
        let mut events: Vec<NewEvent> = Vec::new();
        for index in 0..count {
            let event = self.event(&talk, index, &events);
            events.push(event);
        }
        let length = self.known(&talk).map_or(0, |talk| talk.events.len() as u64);
        let expected = match self.random.below(12) {
            0..5 => Expected::Any,
            5..9 => Expected::Exact(length),
            9 => Expected::Exists,
            10 => Expected::Empty,
            _ => Expected::Exact(self.random.below(length + 3)),
        };
        let base_state = (self.random.below(6) == 0).then(|| self.change());
        let leaf = (self.random.below(9) == 0).then(|| self.leaf(&talk));
        let mut append = Append::new(expected, events).base_state(base_state).leaf(leaf);
        if append.leaf.is_some() && self.random.below(2) == 0 {
            // HEAD moves to the last event of the same batch, if there is one.
            let last = append.events.last().map(|last| Leaf::At(last.id().clone()));
            append.leaf = last.or(append.leaf);
        }
        let is_known = |event: &NewEvent| {
            self.known(&talk).is_some_and(|talk| talk.place(event.id().as_str()).is_some())
        };
        if !append.events.is_empty() && append.events.iter().all(is_known) {
            // The tests of appending cover a retry that comes with a base state or a HEAD.
            (append.base_state, append.leaf) = (None, None);
        }
        Call::Append { talk, append, later: self.random.below(5) == 0 }
    }

    fn event(&mut self, talk: &str, index: u64, batch: &[NewEvent]) -> NewEvent {
        let known = self.known(talk).map_or(&[][..], |talk| &talk.events);
        let number = self.number * 10 + index;
        match self.random.below(40) {
            0..4 if !known.is_empty() => return pick(self.random, known).event.clone(),
            4 if !known.is_empty() => return payload::impostor(pick(self.random, known).id(), number),
            5 if !batch.is_empty() => return pick(self.random, batch).clone(),
            _ => {}
        }
        let parent = match self.random.below(40) {
            0..6 if !known.is_empty() => Some(pick(self.random, known).id().to_owned()),
            6 => Some("__root__".to_owned()),
            7..9 if !batch.is_empty() => Some(pick(self.random, batch).id().to_string()),
            9 => Some("nowhere".to_owned()),
            _ => None,
        };
        let actions: Vec<String> = known
            .iter()
            .map(|known| &known.event)
            .chain(batch)
            .filter(|event| event.envelope().kind == "ActionEvent")
            .map(|event| event.id().to_string())
            .collect();
        let seen: Vec<Seen> = known.iter().map(|one| Seen::read(one.id(), one.event.payload())).collect();
        let (sent, received, _) = usage(&seen, None).unwrap_or_default();
        let around = Surroundings { actions: &actions, spent: (sent, received) };
        let id = format!("{}-{}-{index}", self.scope.prefix, self.number);
        payload::event(self.random, &id, number, parent.as_deref(), &around)
    }

    fn leaf(&mut self, talk: &str) -> Leaf {
        let known = self.known(talk).map_or(&[][..], |talk| &talk.events);
        match self.random.below(10) {
            0..2 => Leaf::Empty,
            2 => Leaf::At(EventId::new("nowhere").unwrap()),
            _ if known.is_empty() => Leaf::Empty,
            _ => Leaf::At(EventId::new(pick(self.random, known).id()).unwrap()),
        }
    }

    fn change(&mut self) -> BaseStateChange {
        let expected = match self.random.below(6) {
            0 => Some(Version(self.random.below(4))),
            _ => None,
        };
        let fields = (0..self.random.below(4)).map(|_| self.field()).collect();
        BaseStateChange::new(fields).expected(expected)
    }

    fn field(&mut self) -> FieldChange {
        let random = &mut *self.random;
        let word = *pick(random, &WORDS);
        let number = self.number;
        let set = |field: &str, value: Value| FieldChange::set(field, value.to_string()).unwrap();
        let extend = |field: &str, value: Value| FieldChange::extend(field, value.to_string()).unwrap();
        match random.below(16) {
            0..2 => set("tags", json!({"owner": word})),
            2 => extend("tags", json!({ word: "yes" })),
            3 => set("execution_status", (*pick(random, &["idle", "running", "finished", "error"])).into()),
            4 => set("stats", payload::figures(random.below(100) as i64, random.below(100) as i64)),
            5 => FieldChange::remove(*pick(random, &["tags", "execution_status", "stats", "list", "mixed"])),
            6..8 => set("list", json!([number])),
            8..11 => extend("list", json!([number, word])),
            11 => set("mixed", some_value(random, number)),
            12..14 => extend("mixed", some_value(random, number)),
            _ => set(word, json!({"number": number, "text": "é\"\\"})),
        }
    }

    /// Appends the beginning of one conversation to another, as a fork does.
    fn copy(&mut self) -> Call {
        let (talk, from) = (self.talk(), self.talk());
        let events = self.known(&from).map_or(&[][..], |from| &from.events);
        let count = self.random.below(events.len() as u64 + 1) as usize;
        let events = events[..count].iter().map(|event| event.event.clone()).collect();
        let append = Append::new(Expected::Any, events);
        Call::Append { talk, append, later: false }
    }

    fn fork(&mut self) -> Call {
        let (talk, from) = (self.talk(), self.talk());
        let known = self.known(&from).map_or(&[][..], |from| &from.events);
        let at = if known.is_empty() { None } else { Some(pick(self.random, known).id().to_owned()) };
        Call::SetFork { talk, from, at }
    }

    /// Redacts an event whose text is not redacted yet. If there is none, names an event that does not exist.
    fn redact(&mut self) -> Call {
        let talk = self.talk();
        let known = self.known(&talk).map_or(&[][..], |talk| &talk.events);
        let has_text =
            |kind: &str| matches!(kind, "MessageEvent" | "AgentErrorEvent" | "SomethingNew" | "ActionEvent");
        let with_text: Vec<_> =
            known.iter().filter(|one| !one.is_redacted && has_text(&one.event.envelope().kind)).collect();
        let event = match with_text.as_slice() {
            [] => "nowhere".to_owned(),
            some => pick(self.random, some).id().to_owned(),
        };
        Call::Redact { talk, event }
    }

    fn rules(&mut self) -> PruneRules {
        let tag = (("owner".to_owned()), Some((*pick(self.random, &WORDS)).to_owned()));
        let mut rules = PruneRules::default();
        match self.random.below(5) {
            0 => rules.older_than = Timestamp::parse(&time(self.random.below(self.number * 10 + 1))),
            1 => rules.keep_last = Some(2 + self.random.below(4)),
            2 => rules.tags = vec![tag],
            3 => rules = rules.tags(vec![("owner".into(), None)]).keep_last(1),
            _ => {
                rules.keep_last = Some(1 + self.random.below(3));
                rules.kept_tags = vec![("owner".into(), None)];
            }
        }
        rules
    }
}

fn some_value(random: &mut Random, number: u64) -> Value {
    match random.below(4) {
        0 => json!(number),
        1 => json!([number]),
        2 => json!({"a": number, "b": [number]}),
        _ => json!({"b": {"c": number}}),
    }
}
