//! Reading files into data sets.

use std::collections::HashSet;
use std::path::Path;

use super::cell::Cell;
use super::column::ColumnReader;
use super::options::{Missing, ReadOptions, TargetKind};
use super::selection::{has_names, locate, names_target, select};
use super::source::open;
use super::table::{Layout, Table, positional_names};
use crate::Result;
use crate::data::classes::Classes;
use crate::data::dataset::{Dataset, TextColumns};
use crate::data::schema::{Column, Encoding, Schema};

/// Reads training data and finds out how to encode each column.
///
/// Without options the last column is the target, all others are features, and every cell must be a number.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the file cannot be read, [`Error::Data`](crate::Error::Data) if its contents do
/// not fit; the message names row and column.
pub fn read_training(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(Schema, Dataset)> {
    let mut training = Training::open(path.as_ref(), options)?;
    let Training { table, inputs, output } = &mut training;
    let mut raw = collect(&mut **table, inputs, Some(output), options)?;
    let (schema, codes) = training.finish();
    codes.recode_inputs(&mut raw.values);
    codes.recode_targets(raw.dataset.y.as_deref_mut().unwrap_or_default());
    let dataset = raw.encode(&schema);
    Ok((schema, dataset))
}

/// A table of training data, and the readers of its columns.
struct Training {
    table: Box<dyn Table>,
    inputs: Vec<ColumnReader>,
    output: Output,
}

impl Training {
    fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        let wanted: HashSet<&str> = options
            .target
            .iter()
            .chain(options.features.iter().flatten())
            .chain(&options.drop)
            .map(String::as_str)
            .collect();
        let dropped: HashSet<&str> = options.drop.iter().map(String::as_str).collect();
        let table = open(path, options, &|cells, next| {
            let target = match &options.target {
                Some(name) => positional_names(cells.len()).iter().position(|column| column == name),
                None => cells.len().checked_sub(1),
            };
            // In a column of labels, a label does not indicate a header.
            let labels = target.filter(|_| options.target_kind != TargetKind::Numbers);
            let used = |column: usize| {
                Some(column) != labels
                    && !dropped.contains(format!("c{column}").as_str())
                    && (options.features.is_none()
                        || wanted.contains(format!("c{column}").as_str())
                        || (options.target.is_none() && column + 1 == cells.len()))
            };
            has_names(cells, &wanted, &HashSet::new(), used)
                || labels.is_some_and(|target| names_target(cells, next, target))
        })?;
        let layout = table.layout();
        let (features, target) = select(layout, options)?;
        let categorical: HashSet<&str> = options.categorical.iter().map(String::as_str).collect();
        let inputs = features
            .iter()
            .map(|&index| ColumnReader::feature(index, categorical.contains(layout.names[index].as_str()), options))
            .collect();
        let classes = options.classes.clone().map(Classes::in_order).transpose()?;
        let kind = match options.categorical.contains(&layout.names[target]) {
            true => TargetKind::Classes,
            false => options.target_kind,
        };
        let reader = ColumnReader::target(target, kind, classes.as_ref());
        let output = Output { reader, needed: true };
        Ok(Self { table, inputs, output })
    }

    /// The schema and the codes that were found.
    fn finish(self) -> (Schema, Codes) {
        let (names, target) = (&self.table.layout().names, self.output.reader.index);
        let found = self.inputs.into_iter().map(|reader| {
            let index = reader.index;
            let (encoding, codes) = reader.finish();
            (Column { name: names[index].clone(), index, encoding }, codes)
        });
        let (features, inputs) = found.unzip();
        let (classes, codes) = self.output.reader.classes().unzip();
        let schema =
            Schema { features, target: names[target].clone(), target_index: target, width: names.len(), classes };
        (schema, Codes { inputs, target: codes })
    }
}

/// Passes each complete row of a table to `take`: its place, one value for each feature and, last, the target.
/// Categories and classes are codes by first appearance. `take` stores what it needs.
///
/// # Errors
/// As [`read_training`], and errors of `take`.
pub(in crate::data) fn stream_training(
    path: &Path,
    options: &ReadOptions,
    mut take: impl FnMut(Place, &[f64]) -> Result<()>,
) -> Result<Streamed> {
    let mut training = Training::open(path, options)?;
    let Training { table, inputs, output } = &mut training;
    let (mut walk, mut values) = (Walk::default(), Vec::with_capacity(inputs.len() + 1));
    while let Some(place) = walk.next(&mut **table, inputs, Some(output), options.missing)? {
        values.clear();
        for reader in inputs.iter_mut().chain([&mut output.reader]) {
            values.push(reader.read(&**table, place.row)?);
        }
        take(place, &values)?;
    }
    let Walk { seen, dropped } = walk.end(table.layout())?;
    let (schema, codes) = training.finish();
    Ok(Streamed { schema, codes, rows: seen - dropped, dropped })
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
struct Walk {
    seen: usize,
    dropped: usize,
}

impl Walk {
    /// Steps to the next row to be used.
    fn next(
        &mut self,
        table: &mut dyn Table,
        inputs: &[ColumnReader],
        output: Option<&Output>,
        missing: Missing,
    ) -> Result<Option<Place>> {
        while let Some(row) = table.advance()? {
            self.seen += 1;
            if missing == Missing::Drop && has_missing(table, inputs, output)? {
                self.dropped += 1;
                continue;
            }
            return Ok(Some(Place { row, record: self.seen - 1 }));
        }
        Ok(None)
    }

    /// Refuses a table without any row to be used.
    fn end(self, layout: &Layout) -> Result<Self> {
        match (self.seen, self.seen - self.dropped) {
            (0, _) => Err(layout.error("there is a header but no row of data")),
            (n, 0) => {
                let problem = format!("all {n} rows have missing values; leave out columns instead");
                Err(layout.error(problem).about("ReadOptions::features"))
            }
            _ => Ok(self),
        }
    }
}

/// What is known about a table after its last row.
pub(in crate::data) struct Streamed {
    pub(in crate::data) schema: Schema,
    pub(in crate::data) codes: Codes,
    pub(in crate::data) rows: usize,
    /// The number of rows left out because of missing cells.
    pub(in crate::data) dropped: usize,
}

/// The final code for each code by first appearance, in columns with codes.
pub(in crate::data) struct Codes {
    inputs: Vec<Option<Vec<usize>>>,
    target: Option<Vec<usize>>,
}

impl Codes {
    /// Whether any column has codes.
    pub(in crate::data) fn any(&self) -> bool {
        self.target.is_some() || self.inputs.iter().any(Option::is_some)
    }

    /// Replaces codes in rows with one value for each column.
    pub(in crate::data) fn recode_inputs(&self, values: &mut [f64]) {
        let width = self.inputs.len();
        for (place, codes) in self.inputs.iter().enumerate() {
            if let Some(codes) = codes {
                values.iter_mut().skip(place).step_by(width).for_each(|code| *code = codes[*code as usize] as f64);
            }
        }
    }

    pub(in crate::data) fn recode_targets(&self, y: &mut [f64]) {
        if let Some(codes) = &self.target {
            y.iter_mut().for_each(|code| *code = codes[*code as usize] as f64);
        }
    }
}

/// Reads data for a model that was trained with `schema`.
///
/// Columns are found by name. Without a header they are found by position, in a file that is as wide as the training
/// file or has only the features. Other columns are ignored. So are [`ReadOptions::target`] and the other options that
/// `schema` decides. Unless `need_target`, the target column may be missing or incomplete; [`Dataset::y`] is then
/// `None`.
///
/// # Errors
/// As [`read_training`], and for categories that `schema` does not know.
pub fn read_with_schema(
    path: impl AsRef<Path>,
    schema: &Schema,
    options: &ReadOptions,
    need_target: bool,
) -> Result<Dataset> {
    let wanted: HashSet<&str> =
        schema.features.iter().map(|column| column.name.as_str()).chain([schema.target.as_str()]).collect();
    let places: HashSet<usize> = schema.features.iter().map(|column| column.index).collect();
    let categories: HashSet<&str> = schema
        .features
        .iter()
        .flat_map(|column| match &column.encoding {
            Encoding::OneHot(categories) => categories.iter().map(String::as_str).collect(),
            Encoding::Numeric | Encoding::Date => Vec::new(),
        })
        .chain(schema.classes.iter().flat_map(|classes| classes.labels().iter().map(String::as_str)))
        .collect();
    let mut table = open(path.as_ref(), options, &|cells, _| {
        let used = |column| cells.len() != schema.width || column == schema.target_index || places.contains(&column);
        has_names(cells, &wanted, &categories, used)
    })?;
    let (features, target) = locate(table.layout(), schema, need_target)?;
    let mut inputs: Vec<ColumnReader> = features
        .into_iter()
        .zip(&schema.features)
        .map(|(index, column)| ColumnReader::trained(index, &column.encoding))
        .collect();
    let mut output = target.map(|index| Output {
        reader: ColumnReader::trained_target(index, schema.classes.as_ref()),
        needed: need_target,
    });
    Ok(collect(&mut *table, &mut inputs, output.as_mut(), options)?.encode(schema))
}

/// The target column while rows are read.
struct Output {
    reader: ColumnReader,
    needed: bool,
}

/// Rows with one value for each column; categories are still codes.
struct Raw {
    values: Vec<f64>,
    dataset: Dataset,
}

impl Raw {
    fn encode(self, schema: &Schema) -> Dataset {
        Dataset {
            x: schema.encode(self.values),
            d: schema.d(),
            feature_names: schema.feature_names(),
            target_name: schema.target.clone(),
            ..self.dataset
        }
    }
}

fn collect(
    table: &mut dyn Table,
    inputs: &mut [ColumnReader],
    mut output: Option<&mut Output>,
    options: &ReadOptions,
) -> Result<Raw> {
    let mut values = Vec::new();
    let mut y = output.is_some().then(Vec::new);
    let mut data = Dataset::default();
    let mut kept = options.keep.then(|| TextColumns { names: table.layout().names.clone(), records: Vec::new() });
    let mut walk = Walk::default();
    while let Some(Place { row, record }) = walk.next(table, inputs, output.as_deref(), options.missing)? {
        for reader in inputs.iter_mut() {
            values.push(reader.read(table, row)?);
        }
        if let (Some(output), Some(targets)) = (output.as_mut(), y.as_mut()) {
            match output.reader.read(table, row) {
                Ok(target) => targets.push(target),
                Err(problem) if output.needed => return Err(problem),
                Err(_) => y = None,
            }
        }
        data.rows.push(row);
        data.records.push(record);
        if let Some(kept) = kept.as_mut() {
            kept.records.push(text(table)?);
        }
    }
    let Walk { dropped, .. } = walk.end(table.layout())?;
    Ok(Raw { values, dataset: Dataset { n: data.rows.len(), y, dropped, columns: kept, ..data } })
}

fn has_missing(table: &dyn Table, inputs: &[ColumnReader], output: Option<&Output>) -> Result<bool> {
    let target = output.filter(|output| output.needed).map(|output| &output.reader);
    for reader in inputs.iter().chain(target) {
        if reader.lacks(&table.cell(reader.index)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn text(table: &dyn Table) -> Result<Vec<String>> {
    let cell = |column| {
        Ok(match table.cell(column)? {
            Cell::Text(text) => text.to_owned(),
            Cell::Number(number) => format!("{number:?}"),
        })
    };
    (0..table.layout().names.len()).map(cell).collect()
}
