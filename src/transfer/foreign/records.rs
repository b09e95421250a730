//! Counts the records of a log and passes their events on.

use super::translation::{Arriving, Encoded, Translation};
use crate::error::Result;
use crate::event::Event;
use crate::store::Arrival;
use crate::transfer::bounds;
use crate::transfer::import::Intake;

/// Counts a record.
pub(super) fn count(intake: &mut Intake<'_>, arriving: &Arriving<'_>, translation: &Translation) {
    intake.counts.records += 1;
    if translation.events.iter().any(|event| matches!(event, Event::Message(_) | Event::Action(_))) {
        intake.counts.messages += 1;
    }
    if translation.events.is_empty() {
        intake.counts.not_understood += u64::from(translation.is_unknown);
        *intake.counts.unread.entry(translation.name.clone()).or_default() += 1;
    }
    if let Some(problem) = &translation.problem {
        let action =
            if translation.events.is_empty() { "kept as it is" } else { "kept beside what was read of it" };
        intake.tell(place_of(arriving), problem.clone(), action);
    }
}

/// Passes on the events of a new record.
pub(super) fn take(intake: &mut Intake<'_>, encoded: Encoded) -> Result<()> {
    for event in &encoded.events {
        intake.problems.extend(bounds::of_event(event.id().as_str(), event));
    }
    intake.take(encoded.events.into_iter().map(|event| {
        let place = event.id().to_string();
        (Arrival { event, file: None }, place)
    }))
}

/// Tells which new events were not written, because an event of another record has their id.
pub(super) fn tell_rejected(intake: &mut Intake<'_>) {
    for rejected in std::mem::take(&mut intake.rejected) {
        // The same event is in a stored record that a redaction made unrecognisable.
        if !rejected.is_same {
            let problem = format!("an event {} of another record is stored already", rejected.id);
            intake.tell(rejected.place, problem, "left out");
        }
    }
}

/// Returns the place of a record, as text for people.
pub(super) fn place_of(arriving: &Arriving<'_>) -> String {
    match arriving.table {
        Some(table) => format!("{} {table} row {}", arriving.file, arriving.place),
        None => format!("{} line {}", arriving.file, arriving.place),
    }
}

#[cfg(test)]
mod tests {
    use super::super::translation::encode;
    use super::*;
    use crate::chain::Digest;
    use crate::event::foreign::ForeignFormat;
    use crate::ids::ConversationId;
    use crate::store::{Options, Store};
    use crate::transfer::discover::{Found, Shape};

    /// Imports three records into `id`, as an import does that has found nothing stored. Returns the numbers of stored
    /// and of new events, and the problems.
    fn import(store: &Store, id: &ConversationId, text: &str) -> (u64, u64, Vec<String>) {
        let found = Found {
            path: "talk.jsonl".into(),
            shape: Shape::Log { format: ForeignFormat::Codex, key: None },
            parent: None,
            folder: "talk.jsonl".into(),
        };
        let mut intake = Intake::new(store, id, &found, Vec::new()).unwrap();
        for place in 1..=3 {
            let bytes = format!("{{\"{text}\":{place}}}").into_bytes();
            let arriving = Arriving {
                format: ForeignFormat::Codex,
                file: "talk.jsonl",
                table: None,
                place,
                before: None,
                bytes: &bytes,
                digest: Digest::of(&bytes),
                stored: None,
            };
            let translation = Translation::unread("record");
            count(&mut intake, &arriving, &translation);
            take(&mut intake, encode(&arriving, &translation)).unwrap();
        }
        intake.write().unwrap();
        tell_rejected(&mut intake);
        let problems = intake.problems.finish().into_iter().map(|found| found.problem).collect();
        (intake.counts.events, intake.counts.added, problems)
    }

    #[test]
    fn events_that_another_import_wrote_in_the_meantime_are_no_problem() {
        let options = Options { follow_projections: false, ..Options::default() };
        let store = Store::in_memory(&options).unwrap();
        let id = ConversationId::new("talk").unwrap();
        for added in [3, 0] {
            assert_eq!(import(&store, &id, "same"), (3, added, Vec::new()));
        }
        let (events, added, problems) = import(&store, &id, "other");
        assert_eq!((events, added, problems.len()), (0, 0, 3));
        assert_eq!(problems[0], "an event line-1 of another record is stored already");
    }
}
