//! A walk over the rows of a table that are to be used, and what the others lack.

use super::column::{ColumnReader, dropping};
use super::options::Missing;
use super::table::{Layout, Table};
use crate::Result;
use crate::advice::Advice;

/// The target column while rows are read.
pub(super) struct Output {
    pub(super) reader: ColumnReader,
    pub(super) needed: bool,
}

/// The place of a row in its file.
#[derive(Debug, Clone, Copy)]
pub(in crate::data) struct Place {
    /// The row number, from 1: the line of a text file, header included.
    pub(in crate::data) row: usize,
    /// The position among the rows of data, from 0.
    pub(in crate::data) record: usize,
}

/// What a walk over the rows of a table found.
#[derive(Debug)]
pub(super) struct Walked {
    /// The number of rows that were used.
    pub(super) rows: usize,
    /// The number of rows left out because of missing cells.
    pub(super) dropped: usize,
    /// What these are, if there are any.
    pub(super) note: Option<Advice>,
}

/// Passes each row to be used to `take`: its place, one value for each input, and the target. Targets that are not
/// needed end at the first that cannot be read. Categories and classes are codes by first appearance.
pub(super) fn walk(
    table: &mut dyn Table,
    inputs: &mut [ColumnReader],
    mut output: Option<&mut Output>,
    (missing, training): (Missing, bool),
    mut take: impl FnMut(&dyn Table, Place, &[f64], Option<f64>) -> Result<()>,
) -> Result<Walked> {
    let (mut seen, mut dropped, mut values) = (0, 0, Vec::with_capacity(inputs.len()));
    // In how many of the rows left out each input and, last, the target is missing.
    let mut lost = vec![0; inputs.len() + 1];
    while let Some(row) = table.advance()? {
        let record = seen;
        seen += 1;
        if missing != Missing::Reject && lacks(table, inputs, output.as_deref(), missing, &mut lost)? {
            dropped += 1;
            continue;
        }
        values.clear();
        for reader in inputs.iter_mut() {
            values.push(reader.read(table, row)?);
        }
        let target = match output.as_mut().map(|output| (output.needed, output.reader.read(table, row))) {
            Some((true, Err(problem))) => return Err(problem),
            Some((_, read)) => read.ok(),
            None => None,
        };
        if target.is_none() {
            output = None;
        }
        take(table, Place { row, record }, &values, target)?;
    }
    let columns = inputs.iter().chain(output.map(|output| &output.reader)).map(|reader| reader.index);
    let note = left_out(table.layout(), (seen, dropped), lost.into_iter().zip(columns), training)?;
    Ok(Walked { rows: seen - dropped, dropped, note })
}

/// Whether the row lacks a cell that it needs. Counts such cells by column.
fn lacks(
    table: &dyn Table,
    inputs: &[ColumnReader],
    output: Option<&Output>,
    missing: Missing,
    lost: &mut [usize],
) -> Result<bool> {
    let inputs = if missing == Missing::Drop { inputs } else { &[] };
    let target = output.filter(|output| output.needed).map(|output| &output.reader);
    let last = lost.len() - 1;
    let mut lacks = false;
    for (place, reader) in (0..).zip(inputs).chain(target.map(|reader| (last, reader))) {
        if reader.lacks(&table.cell(reader.index)?) {
            lost[place] += 1;
            lacks = true;
        }
    }
    Ok(lacks)
}

/// What the rows left out are, if there are any, by how many of them lack which column. Refuses a table without any row
/// to be used, and to train on less than half of the rows.
fn left_out(
    layout: &Layout,
    (seen, dropped): (usize, usize),
    lost: impl Iterator<Item = (usize, usize)>,
    training: bool,
) -> Result<Option<Advice>> {
    if seen == 0 {
        return Err(layout.error("there is a header but no row of data"));
    }
    let lost = lost.filter(|(rows, _)| *rows > 0);
    let mut costs: Vec<(usize, &str)> = lost.map(|(rows, at)| (rows, layout.names[at].as_str())).collect();
    costs.sort_by_key(|cost| std::cmp::Reverse(cost.0));
    let each: Vec<String> = costs.iter().take(MOST_NAMED).map(|(rows, name)| format!("`{name}` in {rows}")).collect();
    let more = costs.len() - each.len();
    let more = if more > 0 { format!(" and {more} more columns") } else { String::new() };
    let each = each.join(", ") + &more;
    if dropped == seen || (training && 2 * dropped > seen) {
        let of = if dropped == seen { "all".into() } else { format!("{dropped} of") };
        let problem =
            format!("{of} {seen} rows have missing cells: {each}; leave out such columns, or put means in their cells");
        let Advice { text, settings } = dropping(problem.into(), costs[0].1).set("ReadOptions::missing", "indicate");
        return Err(layout.error(text).advised(settings));
    }
    let text = format!("{dropped} of {seen} rows with missing cells left out: {each}");
    Ok((dropped > 0).then(|| text.into()))
}

/// Most columns that a message names.
pub(super) const MOST_NAMED: usize = 8;
