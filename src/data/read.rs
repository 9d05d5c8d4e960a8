//! Reading files into data sets.

use std::path::Path;

use csv::StringRecord;

use super::cell::{Cell, Value};
use super::column::ColumnReader;
use super::dataset::{Dataset, Kept};
use super::options::{Missing, ReadOptions};
use super::schema::{Column, Encoding, Schema};
use super::source::open;
use super::table::{Layout, Table};
use crate::Result;

/// Reads training data and finds out how each column is to be encoded.
///
/// Without options the last column is the target, all others are features and every cell must be a number.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the file cannot be read, [`Error::Data`](crate::Error::Data) if its contents do
/// not fit; the message names row and column.
pub fn read_training(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(Schema, Dataset)> {
    let wanted: Vec<&str> =
        options.target.iter().chain(options.features.iter().flatten()).map(String::as_str).collect();
    let mut table = open(path.as_ref(), options, &|cells| {
        let used = |column| {
            options.features.is_none()
                || wanted.contains(&format!("c{column}").as_str())
                || (options.target.is_none() && column + 1 == cells.len())
        };
        has_names(cells, &wanted, &[], used)
    })?;
    let layout = table.layout().clone();
    let (features, target) = select(&layout, options)?;
    let mut inputs: Vec<ColumnReader> =
        features.iter().map(|&index| ColumnReader::feature(index, &layout.names[index], options)).collect();
    let mut output = Output { reader: ColumnReader::target(target), needed: true };
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
    let schema = Schema {
        features: columns,
        target: layout.names[target].clone(),
        target_index: target,
        width: layout.names.len(),
    };
    let dataset = raw.encode(&schema);
    Ok((schema, dataset))
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
    let mut output = target.map(|index| Output { reader: ColumnReader::target(index), needed: need_target });
    Ok(collect(&mut *table, &mut inputs, output.as_mut(), options)?.encode(schema))
}

/// Whether the cells of a first line are names: one is wanted as a name, or one in a used column is no data.
///
/// All columns count as used if the wanted names leave none.
fn has_names(cells: &[&str], wanted: &[&str], categories: &[&str], used: impl Fn(usize) -> bool) -> bool {
    let all = !(0..cells.len()).any(&used);
    cells.iter().map(|cell| cell.trim()).enumerate().any(|(column, cell)| {
        let label = || Cell::Text(cell).value() == Value::Label && !categories.contains(&cell);
        wanted.contains(&cell) || ((all || used(column)) && label())
    })
}

/// The positions of the features and of the target in a training file.
fn select(layout: &Layout, options: &ReadOptions) -> Result<(Vec<usize>, usize)> {
    for name in &options.categorical {
        layout.find(name)?;
    }
    let target = match &options.target {
        Some(name) => layout.find(name)?,
        None => layout.names.len().saturating_sub(1),
    };
    let features = match &options.features {
        Some(names) => names.iter().map(|name| layout.find(name)).collect::<Result<Vec<_>>>()?,
        None => {
            for name in &layout.names {
                layout.find(name)?;
            }
            (0..layout.names.len()).filter(|&column| column != target).collect()
        }
    };
    for (place, &feature) in features.iter().enumerate() {
        let name = &layout.names[feature];
        if feature == target {
            let default =
                if options.target.is_none() { " (the last column; choose another with `--target`)" } else { "" };
            return Err(layout.error(format_args!("`{name}` is the target{default} and also listed as a feature")));
        }
        if features[..place].contains(&feature) {
            return Err(layout.error(format_args!("feature `{name}` is listed twice")));
        }
    }
    if features.is_empty() {
        return Err(layout.error(format_args!(
            "no feature is left next to the target `{}`; the file needs two columns or more, separated by commas, tabs \
             or semicolons",
            layout.names.get(target).map_or("", String::as_str)
        )));
    }
    Ok((features, target))
}

/// The positions of a schema's columns in another file.
fn locate(layout: &Layout, schema: &Schema, need_target: bool) -> Result<(Vec<usize>, Option<usize>)> {
    if layout.named {
        let features = schema.features.iter().map(|column| layout.find(&column.name)).collect::<Result<_>>()?;
        let present = need_target || layout.names.contains(&schema.target);
        return Ok((features, present.then(|| layout.find(&schema.target)).transpose()?));
    }
    let (width, d) = (layout.names.len(), schema.features.len());
    if width == schema.width {
        Ok((schema.features.iter().map(|column| column.index).collect(), Some(schema.target_index)))
    } else if width == d && !need_target {
        Ok(((0..d).collect(), None))
    } else {
        let bare = if need_target { String::new() } else { format!(" or the {d} features only") };
        Err(layout.error(format_args!(
            "the file has {width} columns and no header; without one it needs the {} columns of the training \
             file{bare}",
            schema.width
        )))
    }
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
