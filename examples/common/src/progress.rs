//! A bar that fills while something is done, on the terminal if there is one.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Characters of the bar.
const WIDTH: usize = 40;
/// A bar is not drawn more often.
const INTERVAL: Duration = Duration::from_millis(50);

/// How much of a task is done. Where standard error is no terminal, nothing is drawn.
pub struct Progress {
    what: String,
    done: usize,
    total: usize,
    drawn: Option<Instant>,
    on_terminal: bool,
}

impl Progress {
    /// A task of `total` steps.
    pub fn new(what: &str, total: usize) -> Self {
        let on_terminal = stderr().is_terminal();
        let mut progress = Progress { what: what.to_owned(), done: 0, total, drawn: None, on_terminal };
        progress.draw();
        progress
    }

    /// That `steps` more are done.
    pub fn advance(&mut self, steps: usize) {
        self.done += steps;
        if self.done >= self.total || self.drawn.is_none_or(|at| at.elapsed() >= INTERVAL) {
            self.draw();
        }
    }

    /// That all is done.
    pub fn finish(&mut self) {
        if self.done < self.total {
            self.advance(self.total - self.done);
        }
    }

    fn draw(&mut self) {
        if !self.on_terminal {
            return;
        }
        self.drawn = Some(Instant::now());
        let end = if self.done >= self.total { "\n" } else { "" };
        // A terminal that cannot be written to is no reason to stop.
        let _ = write!(stderr(), "\r{}{end}", self.line());
        let _ = stderr().flush();
    }

    fn line(&self) -> String {
        let filled = (WIDTH * self.done.min(self.total)).checked_div(self.total).unwrap_or(WIDTH);
        let bar = "#".repeat(filled) + &"-".repeat(WIDTH - filled);
        format!("{} [{bar}] {} of {}", self.what, self.done, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::{Progress, WIDTH};

    #[test]
    fn the_bar_fills() {
        let mut progress = Progress::new("reading", 4);
        let filled = |p: &Progress| p.line().matches('#').count();
        assert_eq!(filled(&progress), 0);
        progress.advance(1);
        assert_eq!((filled(&progress), progress.line().ends_with("1 of 4")), (WIDTH / 4, true));
        progress.advance(9);
        assert_eq!(filled(&progress), WIDTH);
        assert_eq!(filled(&Progress::new("nothing", 0)), WIDTH);
    }
}
