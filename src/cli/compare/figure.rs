//! Scores with their errors against the time they took.

use std::path::Path;

use cagey::Result;
use cagey::plot::{Figure, Frame, Scored, Scores};

use super::candidate::{Candidate, mean_and_error};

/// Draws the candidates.
pub fn draw(candidates: &[Candidate], path: &Path) -> Result<()> {
    let all: Vec<Scored> = candidates
        .iter()
        .map(|candidate| {
            let (score, error) = mean_and_error(&candidate.rows());
            let seconds = candidate.over_folds(|run| run.seconds);
            Scored { name: &candidate.name, seconds, score, error: error.unwrap_or(0.0) }
        })
        .collect();
    let name = candidates.first().map_or("", |candidate| candidate.runs[0].scores.name);
    Scores { all: &all, frame: Frame { y: name, ..Frame::default() } }.save(path)
}
