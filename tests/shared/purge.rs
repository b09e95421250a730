//! What was removed or redacted leaves the server's tables.

use annals::shared::SharedLog;
use annals::store::Redaction;
use annals::{EventId, Expected};

use crate::server::Server;
use crate::support::events::user_message;
use crate::support::{Scratch, conversation};

#[test]
fn what_was_redacted_is_in_no_file_of_a_table_after_a_purge() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let log = SharedLog::at(&server.address()).unwrap();
    let store = server.open(&scratch.path("a.db"));
    let (talk, other) = (conversation("talk"), conversation("other"));
    let events = [user_message("a", "the word is swordfish"), user_message("b", "stays herring")];
    store.append(&talk, Expected::Empty, &events).unwrap();
    store.append(&other, Expected::Empty, &[user_message("c", "marlin is gone at once")]).unwrap();
    // Who has begun to read still sees what there was.
    let mut reader = server.client();
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    // The server looks at its tables by itself, and keeps samples of what it finds.
    server.client().batch_execute("ANALYZE").unwrap();
    let samples = "SELECT count(*), count(*) FILTER (WHERE histogram_bounds::text LIKE '%swordfish%' \
         OR most_common_vals::text LIKE '%swordfish%') FROM pg_stats WHERE tablename IN ('event', 'other_row')";
    let samples = server.client().query_one(samples, &[]).unwrap();
    assert!(samples.get::<_, i64>(0) > 0);
    assert_eq!(samples.get::<_, i64>(1), 0);
    let event = EventId::new("a").unwrap();
    store.retention().redact(&talk, Redaction::Event(&event), "asked for").unwrap();
    store.retention().erase(&other, "asked for").unwrap();
    let mut client = server.client();
    let mut holds = |text: &str| {
        client.batch_execute("CHECKPOINT").unwrap();
        server.holds(text.as_bytes())
    };
    assert!(holds("swordfish") && holds("marlin") && holds("herring"));
    let purged = log.purge(&mut |_| ()).unwrap();
    assert!(purged.rows_kept.is_some_and(|rows| rows > 0), "{purged:?}");
    assert!(holds("swordfish"));
    reader.batch_execute("COMMIT").unwrap();
    let mut seen = Vec::new();
    let purged = log.purge(&mut |progress| seen.push((progress.bytes, progress.bytes_total))).unwrap();
    assert_eq!(purged.rows_kept, Some(0));
    assert!(seen.len() > 2 && seen.is_sorted() && seen[0].0 == 0, "{seen:?}");
    assert_eq!(seen.last().map(|(bytes, total)| bytes == total), Some(true));
    assert_eq!((purged.log_id, purged.entry), (log.status().unwrap().log_id, log.status().unwrap().entries));
    assert_eq!((holds("swordfish"), holds("marlin"), holds("herring")), (false, false, true));
    // The store goes on as before.
    store.append(&talk, Expected::Any, &[user_message("d", "after it")]).unwrap();
    let found = store.replica().unwrap().check(&mut |_| ()).unwrap();
    assert_eq!((found.differing, found.rows > 0), (0, true));
}
