//! Predictions of rows from their neighbours, or from all inducing inputs.

use super::{Swsgp, picked};
use std::collections::BTreeMap;

use crate::device::Compute;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::{product, solve, transpose, view, view_mut};
use crate::models::neighbours;
use crate::models::posterior::{self, Joint, Marginals, Posterior};
use crate::models::process::Process;
use crate::models::whitened::{Root, WhitenedPosterior};
use crate::scope::{Scope, to_f64};
use crate::serving::{self, Described, Served};
use crate::solvers::blocks::transposed;

/// The posterior of a [`Swsgp`]. Marginals use the neighbours of each row, or all inducing inputs if training used the
/// union of a batch's neighbours. Joint distributions use the union of the rows' neighbours.
#[derive(Debug, Clone)]
pub struct SwsgpPosterior {
    pub(super) model: Swsgp,
    pub(super) compute: Compute,
}

/// The most numbers in the small matrices of the rows that are predicted at once.
const NUMBERS: usize = 1 << 22;

impl Posterior for SwsgpPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        let (process, d) = (&self.model.process, self.model.process.d());
        // No union here: a prediction would depend on the other rows of the table.
        if self.model.union {
            return self.of_all()?.predict(x);
        }
        let (scope, model) = (Scope::new(self.compute)?, &self.model);
        let mut all = Marginals::default();
        let rows = (NUMBERS / model.neighbours.pow(2)).clamp(1, 1024);
        for chunk in x.chunks(rows * d) {
            // Rows see few of the inducing values, whatever their number: only these become tensors.
            let (union, neighbours) = neighbours::union(&model.neighbours(self.compute, chunk)?);
            let points = scope.rows(chunk, d);
            let found = model.marginals(&scope, &points, model.of(&scope, &union), neighbours.into())?;
            let prior = to_f64(process.prior.covariance(&scope, &points).diagonal_wide()?)?;
            let level = to_f64(process.prior.mean.at(&scope, &points)?)?;
            let explained: Vec<f64> = to_f64(found.change)?.into_iter().map(|c| -c).collect();
            all.extend(level.into_iter().zip(to_f64(found.shift)?).map(|(m, s)| m + s), &prior, &explained);
        }
        Ok(all)
    }

    fn served(&self, _factor: bool) -> Result<Served> {
        if self.model.union { Ok(self.of_all()?.alone()) } else { Ok(self.of_neighbours()) }
    }

    fn needs_data(&self) -> bool {
        false
    }

    /// The neighbours of all rows together may be far more than the model ever solves for.
    fn is_joint(&self) -> bool {
        false
    }

    fn has_joint(&self) -> bool {
        true
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        if posterior::rows(x, self.model.process.d())? == 0 {
            return Ok(Joint::default());
        }
        let (union, _) = neighbours::union(&self.model.neighbours(self.compute, x)?);
        self.among(&union)?.predict_joint(x)
    }
}

impl SwsgpPosterior {
    /// The posterior in numbers, where each row sees its neighbours.
    fn of_neighbours(&self) -> Served {
        let Swsgp { process, variational, neighbours, nugget, .. } = &self.model;
        let kernel = match process.prior.kernel.numbers() {
            Ok(kernel) => kernel,
            Err(error) => return Served::refused(error.to_string()),
        };
        let mut arrays = BTreeMap::new();
        let mut keep = |name: &str, values: Vec<f64>| serving::keep(&mut arrays, name, values);
        let points = keep("points", process.inducing.internal());
        let means = keep("means", variational.mean.internal());
        let (root, noise) = (Some(keep("root", variational.root.internal())), None);
        let (mean, count, nugget) = (process.prior.mean.numbers(), *neighbours, *nugget);
        let found = serving::Neighbours { kernel, mean, points, means, root, noise, count, nugget };
        Served { posterior: Described::Neighbours(Box::new(found)), arrays }
    }

    /// The posterior of the model with all inducing inputs.
    fn of_all(&self) -> Result<WhitenedPosterior> {
        self.among(&(0..self.model.process.len() as u32).collect::<Vec<_>>())
    }

    /// The posterior of the model with only these inducing inputs.
    fn among(&self, union: &[u32]) -> Result<WhitenedPosterior> {
        let (process, d) = (&self.model.process, self.model.process.d());
        let (u, m) = (union.len(), process.len());
        let z = picked(&process.inducing.internal(), union, d);
        let mut part = Process::new(process.prior.kernel.clone(), &z, d)?;
        part.prior.mean = process.prior.mean.clone();
        let scope = Scope::new(self.compute)?;
        let gram = part.prior.covariance(&scope, &part.z(&scope)).matrix_wide()?;
        let lower = Factor::new(to_f64(self.model.noisy(&scope, gram))?, "K_I")?.lower();
        let q = &self.model.variational;
        let mut mean = picked(&q.mean.internal(), union, 1);
        let mut root = vec![0.0; u * u];
        if q.is_diagonal() {
            root.iter_mut().step_by(u + 1).zip(picked(&q.root.internal(), union, 1)).for_each(|(to, from)| *to = from);
        } else {
            let rows = picked(&q.lower()?, union, m);
            product::add_lower(view_mut(&mut root, u), view(&rows, m), view(&rows, m).transpose(), 1.0);
            transpose::mirror(view_mut(&mut root, u));
            root = Factor::new(root, "S_I")?.lower();
        }
        solve::lower(view(&lower, u), view_mut(&mut mean, 1));
        solve::lower(view(&lower, u), view_mut(&mut root, u));
        let root = Root::Upper(transposed(&root, u));
        Ok(WhitenedPosterior::new(part.prior, self.compute, (z, d), lower, mean, root))
    }
}
