//! The whitened features of all partial grids, and the partial models built from them.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{Grids, SparseGrid};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::dense::columns::combine;
use crate::linalg::dense::{product, solve, transpose, view, view_mut};
use crate::linalg::real::dot;
use crate::linalg::{Collapsed, Factor};
use crate::models::Observations;
use crate::models::prior::Prior;
use crate::products::{Covariance, Cross};
use crate::scope::{Scope, to_f64};
use crate::threads;

/// The most bytes that the features of a panel of rows take, and the most rows of a panel.
const PANEL: usize = 32 << 20;
const ROWS: usize = 4096;

/// a_l(x) = L_l⁻¹ k(Ω_l, x) with k(Ω_l, Ω_l) = L_l L_lᵀ, stacked for all grids.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    pub prior: Prior,
    pub compute: Compute,
    d: usize,
    /// Distinct points `[u, d]`, on the scale of the model's inputs.
    points: Vec<f64>,
    members: Vec<Vec<usize>>,
    /// L_l `[m, m]`.
    lowers: Vec<Vec<f64>>,
}

impl Basis {
    pub fn new(model: &SparseGrid, compute: Compute) -> Result<Self> {
        let (grids, domain) = (model.grids(), model.domain());
        let (d, scope) = (grids.d, Scope::new(compute)?);
        let lower = |own: Vec<f64>| {
            let z = scope.rows(&own, d);
            let gram = to_f64(Covariance::new(&model.prior.kernel, &scope, &z).matrix_wide()?)?;
            Ok(Factor::new(gram, "k(Ω_l, Ω_l) of a partial grid")?.lower())
        };
        let own = |grid| domain.scaled(&grids.points_of(grid));
        let lowers = grids.all.iter().map(|grid| lower(own(grid))).collect::<Result<_>>()?;
        let members = grids.all.iter().map(|grid| grid.members.clone()).collect();
        let points = domain.scaled(&grids.points);
        Ok(Self { prior: model.prior.clone(), compute, d, points, members, lowers })
    }

    /// The number of points of all grids.
    pub fn total(&self) -> usize {
        self.members.iter().map(Vec::len).sum()
    }

    /// All points, row-major.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// The places of each grid's points, and L_l.
    pub fn grids(&self) -> impl Iterator<Item = (&[usize], &[f64])> {
        self.members.iter().zip(&self.lowers).map(|(members, lower)| (&members[..], &lower[..]))
    }

    /// The number of input columns.
    pub fn d(&self) -> usize {
        self.d
    }

    /// The features of rows, row-major `[total, rows]`.
    pub fn features(&self, x: &[f64]) -> Result<Vec<f64>> {
        let scope = Scope::new(self.compute)?;
        let (rows, points) = (x.len() / self.d, self.tensor(&scope, &self.points));
        let k = to_f64(Cross::new(&self.prior.kernel, &scope, &points, &self.tensor(&scope, x)).matrix_wide()?)?;
        let mut all = vec![0.0; self.total() * rows];
        let grids: Vec<_> = self.split(&mut all).into_iter().zip(self.members.iter().zip(&self.lowers)).collect();
        threads::for_each(grids.into_par_iter(), |(own, (members, lower))| {
            for (to, from) in own.chunks_exact_mut(rows.max(1)).zip(members) {
                to.copy_from_slice(&k[from * rows..][..rows]);
            }
            solve::lower(view(lower, members.len()), view_mut(own, rows));
        });
        Ok(all)
    }

    /// Splits a matrix with a row for each feature into the parts of the grids.
    pub fn split<'a>(&self, mut all: &'a mut [f64]) -> Vec<&'a mut [f64]> {
        let columns = all.len() / self.total();
        self.members.iter().filter_map(|members| all.split_off_mut(..members.len() * columns)).collect()
    }

    /// As [`split`](Self::split), but read-only.
    pub fn parts<'a>(&self, mut all: &'a [f64]) -> Vec<&'a [f64]> {
        let columns = all.len() / self.total();
        self.members.iter().filter_map(|members| all.split_off(..members.len() * columns)).collect()
    }

    pub fn tensor(&self, scope: &Scope, x: &[f64]) -> Tensor<2> {
        scope.rows(x, self.d)
    }

    /// The number of rows in a panel.
    pub fn panel(&self) -> usize {
        (PANEL / (size_of::<f64>() * self.total())).clamp(256, ROWS)
    }

    /// ⟨f_l, f_k⟩_H of f_l = a_lᵀγ_l, `[b, b]`.
    pub fn inner(&self, parts: &[PartialModel]) -> Result<Vec<f64>> {
        let (scope, b, u) = (Scope::new(self.compute)?.widened(), parts.len(), self.points.len() / self.d);
        let mut weights = vec![0.0; u * b];
        for (l, ((part, members), lower)) in parts.iter().zip(&self.members).zip(&self.lowers).enumerate() {
            let mut own = part.mean.clone();
            solve::upper(view(lower, own.len()).transpose(), view_mut(&mut own, 1));
            members.iter().zip(own).for_each(|(at, weight)| weights[at * b + l] = weight);
        }
        let points = self.tensor(&scope, &self.points);
        let v = scope.matrix(&weights, u, b);
        let kv = to_f64(Cross::new(&self.prior.kernel, &scope, &points, &points).times(&v)?)?;
        let mut inner = vec![0.0; b * b];
        product::set(view_mut(&mut inner, b), view(&weights, b).transpose(), view(&kv, b), 1.0);
        for (l, part) in parts.iter().enumerate() {
            inner[l * b + l] = dot(&part.mean, &part.mean);
            (0..l).for_each(|k| inner[l * b + k] = inner[k * b + l]);
        }
        Ok(inner)
    }
}

/// Rows with their noise and scaled targets from the likelihood.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub data: Observations,
    /// 1/σ_n `[n]`.
    pub roots: Vec<f64>,
    /// Targets less the prior mean, over σ_n `[n]`.
    pub targets: Vec<f64>,
}

impl Rows {
    pub fn new(model: &SparseGrid, basis: &Basis, data: Observations) -> Result<Self> {
        if data.d != basis.d {
            return Err(Error::shape("inputs", format!("{} columns, as the grid has", basis.d), data.d.to_string()));
        }
        let scope = Scope::new(basis.compute)?;
        let batch = data.batch(&scope);
        let noise = to_f64(batch.noise(&scope.widened(), &model.likelihood))?;
        let mean = to_f64(model.prior.mean.at(&scope, &batch.x)?)?;
        let roots: Vec<f64> = noise.iter().map(|noise| 1.0 / noise.sqrt()).collect();
        let targets = data.y.iter().zip(mean).zip(&roots).map(|((y, mean), root)| (y - mean) * root).collect();
        Ok(Self { data, roots, targets })
    }

    /// The panels that the rows are split into.
    pub fn panels(&self, basis: &Basis) -> Vec<std::ops::Range<usize>> {
        let (n, size) = (self.data.n(), basis.panel());
        (0..n.div_ceil(size)).map(|i| i * size..n.min((i + 1) * size)).collect()
    }

    /// The inputs of some rows.
    pub fn x(&self, rows: &std::ops::Range<usize>) -> &[f64] {
        &self.data.x[rows.start * self.data.d..rows.end * self.data.d]
    }

    /// Features of some rows, divided by σ_n: A_l = L_l⁻¹ k(Ω_l, X) W^½ `[total, rows]`.
    pub fn features(&self, basis: &Basis, rows: &std::ops::Range<usize>) -> Result<Vec<f64>> {
        let mut all = basis.features(self.x(rows))?;
        let roots = &self.roots[rows.clone()];
        threads::for_each(all.par_chunks_exact_mut(roots.len()), |row| {
            row.iter_mut().zip(roots).for_each(|(value, root)| *value *= root);
        });
        Ok(all)
    }
}

/// The SGPR of one partial grid: q(v) = N(γ, B⁻¹) with B = I + A Aᵀ.
#[derive(Debug, Clone)]
pub(super) struct PartialModel {
    /// A Aᵀ `[m, m]`.
    pub square: Vec<f64>,
    /// A t `[m]`.
    pub projected: Vec<f64>,
    /// The factor of B.
    pub inner: Factor<f64>,
    /// γ `[m]`.
    pub mean: Vec<f64>,
}

impl PartialModel {
    pub fn new(square: Vec<f64>, projected: Vec<f64>) -> Result<Self> {
        let Collapsed { factor: inner, mean, .. } = Collapsed::new(square.clone(), &projected)?;
        Ok(Self { square, projected, inner, mean })
    }

    /// f_l at rows with features `[m, rows]`.
    pub fn values(&self, features: &[f64]) -> Vec<f64> {
        combine(features, &self.mean)
    }
}

/// The partial models, all solved in one pass over the rows.
pub(super) fn solved(basis: &Basis, rows: &Rows, grids: &Grids) -> Result<Vec<PartialModel>> {
    let sizes = grids.all.iter().map(|grid| grid.members.len());
    let mut sums: Vec<(Vec<f64>, Vec<f64>)> = sizes.map(|m| (vec![0.0; m * m], vec![0.0; m])).collect();
    for panel in rows.panels(basis) {
        let all = rows.features(basis, &panel)?;
        let (parts, targets) = (basis.parts(&all), view(&rows.targets[panel.clone()], 1));
        threads::for_each(sums.par_iter_mut().zip(parts), |((square, projected), a)| {
            let (m, a) = (projected.len(), view(a, panel.len()));
            product::add_lower(view_mut(square, m), a, a.transpose(), 1.0);
            product::add(view_mut(projected, 1), a, targets, 1.0);
        });
    }
    let part = |(mut square, projected): (Vec<f64>, Vec<f64>)| {
        transpose::mirror(view_mut(&mut square, projected.len()));
        PartialModel::new(square, projected)
    };
    threads::map(sums.into_par_iter(), part).into_iter().collect()
}
