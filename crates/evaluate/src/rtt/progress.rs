//! What a run says while it goes on.

use std::io::Write;
use std::time::Instant;

const BAR_CELLS: usize = 30;

/// Listens to a run. Called between blocks only, so that nothing it does is measured.
pub trait Progress {
    /// Something worth a line: an arm is ready, an arm is skipped.
    fn say(&mut self, line: &str);

    /// A block begins: its clients connect and warm up.
    fn block(&mut self, step: &Step<'_>);

    /// Its warm-up is over.
    fn measuring(&mut self) {}

    /// The run is over.
    fn done(&mut self);
}

/// Where a run is.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Blocks done, of all arms and cells.
    pub done: usize,
    /// Blocks in all.
    pub total: usize,
    /// The arm that is next.
    pub arm: &'a str,
    /// Number of its block, from 1.
    pub block: u32,
    /// Blocks of every arm and cell.
    pub blocks: u32,
}

/// A bar that is drawn over itself.
pub struct Bar<W> {
    out: W,
}

impl<W: Write> Bar<W> {
    /// `out` is a terminal.
    pub fn new(out: W) -> Bar<W> {
        Bar { out }
    }

    fn show(&mut self, text: &str) {
        // A terminal that is gone must not end a measurement.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<W: Write> Progress for Bar<W> {
    fn say(&mut self, line: &str) {
        self.show(&format!("\r\x1b[K{line}\n"));
    }

    fn block(&mut self, step: &Step<'_>) {
        let filled = step.done * BAR_CELLS / step.total.max(1);
        let bar = "#".repeat(filled) + &"-".repeat(BAR_CELLS - filled);
        self.show(&format!("\r\x1b[K  [{bar}] {}", describe(step)));
    }

    fn done(&mut self) {
        self.show("\r\x1b[K");
    }
}

/// Plain lines, one every tenth of the way: for logs.
pub struct Lines<W> {
    out: W,
    last_tenth: Option<usize>,
    started: Instant,
}

impl<W: Write> Lines<W> {
    /// `out` is any text stream.
    pub fn new(out: W) -> Lines<W> {
        Lines {
            out,
            last_tenth: None,
            started: Instant::now(),
        }
    }
}

impl<W: Write> Progress for Lines<W> {
    fn say(&mut self, line: &str) {
        // As for the bar.
        let _ = writeln!(self.out, "{line}");
    }

    fn block(&mut self, step: &Step<'_>) {
        let tenth = step.done * 10 / step.total.max(1);
        if self.last_tenth.replace(tenth) != Some(tenth) {
            let elapsed_s = self.started.elapsed().as_secs();
            self.say(&format!("  {} ({elapsed_s} s)", describe(step)));
        }
    }

    fn done(&mut self) {
        self.say(&format!("  100 % ({} s)", self.started.elapsed().as_secs()));
    }
}

fn describe(step: &Step<'_>) -> String {
    let percent = step.done * 100 / step.total.max(1);
    format!(
        "{percent:3} %   arm {}, block {} of {}",
        step.arm, step.block, step.blocks
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step<'_> = Step {
        done: 71,
        total: 100,
        arm: "mosquitto",
        block: 4,
        blocks: 5,
    };

    #[test]
    fn the_bar_says_how_far_which_arm_and_which_block() {
        let mut out = Vec::new();
        Bar::new(&mut out).block(&STEP);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.ends_with("[#####################---------]  71 %   arm mosquitto, block 4 of 5"),
            "{text}"
        );
    }

    #[test]
    fn plain_lines_come_once_for_a_tenth() {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out);
        lines.block(&STEP);
        lines.block(&Step { done: 72, ..STEP });
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 1);
    }
}
