//! Finding the used columns.

use std::collections::HashSet;

use super::cell::{Cell, Value};
use super::options::{ReadOptions, TargetKind};
use super::table::Layout;
use crate::Result;
use crate::data::schema::Schema;

/// Whether the cells of a first line are names: one of them is a wanted name, or one in a used column cannot be data.
///
/// All columns count as used if the wanted names leave none.
pub(super) fn has_names(
    cells: &[String],
    wanted: &HashSet<&str>,
    categories: &HashSet<&str>,
    used: impl Fn(usize) -> bool,
) -> bool {
    let all = !(0..cells.len()).any(&used);
    cells.iter().map(|cell| cell.trim()).enumerate().any(|(column, cell)| {
        let label = || Cell::Text(cell).value() == Value::Label && !categories.contains(cell);
        wanted.contains(cell) || ((all || used(column)) && label())
    })
}

/// Whether the cells of a first line are names, judged by the second line, for a target of labels. Its cell is a name
/// if a number follows, or if the other cells before it, three or more, count the columns.
pub(super) fn names_target(cells: &[String], next: &[String], target: usize) -> bool {
    let is_label = |cell: &String| Cell::Text(cell).value() == Value::Label;
    let is_number = |cell: &String| matches!(Cell::Text(cell).value(), Value::Number(_));
    let counted =
        target >= 3 && cells[..target].iter().enumerate().all(|(column, cell)| cell.trim() == column.to_string());
    cells.get(target).is_some_and(is_label) && (counted || next.get(target).is_some_and(is_number))
}

/// The positions of the features and of the target in a training file.
pub(super) fn select(layout: &Layout, options: &ReadOptions) -> Result<(Vec<usize>, usize)> {
    let names = layout.by_name();
    let target = match &options.target {
        Some(name) => names.find(name)?,
        // The last column that is no series.
        None => {
            let series = |column: &usize| options.series.as_ref() == Some(&layout.names[*column]);
            (0..layout.names.len()).rev().find(|column| !series(column)).unwrap_or_default()
        }
    };
    let features = match &options.features {
        Some(wanted) => wanted.iter().map(|name| names.find(name)).collect::<Result<Vec<_>>>()?,
        None => {
            for name in &layout.names {
                names.find(name)?;
            }
            let dropped = options.drop.iter().map(|name| names.find(name)).collect::<Result<HashSet<_>>>()?;
            if dropped.contains(&target) {
                let name = &layout.names[target];
                return Err(layout.error(format_args!("`{name}` is the target and also to be dropped")));
            }
            (0..layout.names.len()).filter(|column| *column != target && !dropped.contains(column)).collect()
        }
    };
    let mut listed = HashSet::new();
    for &feature in &features {
        let name = &layout.names[feature];
        if feature == target {
            if options.target.is_some() {
                return Err(layout.error(format_args!("`{name}` is the target and also listed as a feature")));
            }
            let problem = format!("`{name}` is the target, being the last column, and also listed as a feature");
            return Err(layout.error(problem).about("ReadOptions::target"));
        }
        if !listed.insert(feature) {
            return Err(layout.error(format_args!("feature `{name}` is listed twice")));
        }
    }
    for name in &options.categorical {
        let column = names.find(name)?;
        if column == target && options.target_kind == TargetKind::Numbers {
            let problem = "is the target, which the likelihood reads as numbers, and also listed as categorical";
            return Err(layout.error(format_args!("`{name}` {problem}")));
        }
        if column != target && !listed.contains(&column) {
            return Err(layout.error(format_args!("`{name}` is listed as categorical, but not as a feature")));
        }
    }
    if let Some(name) = &options.series
        && !listed.contains(&names.find(name)?)
    {
        return Err(layout
            .error(format_args!("`{name}` tells series apart, and is not an input"))
            .about("ReadOptions::series"));
    }
    if features.is_empty() {
        return Err(layout.error(format_args!(
            "no feature is left next to the target `{}`; the file needs at least one column besides it and those left \
             out, separated by commas, tabs or semicolons (with decimal commas, name the separator)",
            layout.names.get(target).map_or("", String::as_str)
        )));
    }
    Ok((features, target))
}

/// The positions of a schema's columns in another file.
pub(super) fn locate(layout: &Layout, schema: &Schema, need_target: bool) -> Result<(Vec<usize>, Option<usize>)> {
    if layout.named {
        let names = layout.by_name();
        let features = schema.features.iter().map(|column| names.find(&column.name)).collect::<Result<_>>()?;
        let present = need_target || layout.names.contains(&schema.target);
        return Ok((features, present.then(|| names.find(&schema.target)).transpose()?));
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
