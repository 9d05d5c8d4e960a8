//! Sums over parts that may lie on several processes. One binary tree adds them, so any number of processes gives the
//! same bits.

use std::ops::Range;

use super::parts::share;
use crate::error::{Error, Result};

/// The number of parts for so many rows, at most `most`. It is a power of two, so that the parts of each of 1, 2, 4, …
/// processes are whole branches of the tree. No part is empty.
pub(super) fn count(rows: usize, most: usize) -> usize {
    most.min(1 << rows.max(1).ilog2())
}

/// The rows of each of at most `most` parts of `n` rows.
pub(crate) fn split(n: usize, most: usize) -> Vec<Vec<usize>> {
    let count = count(n, most);
    (0..count).map(|part| share(n, part, count).collect()).collect()
}

/// Adds the sums of neighbours that form one branch of the tree, until no such neighbours are left. A branch is written
/// as its first part, the part after its last, and its sums.
pub(super) fn merged(branches: impl IntoIterator<Item = (Range<usize>, Vec<f64>)>) -> Vec<Vec<f64>> {
    let mut done: Vec<(Range<usize>, Vec<f64>)> = Vec::new();
    for (mut range, mut sums) in branches {
        while let Some((before, mut first)) = done.pop_if(|(before, _)| {
            before.len() == range.len() && before.end == range.start && before.start.is_multiple_of(2 * range.len())
        }) {
            first.iter_mut().zip(&sums).for_each(|(sum, more)| *sum += more);
            (range, sums) = (before.start..range.end, first);
        }
        done.push((range, sums));
    }
    let written = |(range, sums): (Range<usize>, Vec<f64>)| [vec![range.start as f64, range.end as f64], sums].concat();
    done.into_iter().map(written).collect()
}

/// The sums over all parts, `len` numbers, from the branches of all processes.
///
/// # Errors
/// [`Error::Shape`] for another count of numbers, or if a part is missing.
pub(super) fn total(branches: Vec<Vec<f64>>, len: usize) -> Result<Vec<f64>> {
    let read = branches.into_iter().filter(|branch| branch.len() >= 2).map(|mut branch| {
        let sums = branch.split_off(2);
        (branch[0] as usize..branch[1] as usize, sums)
    });
    let all = merged(read);
    match &all[..] {
        [all] if all.len() == 2 + len && all[0] == 0.0 => Ok(all[2..].to_vec()),
        _ => {
            let found = all.iter().map(|branch| branch.len() - 2).sum::<usize>();
            Err(Error::shape("sums over rows", len.to_string(), format!("{found} in {} branches", all.len())))
        }
    }
}
