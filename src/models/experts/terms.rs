//! What rules need from several experts together: the covariances of their means, and sums over all rows.

use std::sync::{Mutex, PoisonError};

use super::Shared;
use super::aggregation::{Covariances, WeightSystem};
use super::conditioned::Conditioned;
use super::expert::{Dependence, Expert, Mean};
use crate::distributed::Data;
use crate::error::{Error, Result};
use crate::linalg::real::dot;
use crate::models::gp_model::GpModel;
use crate::products;
use crate::scope::{Scope, to_f64};
use crate::threads;

/// The number of rows at which the experts' means are computed at once.
const ROWS: usize = 4096;

/// c_i = w_iᵀk(X_i, x) and C_ij = w_iᵀ(K_ij + δ_ij Σ_i) w_j at `t` points, row-major `x [t, d]`.
///
/// # Errors
/// What factorisations and the kernel report.
pub(super) fn covariances(experts: &Conditioned, x: &[f64]) -> Result<Covariances> {
    let (model, compute) = (experts.model(), experts.compute());
    let (kernel, d) = (&model.prior().kernel, experts.data().d());
    let t = x.len() / d;
    let wide = || Ok(Scope::new(compute)?.widened());
    let of_expert = |expert: usize| {
        let scope = wide()?;
        let points = scope.matrix(x, t, d);
        experts.with(expert, |local| {
            let Dependence { weights, cross } = local.dependence(&scope, model.prior(), &points)?;
            Ok((weights, cross, local.data().noise(&scope, model.shared.likelihood())?))
        })
    };
    let all: Vec<(Vec<f64>, Vec<f64>, Vec<f64>)> = threads::apart(model.len(), of_expert)?;
    let mut found = Covariances::new(model.len(), t);
    for (expert, (weights, cross, _)) in all.iter().enumerate() {
        found.add_with_f(expert, weights, cross)?;
    }
    let found = Mutex::new(found);
    let pairs: Vec<(usize, usize)> = (0..model.len()).flat_map(|i| (0..=i).map(move |j| (i, j))).collect();
    threads::apart(pairs.len(), |pair| {
        let (i, j) = pairs[pair];
        let right = if i == j && matches!(model.shared, Shared::Exact(_)) {
            // w_i was solved from (K_i + Σ_i) w_i.
            all[i].1.clone()
        } else {
            let scope = wide()?;
            let rows = |expert: usize| {
                let data = experts.rows(expert)?;
                Ok::<_, Error>(scope.matrix(&data.x, data.n(), d))
            };
            let weights = scope.matrix(&all[j].0, all[j].2.len(), t);
            let product = if i == j {
                products::Covariance::new(kernel, &scope, &rows(i)?).times(&weights)?
            } else {
                products::Cross::new(kernel, &scope, &rows(i)?, &rows(j)?).times(&weights)?
            };
            let mut right = to_f64(product)?;
            if i == j {
                for ((right, own), noise) in right.chunks_mut(t).zip(all[i].0.chunks(t)).zip(&all[i].2) {
                    right.iter_mut().zip(own).for_each(|(right, own)| *right += noise * own);
                }
            }
            right
        };
        found.lock().unwrap_or_else(PoisonError::into_inner).add_among(i, j, &all[i].0, &right)
    })?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The sums over rows for the system of the weights, and the experts' inner products ⟨f_i, f_j⟩_H, row-major `[M, M]`.
/// If `whitened`, each row is divided by the standard deviation of its noise.
pub(super) fn sums(experts: &Conditioned, data: Data, whitened: bool) -> Result<(WeightSystem, Vec<f64>)> {
    let model = experts.model();
    let prior = model.prior();
    let means: Vec<Mean> = threads::apart(model.len(), |expert| experts.with(expert, Expert::mean))?;
    let mut system = WeightSystem::new(model.len());
    let scope = Scope::new(experts.compute())?.widened();
    for start in (0..data.n()).step_by(ROWS) {
        let rows = data.gather(&(start..data.n().min(start + ROWS)).collect::<Vec<_>>())?;
        let (x, y) = (&rows.x, &rows.y);
        let mut f = deviations(experts, &means, x)?;
        let level = to_f64(prior.mean.at(&scope, &scope.matrix(x, y.len(), rows.d))?)?;
        let mut residual: Vec<f64> = y.iter().zip(level).map(|(y, level)| y - level).collect();
        if whitened {
            let noise = rows.noise(&scope, model.shared.likelihood())?;
            let roots: Vec<f64> = noise.into_iter().map(|noise| 1.0 / noise.sqrt()).collect();
            for row in f.chunks_exact_mut(y.len()).chain([&mut residual[..]]) {
                row.iter_mut().zip(&roots).for_each(|(value, root)| *value *= root);
            }
        }
        system.add(&f, &residual)?;
    }
    Ok((system, inner(experts, &means)?))
}

/// f_i − m at `x`, row-major `[M, rows]`.
fn deviations(experts: &Conditioned, means: &[Mean], x: &[f64]) -> Result<Vec<f64>> {
    Ok(threads::apart(means.len(), |expert| deviation(experts, &means[expert], x))?.concat())
}

/// f_i − m of one expert.
fn deviation(experts: &Conditioned, Mean { centres, coefficients }: &Mean, x: &[f64]) -> Result<Vec<f64>> {
    let (kernel, d) = (&experts.model().prior().kernel, experts.data().d());
    let (scope, count) = (Scope::new(experts.compute())?.widened(), coefficients.len());
    let (points, centres) = (scope.rows(x, d), scope.matrix(centres, count, d));
    to_f64(products::Cross::new(kernel, &scope, &points, &centres).times(&scope.matrix(coefficients, count, 1))?)
}

/// a_iᵀ K(C_i, C_j) a_j.
fn inner(experts: &Conditioned, means: &[Mean]) -> Result<Vec<f64>> {
    let m = means.len();
    let rows = threads::apart(m, |i| {
        let with = |other: &Mean| Ok(dot(&deviation(experts, other, &means[i].centres)?, &means[i].coefficients));
        means[..=i].iter().map(with).collect::<Result<Vec<f64>>>()
    })?;
    let mut inner = vec![0.0; m * m];
    for (i, row) in rows.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            (inner[i * m + j], inner[j * m + i]) = (*value, *value);
        }
    }
    Ok(inner)
}
