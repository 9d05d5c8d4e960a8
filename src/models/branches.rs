//! Sums over parts that may lie on several ranks. One binary tree adds them, so any number of ranks gives the same
//! bits.

use std::ops::Range;

use serde_json::json;

use crate::error::{Error, Result};
use crate::exchange::{Message, put, take};

/// The range of consecutive parts, and the sums over them.
pub(in crate::models) type Branch = (Range<usize>, Vec<f64>);

/// The number of parts for so many rows, at most `most`. It is a power of two, so that the parts of each of 1, 2, 4, …
/// ranks are whole branches of the tree. No part is empty.
pub(in crate::models) fn count(rows: usize, most: usize) -> usize {
    most.min(1 << rows.max(1).ilog2())
}

/// The rows of a part.
pub(in crate::models) fn rows(n: usize, part: usize, count: usize) -> Range<usize> {
    n * part / count..n * (part + 1) / count
}

/// Adds the sums of neighbours that form one branch of the tree, until no such neighbours are left.
pub(in crate::models) fn merged(branches: Vec<Branch>) -> Vec<Branch> {
    let mut done: Vec<Branch> = Vec::new();
    for (mut range, mut sums) in branches {
        while let Some((before, _)) = done.last()
            && before.len() == range.len()
            && before.end == range.start
            && before.start.is_multiple_of(2 * range.len())
        {
            let Some((before, mut first)) = done.pop() else { break };
            first.iter_mut().zip(&sums).for_each(|(sum, more)| *sum += more);
            (range, sums) = (before.start..range.end, first);
        }
        done.push((range, sums));
    }
    done
}

/// The sums of one rank as a message, added up as far as the tree allows without the other ranks.
pub(in crate::models) fn written(branches: Vec<Branch>) -> Message {
    let mut message = Message { document: json!({}), ..Message::default() };
    put(&mut message, "ranges", branches.iter().flat_map(|(r, _)| [r.start as f64, r.end as f64]).collect());
    put(&mut message, "sums", branches.into_iter().flat_map(|(_, sums)| sums).collect());
    message
}

fn read(mut message: Message) -> Result<Vec<Branch>> {
    let (ranges, sums) = (take(&mut message, "ranges")?, take(&mut message, "sums")?);
    let count = ranges.len() / 2;
    let ranges = ranges.chunks(2).map(|ends| ends[0] as usize..ends[1] as usize);
    Ok(ranges.zip(sums.chunks((sums.len() / count.max(1)).max(1)).map(<[f64]>::to_vec)).collect())
}

/// The sums over all parts, `len` numbers, from the messages of all ranks.
pub(in crate::models) fn total(answers: Vec<Message>, len: usize) -> Result<Vec<f64>> {
    let branches = answers.into_iter().map(read).collect::<Result<Vec<_>>>()?.concat();
    let numbers = merged(branches).pop().map(|(_, numbers)| numbers).unwrap_or_default();
    match numbers.len() == len {
        true => Ok(numbers),
        false => Err(Error::shape("sums over rows", len.to_string(), numbers.len().to_string())),
    }
}
