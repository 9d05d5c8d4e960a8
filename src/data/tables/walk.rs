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

/// A walk over the rows of a table that are to be used.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) seen: usize,
    pub(super) dropped: usize,
    /// In how many of the rows left out each input and, last, the target is missing.
    lost: Vec<usize>,
}

impl Walk {
    /// Steps to the next row to be used.
    pub(super) fn next(
        &mut self,
        table: &mut dyn Table,
        inputs: &[ColumnReader],
        output: Option<&Output>,
        missing: Missing,
    ) -> Result<Option<Place>> {
        while let Some(row) = table.advance()? {
            self.seen += 1;
            if missing != Missing::Reject && self.lacks(table, inputs, output, missing)? {
                self.dropped += 1;
                continue;
            }
            return Ok(Some(Place { row, record: self.seen - 1 }));
        }
        Ok(None)
    }

    /// Whether the row lacks a cell that it needs. Counts such cells by column.
    fn lacks(
        &mut self,
        table: &dyn Table,
        inputs: &[ColumnReader],
        output: Option<&Output>,
        missing: Missing,
    ) -> Result<bool> {
        self.lost.resize(inputs.len() + 1, 0);
        let inputs = if missing == Missing::Drop { inputs } else { &[] };
        let target = output.filter(|output| output.needed).map(|output| &output.reader);
        let last = self.lost.len() - 1;
        let mut lacks = false;
        for (place, reader) in (0..).zip(inputs).chain(target.map(|reader| (last, reader))) {
            if reader.lacks(&table.cell(reader.index)?) {
                self.lost[place] += 1;
                lacks = true;
            }
        }
        Ok(lacks)
    }

    /// What the rows left out are, if there are any. Refuses a table without any row to be used, and to train on less
    /// than half of the rows.
    pub(super) fn end(
        self,
        layout: &Layout,
        inputs: &[ColumnReader],
        output: Option<&Output>,
        training: bool,
    ) -> Result<Option<Advice>> {
        let Self { seen, dropped, lost } = self;
        let columns = inputs.iter().chain(output.map(|output| &output.reader)).map(|reader| reader.index);
        let mut costs: Vec<(usize, &str)> =
            lost.into_iter().zip(columns.map(|at| layout.names[at].as_str())).filter(|(rows, _)| *rows > 0).collect();
        costs.sort_by_key(|cost| std::cmp::Reverse(cost.0));
        let each: Vec<String> =
            costs.iter().take(MOST_NAMED).map(|(rows, name)| format!("`{name}` in {rows}")).collect();
        let more = costs.len() - each.len();
        let more = if more > 0 { format!(" and {more} more columns") } else { String::new() };
        let each = each.join(", ") + &more;
        if seen == 0 {
            return Err(layout.error("there is a header but no row of data"));
        }
        if dropped == seen || (training && 2 * dropped > seen) {
            let of = if dropped == seen { "all".into() } else { format!("{dropped} of") };
            let problem = format!(
                "{of} {seen} rows have missing cells: {each}; leave out such columns, or put means in their cells"
            );
            let Advice { text, settings } =
                dropping(problem.into(), costs[0].1).set("ReadOptions::missing", "indicate");
            return Err(layout.error(text).advised(settings));
        }
        let text = format!("{dropped} of {seen} rows with missing cells left out: {each}");
        Ok((dropped > 0).then(|| text.into()))
    }
}

/// Most columns that a message names.
pub(super) const MOST_NAMED: usize = 8;
