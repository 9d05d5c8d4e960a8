//! Experts in numbers: each knows its own rows, and a rule combines what they say.

use serde::{Deserialize, Serialize};

use super::latent::{Latent, Moments, Part, ROWS, Ready, dot, solve_packed};
use super::{Find, Function, needed, prepared, sized};
use crate::aggregation::{
    self, Aggregated, Augmented, Covariances, LocalPredictions, Rule, nearest_experts, nested, weighted,
};
use crate::kernels::Prepared;

/// Experts of one prior, and the rule that combines them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committee {
    /// The rule.
    pub rule: Rule,
    /// The experts on their own rows, for rules that need these.
    pub experts: Vec<Latent>,
    /// The communication expert, for rules that need one.
    pub common: Option<Latent>,
    /// The experts with its rows added.
    pub augmented: Vec<Own>,
    /// The array of some rows of each expert, for the rule that asks the nearest.
    pub samples: Vec<String>,
    /// What the mean of each sparse expert makes of its rows, for rules that need covariances among experts. Exact
    /// experts have their rows as points.
    pub rows: Vec<Rows>,
    /// The weights of the experts, for the rules that have them.
    pub weights: Option<Vec<f64>>,
}

/// The rows of a sparse expert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rows<A = String, P = String> {
    /// The array of their inputs.
    pub points: P,
    /// The array of the variances of their noise.
    pub noise: A,
    /// The array of the weights of their targets in the mean, row-major `[rows, points]`: times whitened covariances.
    pub lift: A,
}

/// An expert with the rows of the communication expert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Own<A = String, P = String, L = Latent> {
    /// All of its rows are among them.
    Same,
    /// Its other rows R, given those of the communication expert C: the arrays R, B = K_RC L_C⁻ᵀ, the factor of what is
    /// left of K̂_RR, and the whitened residuals.
    Beyond {
        /// R, row-major.
        points: P,
        /// B, row-major.
        common: A,
        /// The factor's rows up to the diagonal.
        lower: A,
        /// The whitened residuals.
        weights: A,
    },
    /// The rows of both.
    Whole(L),
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
    rows: Vec<Rows<Vec<f64>, Prepared>>,
    weights: Option<Vec<f64>>,
}

type ReadyOwn = Own<Vec<f64>, Prepared, Box<Ready>>;

impl Committee {
    /// No experts.
    pub fn of(rule: Rule) -> Self {
        let (experts, common, augmented) = Default::default();
        let (samples, rows, weights) = Default::default();
        Self { rule, experts, common, augmented, samples, rows, weights }
    }

    /// Reads the arrays, which `array` finds by name, for inputs with `d` columns.
    ///
    /// # Errors
    /// What is missing or does not fit.
    pub fn ready(&self, d: usize, array: Find) -> Result<Experts, String> {
        let needs = self.rule.needs();
        let experts = self.experts.iter().map(|own| own.ready(d, array)).collect::<Result<Vec<_>, _>>()?;
        let common = self.common.as_ref().map(|common| common.ready(d, array)).transpose()?;
        if (common.is_none() && needs.augmented) || (experts.is_empty() && common.is_none()) {
            return Err("lacks its experts".into());
        }
        let kernel = experts.first().or(common.as_ref()).map(Ready::kernel).cloned().ok_or("lacks its experts")?;
        let mut samples = Vec::new();
        for name in &self.samples {
            samples.push(prepared(&kernel, &needed(array, name)?, name, d)?);
        }
        if self.rule == Rule::Near && samples.len() != self.augmented.len() {
            return Err("lacks rows of its experts".into());
        }
        let mut rows = Vec::new();
        for (Rows { points, noise, lift }, expert) in self.rows.iter().zip(&experts) {
            let points = prepared(&kernel, &needed(array, points)?, points, d)?;
            let noise = sized(array, noise, points.rows())?;
            let lift = sized(array, lift, points.rows() * expert.size())?;
            rows.push(Rows { points, noise, lift });
        }
        let complete = rows.is_empty() || rows.len() == experts.len();
        let weighted = self.weights.as_ref().map(Vec::len) == needs.weights.map(|_| experts.len());
        if needs.covariances && (experts.is_empty() || !complete || !weighted) {
            return Err("lacks rows or weights of its experts".into());
        }
        let mut augmented = Vec::new();
        for own in &self.augmented {
            augmented.push(match own {
                Own::Same => Own::Same,
                Own::Whole(latent) => Own::Whole(Box::new(latent.ready(d, array)?)),
                Own::Beyond { points, common: by, lower, weights } => {
                    let points = prepared(&kernel, &needed(array, points)?, points, d)?;
                    let (r, c) = (points.rows(), common.as_ref().map_or(0, Ready::size));
                    let (by, lower) = (sized(array, by, r * c)?, sized(array, lower, r * (r + 1) / 2)?);
                    Own::Beyond { points, common: by, lower, weights: sized(array, weights, r)? }
                }
            });
        }
        let (rule, weights) = (self.rule, self.weights.clone());
        Ok(Experts { rule, d, experts, common, augmented, samples, rows, weights })
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

impl Function for Experts {
    fn moments(&self, x: &[f64]) -> Result<Vec<Moments>, String> {
        let chunks: Result<Vec<_>, String> = x.chunks(ROWS * self.d).map(|x| self.chunk(x)).collect();
        Ok(chunks?.concat())
    }
}

impl Experts {
    fn chunk(&self, x: &[f64]) -> Result<Vec<Moments>, String> {
        let (mut local, mut known, mut said) = (Said::default(), Said::default(), Said::default());
        let mut priors: Vec<(f64, f64)> = Vec::new();
        let mut whitened = Vec::new();
        for expert in &self.experts {
            let mut solved = Vec::new();
            let parts = expert.parts(x, self.rule.needs().covariances.then_some(&mut solved));
            priors = parts.iter().map(|part| (part.level, part.prior)).collect();
            local.add(&parts);
            whitened.push(solved);
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
        let found = match aggregation::aggregate(self.rule, local.predictions(), &prior, augmented) {
            Ok(Some(found)) => found,
            Ok(None) => self.entangled(x, &whitened, &local, &prior).map_err(|error| error.to_string())?,
            Err(error) => return Err(error.to_string()),
        };
        let rows = found.mean.iter().zip(&found.variance).zip(priors);
        Ok(rows.map(|((mean, variance), (level, _))| Moments { mean: level + mean, variance: *variance }).collect())
    }

    /// What a rule makes of the covariances of the experts' means, whose whitened covariances are `[M][rows][points]`.
    fn entangled(
        &self,
        x: &[f64],
        whitened: &[Vec<Vec<f64>>],
        local: &Said,
        prior: &[f64],
    ) -> crate::Result<Aggregated> {
        let (count, t) = (self.experts.len(), prior.len());
        let kernel = self.experts[0].kernel();
        let points = kernel.prepare(x, self.d);
        let fixed: Vec<&Prepared> = match self.rows.is_empty() {
            true => self.experts.iter().map(Ready::fixed).collect(),
            false => self.rows.iter().map(|rows| &rows.points).collect(),
        };
        // The weights of the rows of each expert in its mean, row-major [rows, t].
        let mut weights: Vec<Vec<f64>> = Vec::new();
        for (k, expert) in self.experts.iter().enumerate() {
            let mut own = vec![0.0; fixed[k].rows() * t];
            for (at, a) in whitened[k].iter().enumerate() {
                let w = match self.rows.get(k) {
                    Some(rows) => rows.lift.chunks_exact(a.len()).map(|row| dot(row, a)).collect(),
                    None => {
                        let mut w = a.clone();
                        expert.solve_transposed(&mut w);
                        w
                    }
                };
                own.iter_mut().skip(at).step_by(t).zip(w).for_each(|(to, w)| *to = w);
            }
            weights.push(own);
        }
        let mut found = Covariances::new(count, t);
        for i in 0..count {
            let with_f = fixed[i].cross(&points);
            found.add_with_f(i, &weights[i], &with_f)?;
            for j in 0..=i {
                let right = match self.rows.get(i).filter(|_| i == j) {
                    // w_i was solved from (K_i + Σ_i) w_i.
                    None if i == j => with_f.clone(),
                    own => {
                        let mut right = product(&fixed[i].cross(fixed[j]), &weights[j], t);
                        let noise = own.iter().flat_map(|rows| &rows.noise);
                        for ((to, w), noise) in right.chunks_exact_mut(t).zip(weights[i].chunks_exact(t)).zip(noise) {
                            to.iter_mut().zip(w).for_each(|(to, w)| *to += noise * w);
                        }
                        right
                    }
                };
                found.add_among(i, j, &weights[i], &right)?;
            }
        }
        let local = aggregation::Experts::new("experts", local.predictions(), prior)?;
        if let Some(beta) = &self.weights {
            return Ok(weighted(&local, beta, &found));
        }
        Ok(Aggregated::of_nested(&local, (0..t).map(|row| nested(&local, &found, row))))
    }

    /// What an expert with the rows of the communication expert says at rows where that expert's parts and solves are
    /// known; nothing if it has no other rows.
    fn own(&self, own: &ReadyOwn, x: &[f64], parts: &[Part], solved: &[Vec<f64>]) -> Vec<Part> {
        let (points, common, lower, weights) = match own {
            Own::Same => return Vec::new(),
            Own::Whole(whole) => return whole.parts(x, None),
            Own::Beyond { points, common, lower, weights } => (points, common, lower, weights),
        };
        let Some(kernel) = self.common.as_ref().map(Ready::kernel) else { return Vec::new() };
        let mut cross = kernel.prepare(x, self.d).cross(points);
        let rows = cross.chunks_exact_mut(points.rows()).zip(parts).zip(solved);
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
            if asked.is_empty() || matches!(own, Own::Same) {
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

/// A B for row-major A and B with `t` columns.
fn product(a: &[f64], b: &[f64], t: usize) -> Vec<f64> {
    let inner = b.len() / t;
    let mut all = vec![0.0; a.len() / inner * t];
    for (to, row) in all.chunks_exact_mut(t).zip(a.chunks_exact(inner)) {
        for (value, b) in row.iter().zip(b.chunks_exact(t)) {
            to.iter_mut().zip(b).for_each(|(to, b)| *to += value * b);
        }
    }
    all
}

/// The largest k(s, x)/√k(s, s) over the rows s of a sample, for each row x.
fn correlations(points: &Prepared, sample: &Prepared) -> Vec<f64> {
    let scales: Vec<f64> = sample.diagonal().iter().map(|variance| variance.max(f64::MIN_POSITIVE).sqrt()).collect();
    let most = |row: &[f64]| row.iter().zip(&scales).map(|(k, scale)| k / scale).fold(f64::NEG_INFINITY, f64::max);
    points.cross(sample).chunks_exact(sample.rows()).map(most).collect()
}
