//! The posterior of combined grids.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::basis::{self, Basis, PartialModel, Rows};
use super::{Combination, Domain, Grids, SparseGrid, SparseGridOptions, errors};
use crate::advice::Advice;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::dense::columns::combine;
use crate::linalg::dense::{product, transpose, view, view_mut};
use crate::models::Observations;
use crate::models::experts::aggregation::{Form, WeightSystem, Weights};
use crate::models::posterior::{self, InducingPart, Joint, Marginals, Posterior, SavedPosterior};
use crate::params::all_finite;
use crate::products::Covariance;
use crate::scope::{Scope, to_f64};
use crate::serving::{self, Described, Served};
use crate::threads;

/// The number of rows that are predicted at once.
const CHUNK: usize = 1024;

/// The number of training rows by which error bars are judged.
const SOME: usize = 256;

/// Error bars that are more than so many times as wide as the errors give a remark.
const WIDE: f64 = 2.0;

/// The array in files with A Aᵀ and A t of every grid, one after another.
const SUMS: &str = "posterior.sums";
/// The array in files with the matrix of the optimal coefficients `[b, b]`.
const MATRIX: &str = "posterior.matrix";
/// The array in files with the right-hand side of the optimal coefficients `[b]`.
const MOMENTS: &str = "posterior.moments";
/// The array in files with A K̂ Aᵀ of all features.
const ERRORS: &str = "posterior.errors";

/// The posterior of a [`SparseGrid`] whose grids are combined.
#[derive(Debug, Clone)]
pub struct SparseGridPosterior {
    options: SparseGridOptions,
    domain: Domain,
    grids: Grids,
    basis: Basis,
    rows: Rows,
    parts: Vec<PartialModel>,
    system: System,
    /// A K̂ Aᵀ, for variances, once they are asked for.
    errors: OnceLock<Vec<f64>>,
}

/// The linear system of the optimal coefficients, in units of the noise.
#[derive(Debug, Clone)]
struct System {
    /// A `[b, b]`, which includes the inner products, and b `[b]`.
    sums: WeightSystem,
    optimal: Weights,
    /// c `[b]`, the coefficients of the combination in use.
    coefficients: Vec<f64>,
}

impl System {
    fn new(sums: WeightSystem, grids: &Grids, combination: Combination) -> Result<Self> {
        let optimal = sums.solve(Form::Normal, &vec![0.0; grids.all.len().pow(2)], 1.0)?;
        let coefficients = match combination {
            Combination::Ct => grids.all.iter().map(|grid| grid.technique).collect(),
            _ => optimal.beta.clone(),
        };
        Ok(Self { sums, optimal, coefficients })
    }
}

impl SparseGridPosterior {
    pub(super) fn new(model: &SparseGrid, compute: Compute, data: Observations) -> Result<Self> {
        let basis = Basis::new(model, compute)?;
        let rows = Rows::new(model, &basis, data)?;
        let parts = basis::solved(&basis, &rows, model.grids())?;
        let mut system = WeightSystem::new(parts.len());
        for panel in rows.panels(&basis) {
            let all = rows.features(&basis, &panel)?;
            let values: Vec<_> = parts.iter().zip(basis.parts(&all)).collect();
            let f = threads::map(values.into_par_iter(), |(part, features)| part.values(features)).concat();
            system.add(&f, &rows.targets[panel])?;
        }
        system.products = system.matrix(&basis.inner(&parts)?, 1.0);
        let system = System::new(system, model.grids(), model.options.combination)?;
        Ok(Self::of(model, (basis, rows, parts), system, OnceLock::new()))
    }

    fn of(
        model: &SparseGrid,
        (basis, rows, parts): (Basis, Rows, Vec<PartialModel>),
        system: System,
        errors: OnceLock<Vec<f64>>,
    ) -> Self {
        let (options, domain, grids) = (model.options, model.domain(), model.grids().clone());
        Self { options, domain, grids, basis, rows, parts, system, errors }
    }

    /// Restores the posterior that was saved with its sums.
    pub(super) fn restored(
        model: &SparseGrid,
        compute: Compute,
        data: Observations,
        mut saved: SavedPosterior,
    ) -> Result<Self> {
        let basis = Basis::new(model, compute)?;
        let rows = Rows::new(model, &basis, data)?;
        let (b, total) = (model.grids().all.len(), basis.total());
        let sizes: Vec<usize> = model.grids().all.iter().map(|grid| grid.members.len()).collect();
        let mut take = |name: &str, length: usize| {
            let values = saved.take(name).filter(|values| values.len() == length && all_finite(values));
            values.ok_or_else(|| {
                Error::Data(format!("lacks the numbers `{name}` of its grids, or has another count of them"))
            })
        };
        let sums = take(SUMS, sizes.iter().map(|m| m * (m + 1)).sum())?;
        let sums_of_values = WeightSystem { products: take(MATRIX, b * b)?, moments: take(MOMENTS, b)? };
        let errors = take(ERRORS, total * total)?.into();
        let (mut rest, mut parts) = (&sums[..], Vec::new());
        for m in sizes {
            let (own, others) = rest.split_at(m * (m + 1));
            let (square, projected) = own.split_at(m * m);
            parts.push(PartialModel::new(square.to_vec(), projected.to_vec())?);
            rest = others;
        }
        let system = System::new(sums_of_values, model.grids(), model.options.combination)?;
        Ok(Self::of(model, (basis, rows, parts), system, errors))
    }

    /// A K̂ Aᵀ.
    fn errors(&self) -> Result<&[f64]> {
        posterior::once(&self.errors, || errors::products_of_rows(&self.basis, &self.rows)).map(Vec::as_slice)
    }

    /// The coefficients c of the grids.
    pub fn coefficients(&self) -> &[f64] {
        &self.system.coefficients
    }

    /// The optimal coefficients, with the condition number of their system.
    pub fn optimal(&self) -> &Weights {
        &self.system.optimal
    }

    /// A `[b, b]` and b `[b]` of the optimal coefficients: the sums over rows of f_l f_k/σ_n² plus ⟨f_l, f_k⟩_H, and
    /// the sums of y f_l/σ_n².
    pub fn system(&self) -> (&[f64], &[f64]) {
        (&self.system.sums.products, &self.system.sums.moments)
    }

    /// J(c) − J(0) = cᵀA c − 2 bᵀc.
    pub fn loss(&self, coefficients: &[f64]) -> f64 {
        let row = |row: &[f64]| row.iter().zip(coefficients).map(|(a, c)| a * c).sum::<f64>();
        let rows = self.system.sums.products.chunks_exact(coefficients.len());
        rows.zip(coefficients).zip(&self.system.sums.moments).map(|((a, c), b)| c * (row(a) - 2.0 * b)).sum()
    }

    /// The means of the partial models at rows `x`, less the prior's, row-major `[b, rows]`.
    ///
    /// # Errors
    /// As [`predict`](Posterior::predict).
    pub fn partial_means(&self, x: &[f64]) -> Result<Vec<f64>> {
        posterior::rows(x, self.basis.d())?;
        let all = self.basis.features(x)?;
        Ok(self.parts.iter().zip(self.basis.parts(&all)).flat_map(|(part, own)| part.values(own)).collect())
    }

    /// The weights c_l γ_l of all features.
    fn weights(&self) -> Vec<f64> {
        let each = self.parts.iter().zip(self.coefficients());
        each.flat_map(|(part, c)| part.mean.iter().map(move |mean| c * mean)).collect()
    }

    /// φ = (c_l B_l⁻¹ a_l) of features `[total, rows]`.
    fn spread(&self, features: &[f64]) -> Result<Vec<f64>> {
        let mut all = features.to_vec();
        for ((own, part), c) in self.basis.split(&mut all).into_iter().zip(&self.parts).zip(self.coefficients()) {
            part.inner.solve(own)?;
            own.iter_mut().for_each(|value| *value *= c);
        }
        Ok(all)
    }

    /// Means less the prior's, and the explained part of the prior variance.
    fn part(&self, x: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
        let (features, rows, total) = (self.basis.features(x)?, x.len() / self.basis.d(), self.basis.total());
        let mean = combine(&features, &self.weights());
        let spread = self.spread(&features)?;
        let mut left = errors::with_rows(&self.basis, &self.rows, x)?;
        left.iter_mut().for_each(|value| *value *= 2.0);
        product::add(view_mut(&mut left, rows), view(self.errors()?, total), view(&spread, rows), -1.0);
        let mut explained = vec![0.0; rows];
        for (spread, left) in spread.chunks_exact(rows).zip(left.chunks_exact(rows)) {
            explained.iter_mut().zip(spread).zip(left).for_each(|((sum, s), l)| *sum += s * l);
        }
        Ok((mean, explained))
    }

    /// The ratio of the error bars to the errors at some training rows, by root mean squares.
    fn excess(&self) -> Result<f64> {
        let (data, d) = (&self.rows.data, self.basis.d());
        let some: Vec<usize> = (0..data.n()).step_by(data.n().div_ceil(SOME).max(1)).collect();
        let x: Vec<f64> = some.iter().flat_map(|row| &data.x[row * d..][..d]).copied().collect();
        let Marginals { mean, variance, .. } = self.predict(&x)?;
        let (mut claimed, mut made) = (0.0, 0.0);
        for ((row, mean), variance) in some.into_iter().zip(mean).zip(variance) {
            claimed += variance + self.rows.roots[row].powi(-2);
            made += (data.y[row] - mean).powi(2);
        }
        // If the predictions meet the rows exactly, there is nothing to compare with.
        Ok(if made > 0.0 { (claimed / made).sqrt() } else { 0.0 })
    }

    fn prior_at(&self, x: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
        let scope = Scope::new(self.basis.compute)?;
        let points = self.basis.tensor(&scope, x);
        let mean = to_f64(self.basis.prior.mean.at(&scope, &points)?)?;
        Ok((mean, to_f64(Covariance::new(&self.basis.prior.kernel, &scope, &points).diagonal_wide()?)?))
    }
}

impl Posterior for SparseGridPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        posterior::rows(x, self.basis.d())?;
        let mut all = Marginals::default();
        for chunk in x.chunks(CHUNK * self.basis.d()) {
            let (mean, explained) = self.part(chunk)?;
            let (level, prior) = self.prior_at(chunk)?;
            all.extend(level.iter().zip(mean).map(|(level, mean)| level + mean), &prior, &explained);
        }
        Ok(all)
    }

    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        posterior::rows(x, self.basis.d())?;
        let (weights, mut means) = (self.weights(), Vec::new());
        for chunk in x.chunks(CHUNK * self.basis.d()) {
            let mean = combine(&self.basis.features(chunk)?, &weights);
            means.extend(self.prior_at(chunk)?.0.iter().zip(mean).map(|(level, mean)| level + mean));
        }
        Ok(means)
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        let rows = posterior::rows(x, self.basis.d())?;
        if rows == 0 {
            return Ok(Joint::default());
        }
        let (features, total) = (self.basis.features(x)?, self.basis.total());
        let scope = Scope::new(self.basis.compute)?;
        let points = self.basis.tensor(&scope, x);
        let mut covariance = to_f64(Covariance::new(&self.basis.prior.kernel, &scope, &points).matrix_wide()?)?;
        let level = self.prior_at(x)?.0;
        let mean = level.iter().zip(combine(&features, &self.weights())).map(|(level, mean)| level + mean).collect();
        let spread = self.spread(&features)?;
        let with_rows = errors::with_rows(&self.basis, &self.rows, x)?;
        let mut among = vec![0.0; spread.len()];
        product::set(view_mut(&mut among, rows), view(self.errors()?, total), view(&spread, rows), 1.0);
        let phi = view(&spread, rows);
        product::add(view_mut(&mut covariance, rows), phi.transpose(), view(&among, rows), 1.0);
        product::add(view_mut(&mut covariance, rows), phi.transpose(), view(&with_rows, rows), -1.0);
        product::add(view_mut(&mut covariance, rows), view(&with_rows, rows).transpose(), phi, -1.0);
        transpose::mirror(view_mut(&mut covariance, rows));
        Ok(Joint { mean, covariance })
    }

    fn saved(&self, factor: bool) -> Result<SavedPosterior> {
        let mut saved = SavedPosterior::default();
        if !factor {
            return Ok(saved);
        }
        let sums: Vec<f64> =
            self.parts.iter().flat_map(|part| part.square.iter().chain(&part.projected)).copied().collect();
        let (b, length, total) = (self.parts.len(), sums.len(), self.basis.total());
        saved.put(SUMS, &[length], sums);
        saved.put(MATRIX, &[b, b], &*self.system.sums.products);
        saved.put(MOMENTS, &[b], &*self.system.sums.moments);
        saved.put(ERRORS, &[total, total], self.errors()?);
        Ok(saved)
    }

    fn served(&self, factor: bool) -> Result<Served> {
        if !factor {
            return Ok(Served::refused(posterior::NO_FACTOR));
        }
        let kernel = match self.basis.prior.kernel.numbers() {
            Ok(kernel) => kernel,
            Err(error) => return Ok(Served::refused(error.to_string())),
        };
        let mut arrays = BTreeMap::new();
        let mut keep = |name: &str, values: Vec<f64>| serving::keep(&mut arrays, name, values);
        let mut grids = Vec::new();
        for (l, (members, lower)) in self.basis.grids().enumerate() {
            let inner = keep(&format!("{l}.inner"), self.parts[l].inner.packed());
            let lower = keep(&format!("{l}.lower"), serving::packed(lower, members.len(), false));
            let coefficient = self.coefficients()[l];
            grids.push(serving::Grid { members: members.to_vec(), lower, inner, coefficient });
        }
        let weights = keep("weights", self.weights());
        let features = keep("features", errors::features_of_rows(&self.basis, &self.rows)?);
        let (points, rows) = (keep("points", self.basis.points().to_vec()), "x".into());
        self.errors()?;
        let (mean, errors) = (self.basis.prior.mean.numbers(), ERRORS.into());
        let found = serving::Grids { kernel, mean, points, grids, weights, rows, features, errors };
        Ok(Served { posterior: Described::Grids(Box::new(found)), arrays })
    }

    fn remarks(&self, x: &[f64]) -> Result<Vec<Advice>> {
        let mut all: Vec<Advice> = self.domain.remark(x).map(Advice::from).into_iter().collect();
        let excess = self.excess()?;
        if excess > WIDE {
            let text = format!(
                "error bars are {excess:.1} times as wide as the errors at training rows: under its prior the function \
                 varies more than grids of so few points follow; choose a higher level, or the union of the grids"
            );
            let advice = Advice::from(text).about("SparseGridOptions::level");
            all.push(advice.set("SparseGridOptions::combination", "union"));
        }
        let condition = self.system.optimal.condition;
        if self.options.combination == Combination::Opticom && condition > 1.0 / f64::EPSILON.sqrt() {
            let text = format!(
                "the coefficients of the grids are poorly determined: the condition number of their system is \
                 {condition:.1e}; choose a lower level, or the union of the grids"
            );
            let advice = Advice::from(text).about("SparseGridOptions::level");
            all.push(advice.set("SparseGridOptions::combination", "union"));
        }
        Ok(all)
    }

    fn inducing_parts(&self) -> Vec<InducingPart> {
        let parts = self.grids.all.iter().zip(self.coefficients());
        let part = |(grid, coefficient): (&super::Grid, &f64)| InducingPart {
            name: format!("grid {}", grid.name()),
            inputs: self.domain.scaled(&self.grids.points_of(grid)),
            coefficient: *coefficient,
            technique: grid.technique,
        };
        parts.map(part).collect()
    }
}
