//! Experts in numbers: each knows its own rows, and a rule combines what they say.

use serde::{Deserialize, Serialize};

use super::latent::{Latent, Moments, Part, ROWS, Ready, dot, solve_packed};
use crate::aggregation::{self, Augmented, LocalPredictions, Rule, nearest_experts};
use crate::kernels::{Kernel, Prepared};

/// Experts of one prior, and the rule that combines them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committee {
    /// The rule; not one that needs covariances among experts.
    pub rule: Rule,
    /// The experts on their own rows, for rules that need these.
    pub experts: Vec<Latent>,
    /// The communication expert, for rules that need one.
    pub common: Option<Latent>,
    /// The experts with its rows added.
    pub augmented: Vec<Own>,
    /// The array of some rows of each expert, for the rule that asks the nearest.
    pub samples: Vec<String>,
}

/// An expert with the rows of the communication expert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Own {
    /// All of its rows are among them.
    Same,
    /// Its other rows R, given those of the communication expert C: the arrays R, B = K_RC L_C⁻ᵀ, the factor of what is
    /// left of K̂_RR, and the whitened residuals.
    Beyond {
        /// R, row-major.
        points: String,
        /// B, row-major.
        common: String,
        /// The factor's rows up to the diagonal.
        lower: String,
        /// The whitened residuals.
        weights: String,
    },
    /// The rows of both.
    Whole(Latent),
}

/// A [`Committee`], ready to predict.
#[derive(Debug, Clone)]
pub struct Experts {
    rule: Rule,
    d: usize,
    experts: Vec<Ready>,
    common: Option<Ready>,
    augmented: Vec<ReadyOwn>,
    samples: Vec<Prepared>,
}

#[derive(Debug, Clone)]
enum ReadyOwn {
    Same,
    Beyond { fixed: Prepared, common: Vec<f64>, lower: Vec<f64>, weights: Vec<f64> },
    Whole(Box<Ready>),
}

impl Committee {
    /// Reads the arrays, which `array` finds by name, for inputs with `d` columns.
    ///
    /// # Errors
    /// What is missing or does not fit.
    pub fn ready(&self, d: usize, array: &mut dyn FnMut(&str) -> Option<Vec<f64>>) -> Result<Experts, String> {
        let needs = self.rule.needs();
        if needs.covariances {
            return Err(format!("the rule {} needs covariances among experts", self.rule));
        }
        let experts = self.experts.iter().map(|own| own.ready(d, array)).collect::<Result<Vec<_>, _>>()?;
        let common = self.common.as_ref().map(|common| common.ready(d, array)).transpose()?;
        if (common.is_none() && needs.augmented) || (experts.is_empty() && common.is_none()) {
            return Err("lacks its experts".into());
        }
        let mut numbers = |name: &str| array(name).ok_or_else(|| format!("lacks the array `{name}`"));
        let kernel = experts.first().or(common.as_ref()).map(Ready::kernel).cloned().ok_or("lacks its experts")?;
        let prepared =
            |points: &[f64], name: &str, kernel: &Kernel| match points.is_empty() || !points.len().is_multiple_of(d) {
                true => Err(format!("the array `{name}` does not have rows of {d} columns")),
                false => Ok(kernel.prepare(points, d)),
            };
        let mut samples = Vec::new();
        for name in &self.samples {
            samples.push(prepared(&numbers(name)?, name, &kernel)?);
        }
        if self.rule == Rule::Near && samples.len() != self.augmented.len() {
            return Err("lacks rows of its experts".into());
        }
        let mut augmented = Vec::new();
        for own in &self.augmented {
            augmented.push(match own {
                Own::Same => ReadyOwn::Same,
                Own::Whole(latent) => ReadyOwn::Whole(Box::new(latent.ready(d, array)?)),
                Own::Beyond { points, common: by, lower, weights } => {
                    let mut numbers = |name: &str| array(name).ok_or_else(|| format!("lacks the array `{name}`"));
                    let fixed = prepared(&numbers(points)?, points, &kernel)?;
                    let (by, lower, weights) = (numbers(by)?, numbers(lower)?, numbers(weights)?);
                    let (r, c) = (fixed.rows(), common.as_ref().map_or(0, Ready::size));
                    if weights.len() != r || by.len() != r * c || lower.len() != r * (r + 1) / 2 {
                        return Err(format!("the arrays of `{points}` do not fit {r} rows"));
                    }
                    ReadyOwn::Beyond { fixed, common: by, lower, weights }
                }
            });
        }
        Ok(Experts { rule: self.rule, d, experts, common, augmented, samples })
    }
}

/// Means less the prior's, and variances, one expert after another.
#[derive(Default)]
struct Said {
    mean: Vec<f64>,
    variance: Vec<f64>,
}

impl Said {
    fn add(&mut self, parts: &[Part]) {
        self.mean.extend(parts.iter().map(|part| part.shift));
        self.variance.extend(parts.iter().map(Part::variance));
    }

    fn predictions(&self) -> LocalPredictions<'_> {
        LocalPredictions { mean: &self.mean, variance: &self.variance }
    }
}

impl Experts {
    /// Means and variances at rows `x`, row-major.
    ///
    /// # Errors
    /// What the rule says is missing.
    pub fn moments(&self, x: &[f64]) -> Result<Vec<Moments>, String> {
        let chunks: Result<Vec<_>, String> = x.chunks(ROWS * self.d).map(|x| self.chunk(x)).collect();
        Ok(chunks?.concat())
    }

    fn chunk(&self, x: &[f64]) -> Result<Vec<Moments>, String> {
        let (mut local, mut known, mut said) = (Said::default(), Said::default(), Said::default());
        let mut priors: Vec<(f64, f64)> = Vec::new();
        for expert in &self.experts {
            let parts = expert.parts(x, None);
            priors = parts.iter().map(|part| (part.level, part.prior)).collect();
            local.add(&parts);
        }
        if let Some(common) = &self.common {
            let mut solved = Vec::new();
            let parts = common.parts(x, Some(&mut solved));
            priors = parts.iter().map(|part| (part.level, part.prior)).collect();
            known.add(&parts);
            match self.rule {
                Rule::Near => self.near(x, &parts, &solved, &mut said),
                _ => self.augmented.iter().for_each(|own| said.add(&self.own(own, x, &parts, &solved))),
            }
        }
        let prior: Vec<f64> = priors.iter().map(|(_, prior)| *prior).collect();
        let augmented = Augmented { communication: known.predictions(), experts: said.predictions() };
        let augmented = self.common.is_some().then_some(augmented);
        let found = aggregation::aggregate(self.rule, local.predictions(), &prior, augmented);
        let found = found.map_err(|error| error.to_string())?.ok_or("its rule needs more than a file has")?;
        let rows = found.mean.iter().zip(&found.variance).zip(priors);
        Ok(rows.map(|((mean, variance), (level, _))| Moments { mean: level + mean, variance: *variance }).collect())
    }

    /// What an expert with the rows of the communication expert says at rows where that expert's parts and solves are
    /// known; nothing if it has no other rows.
    fn own(&self, own: &ReadyOwn, x: &[f64], parts: &[Part], solved: &[Vec<f64>]) -> Vec<Part> {
        let (fixed, common, lower, weights) = match own {
            ReadyOwn::Same => return Vec::new(),
            ReadyOwn::Whole(whole) => return whole.parts(x, None),
            ReadyOwn::Beyond { fixed, common, lower, weights } => (fixed, common, lower, weights),
        };
        let Some(kernel) = self.common.as_ref().map(Ready::kernel) else { return Vec::new() };
        let mut cross = kernel.prepare(x, self.d).cross(fixed);
        let rows = cross.chunks_exact_mut(fixed.rows()).zip(parts).zip(solved);
        rows.map(|((own, part), solved)| {
            own.iter_mut().zip(common.chunks_exact(solved.len())).for_each(|(k, b)| *k -= dot(b, solved));
            solve_packed(lower, own);
            Part { shift: part.shift + dot(own, weights), explained: part.explained + dot(own, own), ..*part }
        })
        .collect()
    }

    /// What the experts nearest to each row say, one after another.
    fn near(&self, x: &[f64], parts: &[Part], solved: &[Vec<f64>], said: &mut Said) {
        let Some(kernel) = self.common.as_ref().map(Ready::kernel) else { return };
        let (t, points) = (parts.len(), kernel.prepare(x, self.d));
        let most: Vec<Vec<f64>> = self.samples.iter().map(|sample| correlations(&points, sample)).collect();
        let chosen = nearest_experts(&most, t);
        let k = chosen.len() / t.max(1);
        let mut slots: Vec<Part> = parts.repeat(k);
        for (expert, own) in self.augmented.iter().enumerate() {
            let asked: Vec<(usize, usize)> =
                (0..t * k).filter(|at| chosen[*at] == expert).map(|at| (at / k, at % k)).collect();
            if asked.is_empty() || matches!(own, ReadyOwn::Same) {
                continue;
            }
            let some: Vec<f64> = asked.iter().flat_map(|(row, _)| &x[row * self.d..][..self.d]).copied().collect();
            let known: Vec<Part> = asked.iter().map(|(row, _)| parts[*row]).collect();
            let solved: Vec<Vec<f64>> = asked.iter().map(|(row, _)| solved[*row].clone()).collect();
            for ((row, slot), part) in asked.iter().zip(self.own(own, &some, &known, &solved)) {
                slots[slot * t + row] = part;
            }
        }
        said.add(&slots);
    }
}

/// The largest k(s, x)/√k(s, s) over the rows s of a sample, for each row x.
fn correlations(points: &Prepared, sample: &Prepared) -> Vec<f64> {
    let scales: Vec<f64> = sample.diagonal().iter().map(|variance| variance.max(f64::MIN_POSITIVE).sqrt()).collect();
    let most = |row: &[f64]| row.iter().zip(&scales).map(|(k, scale)| k / scale).fold(f64::NEG_INFINITY, f64::max);
    points.cross(sample).chunks_exact(sample.rows()).map(most).collect()
}
