//! Columns that give the target away: copies of it in another unit, and codes of it.

use std::collections::HashMap;

use crate::advice::Advice;
use crate::data::{Column, Schema, bits};
use crate::models::Observations;

/// With fewer rows, an order or a code may well be chance.
const ROWS: usize = 20;
/// Rows that are looked at first.
const SAMPLE: usize = 1000;
/// The share of the target's variance beside a line that rounding leaves in a copy.
const ROUNDING: f64 = 1e-6;

/// Warnings about columns each of which alone determines the target.
pub fn warnings(data: &Observations, schema: &Schema, auxiliary_column: Option<&str>) -> Vec<Advice> {
    let columns = schema.features.iter().filter(|column| Some(column.name.as_str()) != auxiliary_column);
    if data.n() < ROWS || columns.clone().count() < 2 {
        return Vec::new();
    }
    let mut at = 0;
    let found = columns.filter_map(|column| {
        let block = at..at + column.width();
        at = block.end;
        let step = data.n().div_ceil(SAMPLE);
        let of = |step: usize| -> Vec<(&[f64], f64)> {
            let rows = data.x.chunks(data.d).zip(&data.y).step_by(step);
            rows.map(|(row, y)| (&row[block.clone()], *y)).collect()
        };
        // A few rows rule out nearly every column.
        let how = relation(&of(step), column).and_then(|_| relation(&of(1), column))?;
        let (name, target) = (&column.name, &schema.target);
        let text = format!(
            "the column `{name}` determines the target `{target}`: it is {how}; if it is not known before the target \
             is, leave it out"
        );
        Some(Advice::from(text).set("ReadOptions::drop", name))
    });
    found.collect()
}

/// How values of a column determine the target, if they do.
fn relation(rows: &[(&[f64], f64)], column: &Column) -> Option<&'static str> {
    let (single, distinct) = (rows[0].0.len() == 1, codes(rows));
    match distinct {
        Some(distinct) if 2 * distinct <= rows.len() => Some("a code of it, one value for each of its values"),
        _ if single && is_line(rows) => Some("a copy of it in another unit"),
        Some(_) if single && !column.encoding.is_date() && is_monotone(rows) => {
            Some("in the same order in every row, or the opposite one")
        }
        _ => None,
    }
}

/// Whether the rows lie on a line that is not level.
fn is_line(rows: &[(&[f64], f64)]) -> bool {
    let n = rows.len() as f64;
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / n;
    let (x, y) = (mean(&mut rows.iter().map(|row| row.0[0])), mean(&mut rows.iter().map(|row| row.1)));
    let moment = |of: &dyn Fn(f64, f64) -> f64| mean(&mut rows.iter().map(|row| of(row.0[0] - x, row.1 - y)));
    let (xx, xy, yy) = (moment(&|x, _| x * x), moment(&|x, y| x * y), moment(&|_, y| y * y));
    xx > 0.0 && yy > 0.0 && xx * yy - xy * xy <= ROUNDING * xx * yy
}

/// The number of distinct values if those of the column and those of the target belong to each other in pairs.
fn codes(rows: &[(&[f64], f64)]) -> Option<usize> {
    let (mut forth, mut back) = (HashMap::new(), HashMap::new());
    let paired = rows.iter().all(|(x, y)| {
        let (x, y) = (bits(x), bits(&[*y]));
        *forth.entry(x.clone()).or_insert_with(|| y.clone()) == y && *back.entry(y).or_insert_with(|| x.clone()) == x
    });
    (paired && forth.len() > 1).then_some(forth.len())
}

/// Whether the target rises with every step of the column, or falls with every one.
fn is_monotone(rows: &[(&[f64], f64)]) -> bool {
    let mut pairs: Vec<(f64, f64)> = rows.iter().map(|(x, y)| (x[0], *y)).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs.dedup();
    let rises = |up: bool| pairs.windows(2).all(|two| two[0].0 < two[1].0 && (two[0].1 < two[1].1) == up);
    pairs.len() >= ROWS && (rises(true) || rises(false))
}
