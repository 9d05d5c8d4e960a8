//! Reading files into data sets.

use std::collections::HashSet;
use std::path::Path;

use super::cell::Cell;
use super::column::{ColumnReader, Kind, dropping};
use super::options::{Missing, ReadOptions, TargetKind};
use super::selection::{has_names, locate, names_target, select};
use super::source::{Origin, open};
use super::survey::{Survey, survey};
use super::table::{Table, positional_names};
use super::walk::{MOST_NAMED, Output, Place, Walked, walk};
use crate::Result;
use crate::advice::Advice;
use crate::data::classes::Classes;
use crate::data::dataset::{Dataset, Notes, TextColumns};
use crate::data::listed;
use crate::data::schema::Schema;

/// Reads training data and finds out how to encode each column.
///
/// Without options the last column is the target, all others are features, and every cell must be a number.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the file cannot be read, [`Error::Data`](crate::Error::Data) if its contents do
/// not fit; the message names row and column.
pub fn read_training(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(Schema, Dataset)> {
    read_new(&Origin::again(path.as_ref())?, options)
}

/// [`read_training`] from any origin.
pub(super) fn read_new(origin: &Origin, options: &ReadOptions) -> Result<(Schema, Dataset)> {
    let training = Training::open(origin, options)?;
    let mut raw = Raw::new(&*training.table, true, options);
    let take = |table: &dyn Table, place, inputs: &[f64], target| raw.add(table, place, inputs, target);
    let Streamed { schema, codes, dropped, notes, .. } = training.read(options.missing, take)?;
    codes.recode_inputs(&mut raw.values);
    codes.recode_targets(raw.dataset.y.as_deref_mut().unwrap_or_default());
    let dataset = raw.encode(&schema);
    Ok((schema, Dataset { dropped, notes, ..dataset }))
}

/// A table of training data, and the readers of its columns.
struct Training {
    table: Box<dyn Table>,
    inputs: Vec<ColumnReader>,
    output: Output,
    notes: Notes,
}

impl Training {
    fn open(origin: &Origin, options: &ReadOptions) -> Result<Self> {
        let wanted: HashSet<&str> = options
            .target
            .iter()
            .chain(options.features.iter().flatten())
            .chain(&options.drop)
            .chain(&options.series)
            .map(String::as_str)
            .collect();
        let dropped: HashSet<&str> = options.drop.iter().map(String::as_str).collect();
        let is_header = |cells: &[String], next: &[String]| {
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
        };
        let mut table = open(origin, options, &is_header)?;
        let (features, target) = select(table.layout(), options)?;
        let kind = match options.categorical.contains(&table.layout().names[target]) {
            true => TargetKind::Classes,
            false => options.target_kind,
        };
        let kind = if options.classes.is_some() && kind == TargetKind::Auto { TargetKind::Classes } else { kind };
        let Survey { inputs, target: kind, notes } = survey(&mut *table, (&features, target), kind, options)?;
        if !table.is_numeric() {
            table = open(origin, options, &is_header)?;
        }
        let classes = options.classes.clone().map(Classes::in_order).transpose()?;
        let kind = kind.unwrap_or_else(|| Kind::classes(classes.as_ref()));
        let output = Output { reader: ColumnReader::new(target, kind, false), needed: true };
        Ok(Self { table, inputs, output, notes })
    }

    /// Passes each row to be used to `take`, as [`walk`] does, and finds schema and codes.
    fn read(
        mut self,
        missing: Missing,
        take: impl FnMut(&dyn Table, Place, &[f64], Option<f64>) -> Result<()>,
    ) -> Result<Streamed> {
        let Self { table, inputs, output, .. } = &mut self;
        let Walked { rows, dropped, note } = walk(&mut **table, inputs, Some(output), (missing, true), take)?;
        let mut notes = std::mem::take(&mut self.notes);
        notes.warnings.splice(0..0, note);
        let (schema, codes) = self.finish()?;
        Ok(Streamed { schema, codes, rows, dropped, notes })
    }

    /// The schema and the codes that were found.
    fn finish(self) -> Result<(Schema, Codes)> {
        let (layout, target) = (self.table.layout(), self.output.reader.index);
        if let Some(empty) = self.inputs.iter().find(|reader| reader.is_empty()) {
            let name = &layout.names[empty.index];
            let problem = format!("the column `{name}` has no value that its missing cells could get; leave it out");
            let Advice { text, settings } = dropping(problem.into(), name);
            return Err(layout.error(text).advised(settings));
        }
        let found = self.inputs.into_iter().map(|reader| {
            let name = &layout.names[reader.index];
            reader.finish(name)
        });
        let (features, inputs) = found.unzip();
        let target_encoding = self.output.reader.encoding();
        let (classes, codes) = self.output.reader.classes().unzip();
        let (name, width) = (layout.names[target].clone(), layout.names.len());
        let schema = Schema { features, target: name, target_index: target, width, classes, target_encoding };
        Ok((schema, Codes { inputs, target: codes }))
    }
}

/// Passes each row of training data to `take`: its place, one value for each input, and the target. Categories and
/// classes are codes by first appearance. `take` stores what it needs.
///
/// # Errors
/// As [`read_training`], and errors of `take`.
pub(in crate::data) fn stream_training(
    path: &Path,
    options: &ReadOptions,
    mut take: impl FnMut(Place, &[f64], Option<f64>) -> Result<()>,
) -> Result<Streamed> {
    let training = Training::open(&Origin::again(path)?, options)?;
    training.read(options.missing, |_, place, inputs, target| take(place, inputs, target))
}

/// What is known about a table after its last row.
pub(in crate::data) struct Streamed {
    pub(in crate::data) schema: Schema,
    pub(in crate::data) codes: Codes,
    pub(in crate::data) rows: usize,
    /// The number of rows left out because of missing cells.
    pub(in crate::data) dropped: usize,
    pub(in crate::data) notes: Notes,
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
                let known = values.iter_mut().skip(place).step_by(width).filter(|code| !code.is_nan());
                known.for_each(|code| *code = codes[*code as usize] as f64);
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
/// As [`read_training`], and for categories that `schema` does not know, unless they are to be
/// [mixed](ReadOptions::mix_unknown).
pub fn read_with_schema(
    path: impl AsRef<Path>,
    schema: &Schema,
    options: &ReadOptions,
    need_target: bool,
) -> Result<Dataset> {
    read_again(&Origin::once(path.as_ref()), schema, options, need_target)
}

/// [`read_with_schema`] from any origin.
pub(super) fn read_again(
    origin: &Origin,
    schema: &Schema,
    options: &ReadOptions,
    need_target: bool,
) -> Result<Dataset> {
    let wanted: HashSet<&str> =
        schema.features.iter().map(|column| column.name.as_str()).chain([schema.target.as_str()]).collect();
    let places: HashSet<usize> = schema.features.iter().map(|column| column.index).collect();
    let categories = schema.features.iter().filter_map(|column| column.encoding.labels());
    let categories = categories.chain(schema.classes.iter().map(Classes::labels)).flatten();
    let categories: HashSet<&str> = categories.map(String::as_str).collect();
    let mut table = open(origin, options, &|cells, _| {
        let used = |column| cells.len() != schema.width || column == schema.target_index || places.contains(&column);
        has_names(cells, &wanted, &categories, used)
    })?;
    let layout = table.layout();
    let absent = |name: &String| layout.named && options.optional.contains(name) && !layout.names.contains(name);
    let mut schema = schema.clone();
    schema.features.retain(|column| !absent(&column.name));
    let (features, target) = locate(layout, &schema, need_target)?;
    let columns = features.into_iter().zip(&schema.features);
    let mut inputs: Vec<ColumnReader> =
        columns.map(|(index, column)| ColumnReader::trained(index, column, options)).collect();
    let mut output = target.map(|index| Output {
        reader: ColumnReader::trained_target(index, schema.classes.as_ref(), &schema.target_encoding, options),
        needed: need_target,
    });
    let mut raw = Raw::new(&*table, output.is_some(), options);
    let take = |table: &dyn Table, place, inputs: &[f64], target| raw.add(table, place, inputs, target);
    let Walked { dropped, note, .. } = walk(&mut *table, &mut inputs, output.as_mut(), (options.missing, false), take)?;
    let unknown = inputs.iter().zip(&schema.features).filter_map(|(reader, column)| unknown(reader, &column.name));
    let notes = Notes { warnings: note.into_iter().chain(unknown).collect(), ..Notes::default() };
    Ok(Dataset { dropped, notes, ..raw.encode(&schema) })
}

/// A warning about the categories of a column that the model was not trained with.
fn unknown(reader: &ColumnReader, name: &str) -> Option<Advice> {
    let found: Vec<(&String, &usize)> = reader.unknown().collect();
    let rows: usize = found.iter().map(|(_, rows)| *rows).sum();
    if found.is_empty() {
        return None;
    }
    let each: Vec<String> =
        found.iter().map(|(text, rows)| format!("{} ({rows})", Cell::Text(text).quoted())).collect();
    let each = listed(&each, MOST_NAMED);
    let rows = if rows == 1 { "1 row".into() } else { format!("{rows} rows") };
    let meant = found.iter().find_map(|(text, _)| reader.alike(text));
    let text = match (reader.series, reader.categories()) {
        (true, _) => format!(
            "`{name}`: the model has no rows of the series {each}; what it predicts for {rows} is what it expects of \
             any series, and knows nothing of these"
        ),
        (false, known) => format!(
            "`{name}`: the model was not trained with {each}; for {rows} it predicts any of the {known} texts it \
             knows, each with the same weight{}",
            meant.map_or(String::new(), |text| format!("; did you mean `{text}`?"))
        ),
    };
    Some(text.into())
}

/// Rows with one value for each column; categories are still codes.
struct Raw {
    values: Vec<f64>,
    dataset: Dataset,
}

impl Raw {
    /// No rows yet, of a table with `targets` or without.
    fn new(table: &dyn Table, targets: bool, options: &ReadOptions) -> Self {
        let columns = options.keep.then(|| TextColumns { names: table.layout().names.clone(), records: Vec::new() });
        Self { values: Vec::new(), dataset: Dataset { y: targets.then(Vec::new), columns, ..Dataset::default() } }
    }

    /// Adds the current row of a table. Without its target, there are no targets at all.
    fn add(&mut self, table: &dyn Table, place: Place, inputs: &[f64], target: Option<f64>) -> Result<()> {
        self.values.extend(inputs);
        let data = &mut self.dataset;
        match (&mut data.y, target) {
            (Some(y), Some(target)) => y.push(target),
            (y, _) => *y = None,
        }
        data.rows.push(place.row);
        data.records.push(place.record);
        if let Some(kept) = &mut data.columns {
            kept.records.push(text(table)?);
        }
        Ok(())
    }

    fn encode(self, schema: &Schema) -> Dataset {
        Dataset {
            x: schema.encode(self.values),
            n: self.dataset.rows.len(),
            d: schema.d(),
            feature_names: schema.feature_names(),
            target_name: schema.target.clone(),
            ..self.dataset
        }
    }
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
