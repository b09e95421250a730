//! Takes over the terminal while a conversation is result, and restores it in every case.

use std::io::{Write as _, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate,
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue, style};

use super::player::{Flow, Frame, Key, Player};
#[cfg(unix)]
use crate::cli::ends;
use crate::cli::print::Output;
use crate::error::{Error, Result};

/// The maximum time until a signal is noticed.
const TICK: Duration = Duration::from_millis(200);
/// The minimum time between two frames.
const FRAME: Duration = Duration::from_millis(16);

/// Plays until a key or a signal ends it, or until the end of the conversation if the player ends there.
pub(super) fn play(player: &mut Player<'_>, output: &Output) -> Result<()> {
    let signal = signals()?;
    let mut screen = Screen::enter()?;
    let result = play_on(&mut screen, player, &signal, output);
    drop(screen);
    // The process ends by the signal itself, so that its sender sees that.
    #[cfg(unix)]
    if let Ok(signal @ 1..) = i32::try_from(signal.load(Ordering::Relaxed)) {
        ends::by_signal(signal);
    }
    result
}

fn play_on(
    screen: &mut Screen,
    player: &mut Player<'_>,
    signal: &AtomicUsize,
    output: &Output,
) -> Result<()> {
    let mut shown_at = Instant::now();
    let mut is_stale = true;
    loop {
        if is_stale {
            let (width, height) = size().map_err(failed)?;
            let frame = player.frame(usize::from(width).max(1), usize::from(height).max(1))?;
            screen.draw(&frame, output)?;
            is_stale = false;
        }
        if signal.load(Ordering::Relaxed) != 0 || player.is_over()? {
            return Ok(());
        }
        let due = player.wait()?.map(|wait| shown_at + wait.max(FRAME));
        let now = Instant::now();
        if due.is_some_and(|due| due <= now) {
            player.advance()?;
            // Events that are due at the same time are shown in one frame.
            while player.wait()? == Some(Duration::ZERO) && now.elapsed() < FRAME {
                player.advance()?;
            }
            (shown_at, is_stale) = (now, true);
        }
        let timeout = due.map_or(TICK, |due| due.saturating_duration_since(now).min(TICK));
        if !poll(if is_stale { Duration::ZERO } else { timeout }).map_err(failed)? {
            continue;
        }
        let before = player.at();
        match read().map_err(failed)? {
            Event::Key(key) if is_suspend(&key) => screen.suspend()?,
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if let Some(key) = player_key(&key)
                    && player.press(key)? == Flow::Quit
                {
                    return Ok(());
                }
            }
            _ => {}
        }
        if player.at() != before {
            shown_at = Instant::now();
        }
        is_stale = true;
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::io("using", "the terminal")(source)
}

/// Converts a key of the terminal to a key of the player. `None` if it has no meaning.
fn player_key(key: &KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Some(Key::Interrupt),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char(character) if !character.is_control() => Key::Char(character),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

fn is_suspend(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char('z') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Catches the signals that end the program. Returns the cell with the received signal, which is 0 before one arrives.
fn signals() -> Result<Arc<AtomicUsize>> {
    let signal = Arc::new(AtomicUsize::new(0));
    #[cfg(unix)]
    for number in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        let value = usize::try_from(number).unwrap_or(0);
        signal_hook::flag::register_usize(number, signal.clone(), value).map_err(failed)?;
        ends::takes_over(&[number]);
    }
    Ok(signal)
}

/// The terminal while it is taken over. Dropping it puts the terminal back.
struct Screen;

impl Screen {
    fn enter() -> Result<Self> {
        let screen = Self;
        take().map_err(failed)?;
        // A panic's message on this screen would be lost with the screen, so the terminal is restored first.
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            put_back();
            previous_hook(panic);
        }));
        Ok(screen)
    }

    fn draw(&mut self, frame: &Frame, output: &Output) -> Result<()> {
        let mut out = stdout().lock();
        let mut write = || -> std::io::Result<()> {
            queue!(out, BeginSynchronizedUpdate, cursor::MoveTo(0, 0))?;
            for row in &frame.rows {
                queue!(out, Clear(ClearType::CurrentLine), style::Print(output.paint(row)))?;
                queue!(out, style::Print("\r\n"))?;
            }
            queue!(out, Clear(ClearType::CurrentLine), style::Print(output.paint_reversed(&frame.status)))?;
            queue!(out, EndSynchronizedUpdate)?;
            out.flush()
        };
        write().map_err(failed)
    }

    /// Stops the program, as Ctrl-Z usually does, and takes over the terminal again when the program continues.
    fn suspend(&mut self) -> Result<()> {
        #[cfg(unix)]
        {
            put_back();
            signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP).map_err(failed)?;
            take().map_err(failed)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put_back();
        if !std::thread::panicking() {
            drop(std::panic::take_hook());
        }
    }
}

fn take() -> std::io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, DisableLineWrap, cursor::Hide)
}

/// Restores the terminal. Errors are ignored, because they can no longer be reported.
fn put_back() {
    let _ = execute!(stdout(), cursor::Show, EnableLineWrap, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}
