//! The steps of an iterative solve.

use std::ops::ControlFlow;

use burn::tensor::{DType, Tensor};

use super::{Basis, IterGpOptions, LinearSystem, Solve, SolveObserver, SolveReport, Start, Step, Stop};
use crate::error::{Error, Result};
use crate::linalg::{cholesky, cholesky_solve, solve_lower, solve_lower_transposed};
use crate::scope::{Scope, to_f64};
use crate::solvers::policies::{Actor, Policy, SolveState};

/// A running solve.
pub struct Run<'a> {
    system: &'a dyn LinearSystem,
    /// Actions of an earlier solve.
    old: Basis,
    actions: Basis,
    /// K̂S.
    products: Basis,
    /// KS, if later systems need it.
    covariances: Option<Basis>,
    /// For old and new actions together; none before the first action.
    small: Option<Small>,
    residual: Tensor<2>,
    dtype: DType,
}

/// The small system: the factor `[i, i]` and the coefficients `[i, 1]`.
struct Small {
    factor: Tensor<2>,
    coefficients: Tensor<2>,
}

impl<'a> Run<'a> {
    /// A new solve, or the continuation of an earlier one.
    pub fn new(system: &'a dyn LinearSystem, start: Option<Start>) -> Result<Self> {
        let scope = system.scope();
        let dtype = scope.wide();
        let mut run = Self {
            system,
            old: Basis::default(),
            actions: Basis::default(),
            products: Basis::default(),
            covariances: None,
            small: None,
            residual: system.right_hand_side().clone(),
            dtype,
        };
        if let Some(start) = start {
            let i = start.factor.order();
            let small = |values: &[f64], columns| scope.matrix_in(values, i, columns, dtype);
            let coefficients = small(start.coefficients, 1);
            run.old = start.actions.clone();
            run.residual = run.residual - system.product(&run.old.times(&coefficients)?)?;
            run.small = Some(Small { factor: small(&start.factor.clone().lower(), i), coefficients });
        }
        Ok(run)
    }

    /// The solution of a system in the span of actions S with known products KS, which keeps the products of new ones.
    pub fn recycled(system: &'a dyn LinearSystem, actions: Basis, covariances: Basis) -> Result<Self> {
        let mut run = Self::new(system, None)?;
        if !actions.is_empty() {
            let s = actions.clone().into_dense()?;
            let products = covariances.clone().into_dense()? + system.noise_times(&s)?;
            let gram = s.clone().transpose().matmul(products.clone()).cast(run.dtype);
            let factor = cholesky((gram.clone() + gram.transpose()) * 0.5, "SᵀK̂S of earlier actions")?;
            let projected = s.transpose().matmul(system.right_hand_side().clone()).cast(run.dtype);
            let coefficients = cholesky_solve(factor.clone(), projected)?;
            run.residual = run.residual - products.clone().matmul(coefficients.clone().cast(products.dtype()));
            run.products = Basis::dense(products);
            run.small = Some(Small { factor, coefficients });
        }
        Ok(Self { actions, covariances: Some(covariances), ..run })
    }

    /// The most actions that the options and the order of the system leave.
    fn budget(&self, options: &IterGpOptions) -> usize {
        options.actions.min(self.system.order().saturating_sub(self.old.len()))
    }

    /// Takes actions until one of the conditions ends the solve.
    pub fn solve(
        mut self,
        policy: &dyn Policy,
        options: &IterGpOptions,
        observer: Option<&mut dyn SolveObserver>,
    ) -> Result<Solve> {
        let mut actor = policy.start(self.system, self.budget(options))?;
        let stop = self.take(&mut *actor, policy.orthogonal(), options, observer)?;
        Ok(self.finish(stop)?.0)
    }

    /// The same by an actor that has started.
    pub fn take(
        &mut self,
        actor: &mut dyn Actor,
        orthogonal: bool,
        options: &IterGpOptions,
        mut observer: Option<&mut dyn SolveObserver>,
    ) -> Result<Stop> {
        let scale = norm(self.system.right_hand_side())?;
        let target = options.absolute.max(options.relative * scale);
        let budget = self.budget(options);
        loop {
            if self.small.is_some() && norm(&self.residual)? < target {
                return Ok(Stop::Converged);
            }
            let left = budget - self.actions.len();
            if left == 0 {
                return Ok(Stop::Budget);
            }
            let most = if orthogonal { 1 } else { options.block.clamp(1, left) };
            let Some(block) = actor.next(self, most)? else { return Ok(Stop::Exhausted) };
            let width = block.dims()[1];
            let block = match self.prepared(block, orthogonal)? {
                // A zero right-hand side leaves no residual to choose an action from: the average of all rows is as
                // good as any action.
                None if self.small.is_none() && scale == 0.0 => self.prepared(self.residual.ones_like(), orthogonal)?,
                prepared => prepared,
            };
            let Some(block) = block else { return Ok(Stop::Dependent) };
            let (kept, explained) = self.absorb(block, observer.is_some())?;
            if let Some(observer) = &mut observer {
                let (actions, residual) = (self.actions.len(), norm(&self.residual)?);
                let step = Step { actions, residual, scale, explained };
                if let ControlFlow::Break(()) = observer.step(&step) {
                    return Ok(Stop::Interrupted);
                }
            }
            if kept < width {
                return Ok(Stop::Dependent);
            }
        }
    }

    /// The solution, and KS if it was kept.
    pub fn finish(self, stop: Stop) -> Result<(Solve, Option<Basis>)> {
        let Some(Small { factor, coefficients }) = self.small else {
            return Err(Error::Usage(format!(
                "the solve of order {} took no action ({stop}): a computation-aware posterior needs at least one",
                self.system.order()
            )));
        };
        let scale = norm(self.system.right_hand_side())?;
        let residual = match (self.old.len(), self.actions.is_empty()) {
            (0, false) => {
                let v = coefficients.clone().detach();
                norm(&(self.system.right_hand_side().clone() - self.products.times(&v)?))?
            }
            _ => norm(&self.residual)?,
        };
        let report = SolveReport { stop, actions: self.actions.len(), residual, scale };
        let Self { old: earlier, actions, products, covariances, .. } = self;
        Ok((Solve { earlier, actions, products, factor, coefficients, report }, covariances))
    }

    /// Scales what the system takes of columns to unit length, up to the first that is zero. If the policy asks for it,
    /// makes them orthogonal to the earlier actions. Neither changes a span. None when only rounding errors are left.
    fn prepared(&self, block: Tensor<2>, orthogonal: bool) -> Result<Option<Tensor<2>>> {
        let Some(mut block) = unit(self.system.within(block)?, self.dtype)? else { return Ok(None) };
        if orthogonal && self.small.is_some() {
            let all = self.all();
            let rounding = epsilon(self.system.scope()) * (self.system.order() as f64).sqrt();
            for _ in 0..2 {
                // Learned actions never share a row, so earlier ones are orthonormal, too.
                block = block.clone() - all.times(&all.transposed_times(&block)?)?;
                if norm(&block)? <= 10.0 * rounding {
                    return Ok(None);
                }
                let Some(next) = unit(block, self.dtype)? else { return Ok(None) };
                block = next;
            }
        }
        Ok(Some(block))
    }

    /// Adds the leading independent columns of a block to the solve. Returns how many, and if it is observed, the
    /// variance that they explain.
    fn absorb(&mut self, block: Tensor<2>, observed: bool) -> Result<(usize, f64)> {
        let (t, dtype) = (block.dims()[1], self.dtype);
        let known = self.covariances.is_some().then(|| self.system.covariance_times(&block)).transpose()?;
        let z = match &known {
            Some(known) => known.clone() + self.system.noise_times(&block)?,
            None => self.system.product(&block)?,
        };
        let gram = block.clone().transpose().matmul(z.clone()).cast(dtype);
        let gram = (gram.clone() + gram.transpose()) * 0.5;
        let crossed = match &self.small {
            None => None,
            Some(small) => Some(solve_lower(small.factor.clone(), self.all().transposed_times(&z)?.cast(dtype))?),
        };
        let schur = match &crossed {
            None => gram.clone(),
            Some(w) => gram.clone() - w.clone().transpose().matmul(w.clone()),
        };
        let kept = independent(&to_f64(schur.clone())?, &to_f64(gram)?, epsilon(self.system.scope()))?;
        if kept == 0 {
            return Ok((0, 0.0));
        }
        let first = |matrix: Tensor<2>| if kept == t { matrix } else { matrix.narrow(1, 0, kept) };
        let (block, z) = (first(block), first(z));
        if let (Some(all), Some(known)) = (&mut self.covariances, known) {
            all.push(first(known));
        }
        let corner = first(schur).narrow(0, 0, kept);
        let corner = if kept == 1 { corner.sqrt() } else { cholesky(corner, "the Schur complement of SᵀK̂S")? };
        let alpha = block.clone().transpose().matmul(self.residual.clone()).cast(dtype);
        let gain = cholesky_solve(corner.clone(), alpha)?;
        let crossed = match (&self.small, crossed) {
            (Some(small), Some(w)) => {
                let w = first(w);
                let u = solve_lower_transposed(small.factor.clone(), w.clone())?;
                Some((w, u))
            }
            _ => None,
        };

        // v gains d·gain and r loses K̂d·gain, where d = s − S u.
        let mut change = z.clone().matmul(gain.clone().cast(z.dtype()));
        if let Some((_, u)) = &crossed {
            change = change - self.covered(&u.clone().matmul(gain.clone()))?;
        }
        self.residual = self.residual.clone() - change;
        let explained =
            if observed { self.explained(&block, &z, &corner, crossed.as_ref().map(|c| &c.1))? } else { 0.0 };

        self.small = Some(match (self.small.take(), crossed) {
            (Some(Small { factor, coefficients }), Some((w, u))) => {
                let i = factor.dims()[0];
                let right = Tensor::zeros([i, kept], (&factor.device(), dtype));
                let above = Tensor::cat(vec![factor, right], 1);
                let below = Tensor::cat(vec![w.transpose(), corner], 1);
                let coefficients = Tensor::cat(vec![coefficients - u.matmul(gain.clone()), gain], 0);
                Small { factor: Tensor::cat(vec![above, below], 0), coefficients }
            }
            _ => Small { factor: corner, coefficients: gain },
        });
        self.actions.push(block);
        self.products.push(z);
        Ok((kept, explained))
    }

    /// Old and new actions.
    fn all(&self) -> Basis {
        self.old.beside(&self.actions)
    }

    /// K̂S u for all actions so far.
    fn covered(&self, u: &Tensor<2>) -> Result<Tensor<2>> {
        let (old, i) = (self.old.len(), u.dims()[0]);
        if old == 0 {
            return self.products.times(u);
        }
        let earlier = self.system.product(&self.old.times(&u.clone().narrow(0, 0, old))?)?;
        if i == old { Ok(earlier) } else { Ok(earlier + self.products.times(&u.clone().narrow(0, old, i - old))?) }
    }

    /// tr(K ΔC K) = ‖K D L⁻ᵀ‖²: how much these actions reduce the summed prior variance at the data.
    fn explained(&self, block: &Tensor<2>, z: &Tensor<2>, corner: &Tensor<2>, u: Option<&Tensor<2>>) -> Result<f64> {
        let (mut d, mut kd) = (block.clone(), z.clone());
        if let Some(u) = u {
            d = d - self.all().times(u)?;
            kd = kd - self.covered(u)?;
        }
        let kd = (kd - self.system.noise_times(&d)?).detach().cast(self.dtype);
        let rooted = solve_lower(corner.clone().detach(), kd.transpose())?;
        Ok(to_f64(rooted.powi_scalar(2).sum())?.iter().sum())
    }
}

impl SolveState for Run<'_> {
    fn system(&self) -> &dyn LinearSystem {
        self.system
    }

    fn residual(&self) -> Result<Tensor<2>> {
        self.system.visible(self.residual.clone())
    }

    fn taken(&self) -> usize {
        self.actions.len()
    }

    fn actions(&self, first: usize, count: usize) -> Result<Tensor<2>> {
        self.actions.columns(first, count)
    }

    fn products(&self, first: usize, count: usize) -> Result<Tensor<2>> {
        self.products.columns(first, count)
    }
}

fn norm(column: &Tensor<2>) -> Result<f64> {
    let value = to_f64(column.clone().detach().powi_scalar(2).sum())?.iter().sum::<f64>().sqrt();
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Error::NotFinite("a residual or action of an iterative solve".into()))
    }
}

/// Columns over their norms, up to the first that is zero; none if the first is zero. Computes in `wide`, so that small
/// columns do not vanish.
fn unit(block: Tensor<2>, wide: DType) -> Result<Option<Tensor<2>>> {
    let norms = block.clone().cast(wide).powi_scalar(2).sum_dim(0).sqrt();
    let values = to_f64(norms.clone())?;
    if values.iter().any(|v| !v.is_finite()) {
        return Err(Error::NotFinite("an action of an iterative solve".into()));
    }
    let dtype = block.dtype();
    let unit = |block: Tensor<2>, norms: Tensor<2>| (block.cast(wide) / norms).cast(dtype);
    Ok(match values.iter().position(|v| *v == 0.0) {
        None => Some(unit(block, norms)),
        Some(0) => None,
        Some(first) => Some(unit(block.narrow(1, 0, first), norms.narrow(1, 0, first))),
    })
}

/// The relative rounding error of products.
pub fn epsilon(scope: &Scope) -> f64 {
    if scope.dtype() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// The number of leading columns whose Schur complement η is above rounding, relative to sᵀK̂s.
pub fn independent(schur: &[f64], gram: &[f64], epsilon: f64) -> Result<usize> {
    let t = schur.len().isqrt();
    if schur.iter().any(|v| !v.is_finite()) {
        return Err(Error::NotFinite("a product of an iterative solve with the covariance matrix".into()));
    }
    let mut lower = vec![0.0; t * t];
    for i in 0..t {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| lower[i * t + k] * lower[j * t + k]).sum();
            let rest = schur[i * t + j] - sum;
            if i > j {
                lower[i * t + j] = rest / lower[j * t + j];
            } else if rest > 16.0 * epsilon * gram[i * t + i] {
                lower[i * t + i] = rest.sqrt();
            } else {
                return Ok(i);
            }
        }
    }
    Ok(t)
}
