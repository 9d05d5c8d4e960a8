//! Reading files into data sets.

use std::path::Path;

use csv::StringRecord;

use super::cell::Cell;
use super::column::ColumnReader;
use super::dataset::{Dataset, Kept};
use super::options::{Missing, ReadOptions, TargetKind};
use super::schema::{Column, Encoding, Schema};
use super::selection::{has_names, locate, select};
use super::source::open;
use super::table::Table;
use crate::Result;

/// Reads training data and finds out how each column is to be encoded.
///
/// Without options the last column is the target, all others are features and every cell must be a number.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the file cannot be read, [`Error::Data`](crate::Error::Data) if its contents do
/// not fit; the message names row and column.
pub fn read_training(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(Schema, Dataset)> {
    let Training { mut table, mut inputs, mut output } = Training::open(path.as_ref(), options)?;
    let (layout, target) = (table.layout().clone(), output.reader.index);
    let mut raw = collect(&mut *table, &mut inputs, Some(&mut output), options)?;

    let width = inputs.len();
    let mut columns = Vec::with_capacity(width);
    for (place, reader) in inputs.into_iter().enumerate() {
        let index = reader.index;
        let (encoding, renamed) = reader.finish();
        if let Some(renamed) = renamed {
            for code in raw.values.iter_mut().skip(place).step_by(width) {
                *code = renamed[*code as usize] as f64;
            }
        }
        columns.push(Column { name: layout.names[index].clone(), index, encoding });
    }
    let classes = output.reader.classes().map(|(classes, renamed)| {
        for code in raw.dataset.y.iter_mut().flatten() {
            *code = renamed[*code as usize] as f64;
        }
        classes
    });
    let schema = Schema {
        features: columns,
        target: layout.names[target].clone(),
        target_index: target,
        width: layout.names.len(),
        classes,
    };
    let dataset = raw.encode(&schema);
    Ok((schema, dataset))
}

/// A table to learn from, and the readers of its columns.
struct Training {
    table: Box<dyn Table>,
    inputs: Vec<ColumnReader>,
    output: Output,
}

impl Training {
    fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        let wanted: Vec<&str> =
            options.target.iter().chain(options.features.iter().flatten()).map(String::as_str).collect();
        let table = open(path, options, &|cells| {
            let used = |column: usize| {
                // A label is no sign of a header in a column of labels.
                let labels = options.target_kind != TargetKind::Numbers
                    && match &options.target {
                        Some(name) => *name == format!("c{column}"),
                        None => column + 1 == cells.len(),
                    };
                if labels {
                    return false;
                }
                options.features.is_none()
                    || wanted.contains(&format!("c{column}").as_str())
                    || (options.target.is_none() && column + 1 == cells.len())
            };
            has_names(cells, &wanted, &[], used)
        })?;
        let layout = table.layout();
        let (features, target) = select(layout, options)?;
        let inputs =
            features.iter().map(|&index| ColumnReader::feature(index, &layout.names[index], options)).collect();
        let output = Output { reader: ColumnReader::target(target, options.target_kind), needed: true };
        Ok(Self { table, inputs, output })
    }
}

/// Reads a table of numbers and gives the features and the target of one row after the other to `take`, which holds what it wants.
///
/// # Errors
/// As [`read_training`]; [`Error::Data`] for columns of text; what `take` reports.
pub(super) fn stream_training(
    path: &Path,
    options: &ReadOptions,
    mut take: impl FnMut(&[f64]) -> Result<()>,
) -> Result<Schema> {
    let options = ReadOptions { target_kind: TargetKind::Numbers, ..options.clone() };
    let Training { mut table, mut inputs, mut output } = Training::open(path, &options)?;
    let (layout, target) = (table.layout().clone(), output.reader.index);
    let mut values = Vec::with_capacity(inputs.len() + 1);
    let mut seen = false;
    while let Some(row) = table.advance()? {
        if options.missing == Missing::Drop && has_missing(&*table, &inputs, Some(&output))? {
            continue;
        }
        values.clear();
        for reader in inputs.iter_mut().chain([&mut output.reader]) {
            values.push(reader.read(&*table, row)?);
        }
        take(&values)?;
        seen = true;
    }
    if !seen {
        return Err(layout.error("there is no complete row of data"));
    }
    let columns = inputs.into_iter().map(|reader| {
        let (index, name) = (reader.index, layout.names[reader.index].clone());
        match reader.finish() {
            (encoding, None) => Ok(Column { name, index, encoding }),
            _ => Err(layout.error(format!("column `{name}` holds text: leave it out, or read the whole table"))),
        }
    });
    Ok(Schema {
        features: columns.collect::<Result<_>>()?,
        target: layout.names[target].clone(),
        target_index: target,
        width: layout.names.len(),
        classes: None,
    })
}

/// Reads data for a model that was trained with `schema`.
///
/// Columns are found by name; without a header by position, in a file either as wide as the training file or with the
/// features only. Other columns are ignored, and so are [`ReadOptions::target`] and the other options that `schema`
/// settles. Unless `need_target`, the target column may be absent or incomplete; [`Dataset::y`] is then `None`.
///
/// # Errors
/// As [`read_training`], and for categories that `schema` does not know.
pub fn read_with_schema(
    path: impl AsRef<Path>,
    schema: &Schema,
    options: &ReadOptions,
    need_target: bool,
) -> Result<Dataset> {
    let wanted: Vec<&str> =
        schema.features.iter().map(|column| column.name.as_str()).chain([schema.target.as_str()]).collect();
    let categories: Vec<&str> = schema
        .features
        .iter()
        .flat_map(|column| match &column.encoding {
            Encoding::OneHot(categories) => categories.iter().map(String::as_str).collect(),
            Encoding::Numeric | Encoding::Date => Vec::new(),
        })
        .chain(schema.classes.iter().flat_map(|classes| classes.labels().iter().map(String::as_str)))
        .collect();
    let mut table = open(path.as_ref(), options, &|cells| {
        let used = |column| {
            cells.len() != schema.width
                || column == schema.target_index
                || schema.features.iter().any(|feature| feature.index == column)
        };
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

/// Rows with one value a column, categories still as codes.
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
    let mut kept = options.keep.then(|| Kept { names: table.layout().names.clone(), records: Vec::new() });
    let mut seen = 0;
    while let Some(row) = table.advance()? {
        seen += 1;
        if options.missing == Missing::Drop && has_missing(table, inputs, output.as_deref())? {
            data.dropped += 1;
            continue;
        }
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
        data.records.push(seen - 1);
        if let Some(kept) = kept.as_mut() {
            kept.records.push(text(table)?);
        }
    }
    if data.rows.is_empty() {
        return Err(table.layout().error(match seen {
            0 => "there is a header but no row of data".to_owned(),
            _ => format!("all {seen} rows have missing values; leave out columns with `--features` instead"),
        }));
    }
    Ok(Raw { values, dataset: Dataset { n: data.rows.len(), y, columns: kept, ..data } })
}

fn has_missing(table: &dyn Table, inputs: &[ColumnReader], output: Option<&Output>) -> Result<bool> {
    let target = output.filter(|output| output.needed).map(|output| &output.reader);
    for reader in inputs.iter().chain(target) {
        if table.cell(reader.index)?.is_missing() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn text(table: &dyn Table) -> Result<StringRecord> {
    let mut record = StringRecord::new();
    for column in 0..table.layout().names.len() {
        match table.cell(column)? {
            Cell::Text(text) => record.push_field(text),
            Cell::Number(number) => record.push_field(&format!("{number:?}")),
        }
    }
    Ok(record)
}
