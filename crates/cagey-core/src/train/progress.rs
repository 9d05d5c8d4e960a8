//! A progress bar.

use std::io::IsTerminal;
use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Observer, Outcome, Plan, Report};

/// A bar on standard error with the loss per datum, steps per second and the time left. Silent when standard error is
/// not a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    restarts: usize,
    restart: usize,
}

impl Progress {
    /// A bar that appears when the training starts.
    pub fn new() -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { bar: ProgressBar::with_draw_target(Some(0), target), restarts: 1, restart: 0 }
    }

    /// Whether nothing is drawn.
    pub fn is_silent(&self) -> bool {
        self.bar.is_hidden()
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Progress {
    fn start(&mut self, plan: &Plan) {
        self.restarts = plan.restarts;
        let template = "{prefix}{bar:30} {pos}/{len} {msg} {per_sec} {eta} left";
        // The template is a constant. If it were wrong, the default style would do.
        self.bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    }

    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        if self.restarts > 1 {
            self.bar.set_prefix(format!("restart {}/{} ", report.restart + 1, self.restarts));
        }
        self.bar.set_length(report.limit as u64);
        self.bar.set_position(report.iteration as u64);
        if report.restart != self.restart {
            self.restart = report.restart;
            self.bar.reset_eta();
        }
        self.bar.set_message(format!("loss {:.5}", report.smoothed));
        ControlFlow::Continue(())
    }

    fn finish(&mut self, outcome: &Outcome) {
        self.bar.abandon_with_message(format!("loss {:.5}, {}", outcome.loss, outcome.termination));
    }
}
