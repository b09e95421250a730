//! Finds the cause of an event's wrong hash by trying the possible causes on the event after it. Pure computation.
//!
//! A hash shows that something is wrong, but not what. A change that leaves the other hashes as they were leaves a
//! pattern in the event and the next one. Each kind of change has its own pattern.

use std::fmt;

use crate::chain::{self, Digest};

/// An event as the chain sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// Its sequence when it was written, as far as known.
    pub sequence: u64,
    pub id: String,
    pub payload: Digest,
    /// Its stored hash.
    pub hash: Digest,
}

/// The cause of a wrong hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// Its payload or its id was changed. The events after it are as they were.
    Changed,
    /// Only its stored hash was changed.
    HashChanged,
    /// The event and the next one have changed places.
    PlacesSwapped,
    /// The event and the next one kept their places, but have each other's contents.
    ContentsSwapped,
    /// The event was inserted: the next one follows the one before it.
    PutIn,
    /// This many events before it were removed, and the later ones were moved up.
    TakenOut(u64),
    /// Neither the event nor the next one follows from the log.
    Several,
    /// There is no next event, so the cause cannot be determined.
    Last,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("one of them was changed; the events behind it are as they were"),
            Self::HashChanged => f.write_str("the hash alone was changed; the event is as it was"),
            Self::PlacesSwapped => f.write_str("it and the next event have changed places"),
            Self::ContentsSwapped => f.write_str("it and the next event have changed contents"),
            Self::PutIn => f.write_str("it was put in; the next event follows the one before it"),
            Self::TakenOut(1) => {
                f.write_str("an event before it was taken out and those behind were moved up")
            }
            Self::TakenOut(count) => {
                write!(f, "{count} events before it were taken out and those behind were moved up")
            }
            Self::Several => {
                f.write_str("one of them was changed, and the next event does not follow either")
            }
            Self::Last => f.write_str("one of them was changed, or it was put in at the end"),
        }
    }
}

/// The most removed events that can be recognized.
const TAKEN_OUT_MAX: u64 = 1000;

/// Returns what happened to `bad`, whose hash does not follow from `previous`. `next` is the event after it.
pub(super) fn diagnose(conversation: &str, previous: Digest, bad: &Link, next: Option<&Link>) -> Damage {
    let Some(next) = next else { return Damage::Last };
    let link = |sequence, content: &Link, before| {
        chain::link(conversation, sequence, &content.id, content.payload, before)
    };
    let with_payload = |id: &Link, payload: &Link, before| {
        chain::link(conversation, id.sequence, &id.id, payload.payload, before)
    };
    if link(next.sequence, next, bad.hash) == next.hash {
        return Damage::Changed;
    }
    if link(next.sequence, next, link(bad.sequence, bad, previous)) == next.hash {
        return Damage::HashChanged;
    }
    if link(bad.sequence, next, previous) == next.hash {
        let swapped = link(next.sequence, bad, next.hash) == bad.hash;
        return if swapped { Damage::PlacesSwapped } else { Damage::PutIn };
    }
    let contents =
        link(bad.sequence, next, previous) == bad.hash && link(next.sequence, bad, bad.hash) == next.hash;
    let payloads =
        with_payload(bad, next, previous) == bad.hash && with_payload(next, bad, bad.hash) == next.hash;
    if contents || payloads {
        return Damage::ContentsSwapped;
    }
    let taken = (1..=TAKEN_OUT_MAX).find(|count| link(next.sequence + count, next, bad.hash) == next.hash);
    taken.map_or(Damage::Several, Damage::TakenOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "talk";

    /// Makes seven events in order. Also returns the hash before the third.
    fn chain() -> (Vec<Link>, Digest) {
        let mut previous = Digest::START;
        let mut links = Vec::new();
        for sequence in 0..7 {
            let (id, payload) = (format!("e{sequence}"), Digest::of(&[sequence as u8]));
            let hash = chain::link(ID, sequence, &id, payload, previous);
            links.push(Link { sequence, id, payload, hash });
            previous = hash;
        }
        let before = links[1].hash;
        (links, before)
    }

    fn of(links: &[Link], before: Digest) -> Damage {
        diagnose(ID, before, &links[2], links.get(3))
    }

    #[test]
    fn each_kind_of_change_has_its_own_diagnosis() {
        let change = |work: &dyn Fn(&mut Vec<Link>)| {
            let (mut links, before) = chain();
            work(&mut links);
            for (sequence, link) in links.iter_mut().enumerate() {
                link.sequence = sequence as u64; // an attacker keeps the sequences dense
            }
            of(&links, before)
        };
        assert_eq!(change(&|links| links[2].payload = Digest::START), Damage::Changed);
        assert_eq!(change(&|links| links[2].id = "x".into()), Damage::Changed);
        assert_eq!(change(&|links| links[2].hash = Digest::START), Damage::HashChanged);
        assert_eq!(change(&|links| links.swap(2, 3)), Damage::PlacesSwapped);
        assert_eq!(
            change(&|links| {
                let (hash, next) = (links[2].hash, links[3].hash);
                links.swap(2, 3);
                (links[2].hash, links[3].hash) = (hash, next);
            }),
            Damage::ContentsSwapped
        );
        assert_eq!(
            change(&|links| {
                let payload = links[2].payload;
                links[2].payload = links[3].payload;
                links[3].payload = payload;
            }),
            Damage::ContentsSwapped
        );
        let forged = Link { sequence: 2, id: "f".into(), payload: Digest::START, hash: Digest::START };
        assert_eq!(change(&|links| links.insert(2, forged.clone())), Damage::PutIn);
        assert_eq!(change(&|links| drop(links.remove(2))), Damage::TakenOut(1));
        assert_eq!(change(&|links| drop(links.drain(1..3))), Damage::TakenOut(2));
        assert_eq!(
            change(&|links| {
                links[2].payload = Digest::START;
                links[3].payload = Digest::START;
            }),
            Damage::Several
        );
        assert_eq!(change(&|links| links.truncate(3)), Damage::Last);
    }
}
