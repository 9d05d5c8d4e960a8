//! Generated tables with many columns, six of which matter.

use cagey::data::{Column, Dataset, Encoding, Schema};
use cagey::{Error, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

/// Held-out rows.
const TEST: usize = 1000;

/// The table of a name such as `wide-60-120-0.5`, with training and held-out rows; `None` for other names.
pub fn generated(name: &str, seed: u64) -> Result<Option<(Schema, Dataset, Dataset)>> {
    let Some(numbers) = name.strip_prefix("wide-") else { return Ok(None) };
    let wrong = || Error::Usage(format!("{name}: write it as wide-ROWS-COLUMNS-NOISE with 6 columns at least"));
    let parts: Vec<&str> = numbers.splitn(3, '-').collect();
    let [n, d, noise] = parts.as_slice() else { return Err(wrong()) };
    let (n, d): (usize, usize) = (n.parse().map_err(|_| wrong())?, d.parse().map_err(|_| wrong())?);
    let noise: f64 = noise.parse().map_err(|_| wrong())?;
    if n < 2 || d < 6 {
        return Err(wrong());
    }
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add((n * 1000 + d) as u64));
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let rows = n + TEST;
    let x: Vec<f64> = (0..rows * d).map(|_| normal()).collect();
    let signal = |x: &[f64]| (1.5 * x[0]).sin() + 0.8 * x[1] + 0.5 * x[2] * x[2] + x[3].cos() * x[4] + 0.6 * x[5];
    let f: Vec<f64> = x.chunks(d).map(signal).collect();
    let mean = f.iter().sum::<f64>() / rows as f64;
    let sd = (f.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / rows as f64).sqrt();
    let y = f.iter().map(|f| (f - mean) / sd + noise * normal()).collect();
    let feature_names: Vec<String> = (0..d).map(|i| format!("x{i}")).collect();
    let features = feature_names.iter().enumerate();
    let features = features.map(|(index, name)| Column::numeric(name, index));
    let schema = Schema {
        features: features.collect(),
        target: "y".into(),
        target_index: d,
        width: d + 1,
        classes: None,
        target_encoding: Encoding::Numeric,
    };
    let numbers: Vec<usize> = (1..=rows).collect();
    let data = Dataset {
        x,
        n: rows,
        d,
        feature_names,
        target_name: "y".into(),
        y: Some(y),
        records: (0..rows).collect(),
        rows: numbers,
        ..Dataset::default()
    };
    let part = |range: std::ops::Range<usize>| data.subset(&range.collect::<Vec<_>>());
    Ok(Some((schema, part(0..n), part(n..rows))))
}
