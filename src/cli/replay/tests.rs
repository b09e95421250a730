//! Tests of the player, which needs no terminal: it takes keys and returns rows.

use std::time::Duration;

use super::player::{Flow, Key, Player, Settings};
use super::speed::Speed;
use crate::error::Expected;
use crate::event::NewEvent;
use crate::ids::ConversationId;
use crate::replay::{Point, Recording};
use crate::store::{Options as StoreOptions, Store};
use crate::visualizer::Options;

const WIDTH: usize = 60;
const HEIGHT: usize = 12;

/// Makes a store with ten messages, one per second, alternately from user and agent, and then a pause.
fn store() -> Store {
    let store = Store::in_memory(&StoreOptions::default()).unwrap();
    let id = ConversationId::new("talk").unwrap();
    let mut payloads: Vec<String> = (0..10)
        .map(|n| {
            let (source, role) = if n % 2 == 0 { ("user", "user") } else { ("agent", "assistant") };
            let lines = if n == 5 { "long\\n".repeat(30) } else { String::new() };
            format!(
                r#"{{"id":"e{n}","timestamp":"2026-01-01T00:00:{n:02}","source":"{source}","kind":"MessageEvent",
                "llm_message":{{"role":"{role}","content":[{{"type":"text","text":"{lines}text {n}"}}]}}}}"#
            )
        })
        .collect();
    payloads
        .push(r#"{"id":"p","timestamp":"2026-01-01T01:00:00","source":"user","kind":"PauseEvent"}"#.into());
    let events: Vec<NewEvent> =
        payloads.into_iter().map(|payload| NewEvent::parse(payload).unwrap()).collect();
    store.append(&id, Expected::Empty, &events).unwrap();
    store
}

fn settings() -> Settings {
    Settings {
        options: Options { width: Some(WIDTH), lines_max: 20, skip_user_messages: false },
        speed: Speed::default(),
        only: Vec::new(),
        is_paused: false,
        ends: false,
    }
}

fn player(store: &Store, from: usize, settings: Settings) -> Player<'_> {
    let id = store.resolve("talk").unwrap();
    Player::new(store, Recording::new(store, &id, Point::End).unwrap(), from, settings).unwrap()
}

fn press(player: &mut Player<'_>, keys: &str) {
    for key in keys.chars() {
        let key = match key {
            '⏎' => Key::Enter,
            '⌫' => Key::Backspace,
            '⎋' => Key::Escape,
            '→' => Key::Right,
            '←' => Key::Left,
            '↑' => Key::Up,
            '↓' => Key::Down,
            '⇱' => Key::Home,
            '⇲' => Key::End,
            other => Key::Char(other),
        };
        assert_eq!(player.press(key).unwrap(), Flow::Go, "{key:?}");
    }
}

fn rows(player: &mut Player<'_>) -> Vec<String> {
    let frame = player.frame(WIDTH, HEIGHT).unwrap();
    assert_eq!(frame.rows.len(), HEIGHT - 1);
    assert!(frame.rows.iter().chain([&frame.status]).all(|row| row.width() <= WIDTH));
    frame.rows.iter().map(|row| row.plain().trim_end().to_owned()).collect()
}

fn status(player: &mut Player<'_>) -> String {
    player.frame(WIDTH, HEIGHT).unwrap().status.plain().trim().to_owned()
}

#[test]
fn it_plays_as_fast_as_it_was_but_never_waits_long() {
    let store = store();
    let mut player = player(&store, 7, settings());
    assert_eq!(player.wait().unwrap(), Some(Duration::from_secs(1)));
    press(&mut player, "++");
    assert_eq!(player.wait().unwrap(), Some(Duration::from_millis(200)));
    player.advance().unwrap();
    player.advance().unwrap();
    // The pause came an hour later.
    assert_eq!(player.wait().unwrap(), Some(Duration::from_secs(3)));
    player.advance().unwrap();
    assert_eq!((player.at(), player.wait().unwrap()), (Some(10), None));
    // At the end, playing starts again from the beginning.
    press(&mut player, " ");
    assert_eq!((player.at(), player.wait().unwrap()), (Some(0), Some(Duration::from_millis(200))));
}

#[test]
fn the_status_line_shows_the_place() {
    let store = store();
    let mut player = player(&store, 3, settings());
    assert_eq!(status(&mut player), "▶ 3/10  00:00:03  finished  step 2  1x      ? keys  q quit");
    press(&mut player, " -");
    assert_eq!(status(&mut player), "‖ 3/10  00:00:03  finished  step 2  0.5x    ? keys  q quit");
    assert_eq!(player.wait().unwrap(), None);
    press(&mut player, "⇲");
    assert!(status(&mut player).starts_with("■ 10/10  01:00:00  paused  step 5"));
}

#[test]
fn keys_go_through_the_events() {
    let store = store();
    let mut player = player(&store, 0, settings());
    press(&mut player, "n→⏎p");
    assert_eq!(player.at(), Some(2));
    press(&mut player, "⇱p");
    assert_eq!((player.at(), status(&mut player)), (Some(0), "that was the first event".into()));
    press(&mut player, "⇲n");
    assert_eq!((player.at(), status(&mut player)), (Some(10), "that was the last event".into()));
    assert_eq!(player.press(Key::Char('q')).unwrap(), Flow::Quit);
    assert_eq!(player.press(Key::Interrupt).unwrap(), Flow::Quit);
}

#[test]
fn a_jump_takes_a_sequence_an_id_or_a_time() {
    let store = store();
    let mut player = player(&store, 0, settings());
    for (typed, at) in [("4", 4), ("e7", 7), ("2026-01-01T00:00:02.5", 2), ("10", 10)] {
        press(&mut player, &format!("gx⌫{typed}⏎"));
        assert_eq!(player.at(), Some(at), "{typed}");
    }
    press(&mut player, "g99⏎");
    assert_eq!(player.at(), Some(10));
    assert!(status(&mut player).contains("99"));
    press(&mut player, "g1");
    assert_eq!(status(&mut player), "jump to (sequence, id, time): 1_");
    press(&mut player, "⎋");
    assert_eq!(player.at(), Some(10));
}

#[test]
fn a_filter_shows_a_kind_or_a_text() {
    let store = store();
    let mut player = player(&store, 0, settings());
    press(&mut player, "/TEXT 7⏎");
    assert_eq!(player.at(), Some(7));
    assert_eq!(rows(&mut player).iter().filter(|row| row.contains("Message")).count(), 1);
    press(&mut player, "/pause⏎");
    assert_eq!(player.at(), Some(10));
    press(&mut player, "/no such thing⏎");
    assert_eq!((player.at(), rows(&mut player)[0].as_str()), (None, "no event matches"));
    press(&mut player, "/⏎");
    assert_eq!(player.at(), Some(0));
    assert_eq!(player.wait().unwrap(), Some(Duration::from_secs(1)));
}

#[test]
fn options_leave_events_out() {
    let store = store();
    let only = Settings { only: vec!["Pause".into()], ..settings() };
    assert_eq!(player(&store, 0, only).at(), Some(10));
    let mut options = settings();
    options.options.skip_user_messages = true;
    let mut without = player(&store, 0, options);
    assert_eq!(without.at(), Some(1));
    press(&mut without, "n");
    assert_eq!(without.at(), Some(3));
    // The time of the skipped event is still waited for.
    press(&mut without, " ");
    assert_eq!(without.wait().unwrap(), Some(Duration::from_secs(2)));
}

#[test]
fn a_long_event_is_shown_from_its_title_on() {
    let store = store();
    let mut player = player(&store, 5, settings());
    let shown = rows(&mut player);
    assert_eq!(shown[0], "");
    assert!(shown[1].starts_with("── Message from Agent ─"), "{shown:?}");
    press(&mut player, "↑↑");
    assert_eq!(rows(&mut player)[1], "  text 4");
    // Scrolling down stops at the last row.
    press(&mut player, &"↓".repeat(50));
    assert_eq!(rows(&mut player)[HEIGHT - 2], "  text 5");
    press(&mut player, "e");
    let unfolded = rows(&mut player);
    assert!(unfolded.iter().all(|row| !row.contains("more lines")));
    press(&mut player, "⇱");
    assert_eq!(
        rows(&mut player)[..4],
        ["", "── Message from User ──────────────────────── #0 00:00:00 ──", "  text 0", ""]
    );
}

#[test]
fn help_shows_the_keys_until_the_next_key() {
    let store = store();
    let mut player = player(&store, 5, settings());
    press(&mut player, "?");
    assert!(rows(&mut player)[0].contains("pause"));
    assert_eq!(player.wait().unwrap(), None);
    press(&mut player, "n");
    assert_eq!(player.at(), Some(5));
}

#[test]
fn with_no_pause_the_player_ends_after_the_last_event() {
    let store = store();
    let mut player = player(&store, 9, Settings { ends: true, ..settings() });
    assert!(!player.is_over().unwrap());
    player.advance().unwrap();
    assert!(player.is_over().unwrap());
}
