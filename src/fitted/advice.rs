//! What looks wrong with data before a training, with advice.

use crate::data::InputScale;
use crate::models::Observations;
use crate::params::shown;

/// Says which inputs are constant, and whether the target is: nothing can be learned from them.
pub fn constants(data: &Observations, names: &[String], target: &str) -> Vec<String> {
    let constant = |mut values: Box<dyn Iterator<Item = &f64> + '_>| {
        let first = values.next();
        values.all(|value| Some(value) == first)
    };
    let mut found = Vec::new();
    if data.n() == 1 {
        return vec!["there is one row of data: the model knows its value and nothing of the noise".into()];
    }
    if constant(Box::new(data.y.iter())) {
        found.push(format!("the target `{target}` is constant: error bars rest on no data"));
    }
    let columns = (0..data.d).filter(|column| constant(Box::new(data.x[*column..].iter().step_by(data.d))));
    found.extend(columns.map(|column| {
        format!("the input `{}` is constant and tells nothing: leave it out with `--features`", names[column])
    }));
    found
}

/// Rows below which a few of them may well hold most of a variance.
const MANY: usize = 100;
/// The share of an input's variance from which on the rows that hold it are told.
const SHARE: f64 = 0.9;

/// Says which inputs vary in a thousandth of the rows, or in one, almost only: lengthscales and standardisation are then made for those.
pub fn outliers(data: &Observations, names: &[String], scale: &InputScale) -> Vec<String> {
    let n = data.n();
    let told = (0..data.d).filter(|_| n >= MANY).filter_map(|column| {
        let values = || data.x[column..].iter().step_by(data.d).copied();
        let mean = values().sum::<f64>() / n as f64;
        let off = |value: f64| (value - mean).powi(2);
        let mut squares: Vec<f64> = values().map(off).collect();
        let (all, few) = (squares.iter().sum::<f64>(), (n / 1000).max(1));
        squares.select_nth_unstable_by(few - 1, |a, b| b.total_cmp(a));
        let share = squares[..few].iter().sum::<f64>() / all;
        // A rare category is meant to vary in few rows.
        let first = values().next()?;
        let other = values().find(|value| *value != first)?;
        let binary = values().all(|value| value == first || value == other);
        let far = values().max_by(|a, b| off(*a).total_cmp(&off(*b)))?;
        (share > SHARE && !binary).then(|| {
            format!(
                "the input `{}` has a value of {}, {:.0} standard deviations from its mean: {:.0} % of its variance lie in {few} of \
                 {n} rows, beside which all others are alike. Correct or drop such rows, or take its logarithm",
                names[column],
                shown(far * scale.sd[column] + scale.mean[column]),
                (off(far) * n as f64 / all).sqrt(),
                100.0 * share
            )
        })
    });
    told.collect()
}
