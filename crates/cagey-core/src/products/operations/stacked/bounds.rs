//! The bounds of many small variational models as one graph.

use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::apart::{Adjoint, Apart, Jitters, Place, along};
use super::{Found, Shared, lengths, level, ranges, rows_of, stacked, structure};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::kernels::stacked::variances;
use crate::linalg::host::{HostOp, apply2, apply5, try_map};
use crate::linalg::real::{into_vec, vector, widened};
use crate::means::Mean;
use crate::params::{Parameter, Parameters};
use crate::products::engine::sums::lock;
use crate::products::operations::whitened::Whitened;
use crate::scope::{Scope, to_f64};

/// A variational Gaussian process with one latent function and whitened inducing values v ~ N(μ, R Rᵀ), and its rows.
#[derive(Debug, Clone)]
pub struct Sparse<'a> {
    /// The prior covariance.
    pub kernel: &'a Kernel,
    /// The prior mean.
    pub mean: &'a Mean,
    /// Z, row-major `[m, d]`.
    pub inducing: &'a Parameter,
    /// μ `[m]`.
    pub centre: &'a Parameter,
    /// The rows of R up to the diagonal `[m(m + 1)/2]`, or only the diagonal `[m]`.
    pub root: &'a Parameter,
    /// Inputs, row-major.
    pub x: &'a [f64],
}

impl Sparse<'_> {
    fn check(&self, d: usize) -> Result<()> {
        let (inducing, m, root) = (self.inducing.len(), self.centre.len(), self.root.len());
        if d == 0 || inducing != m * d || !self.x.len().is_multiple_of(d) || ![m, m * (m + 1) / 2].contains(&root) {
            let got = format!("{} of inputs, {inducing} of Z, {m} of μ, {root} of R", self.x.len());
            return Err(Error::shape("numbers of a variational model", format!("rows of {d} columns"), got));
        }
        Ok(())
    }

    fn parameters(&self) -> Vec<&Parameter> {
        self.kernel.parameters().into_iter().chain(self.mean.parameters()).map(|(_, p)| p).collect()
    }
}

/// The expected log density of a member's rows, and its slopes in their means and variances.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// The sum over rows.
    pub value: f64,
    /// `[rows]`.
    pub in_means: Vec<f64>,
    /// `[rows]`.
    pub in_variances: Vec<f64>,
}

/// The negative bounds KL(q ‖ p) − E_q[ln p(y | f)] of members whose kernels have one [layout](Kernel::layout) that
/// [stacks](Kernel::stacks), with one kind of mean and `d` input columns. `expected` has the second term of a member at
/// the means and variances of f at its rows; variances are at least `floor` times those of the prior.
///
/// The slopes of what is [`Found`] are those in the parameters of kernel and mean, in Z, μ and R.
///
/// # Errors
/// [`Error::Shape`] for members of different structures; [`Error::Device`] when the device cannot be read.
pub fn bounds(
    compute: Compute,
    members: &[Sparse],
    d: usize,
    floor: f64,
    expected: impl Fn(usize, &[f64], &[f64]) -> Result<Expected> + Send + Sync + 'static,
) -> Result<Vec<Found>> {
    let Some(first) = members.first() else { return Ok(Vec::new()) };
    members.iter().try_for_each(|member| member.check(d))?;
    let scope = Scope::training(compute)?;
    let (wide, single) = (scope.wide(), scope.dtype() != scope.wide());
    let shared = Shared::new(&scope, members.iter().map(Sparse::parameters).collect())?;
    let mut values = shared.values(wide);
    let own = |which: fn(&Sparse) -> Vec<f64>, columns: usize| {
        let each: Vec<Vec<f64>> = members.iter().map(which).collect();
        let places = ranges(&lengths(each.iter().map(Vec::as_slice)));
        let all = each.concat();
        (scope.matrix_in(&all, all.len() / columns, columns, wide).require_grad(), places)
    };
    let (z, places) = own(|member| member.inducing.internal(), d);
    let (centre, centres) = own(|member| member.centre.internal(), 1);
    let (root, roots) = own(|member| member.root.internal(), 1);
    let counts: Vec<usize> = members.iter().map(|member| member.x.len() / d).collect();
    let orders: Vec<usize> = centres.iter().map(Range::len).collect();
    let x: Vec<f64> = members.iter().flat_map(|member| member.x).copied().collect();
    let x = rows_of(&scope, &x, &counts, d, wide);
    let inducing = stacked(&scope, z.clone(), &orders);
    let structure = structure(&scope, first.kernel, members.len(), &mut values, [&inducing, &x])?;
    let (n, k, rows, jitters) = (counts.iter().sum(), members.len(), ranges(&counts), Jitters::default());
    let ([in_z, in_x], coefficients) = (structure.features, structure.coefficients);
    let [p, c] = [&in_z, &coefficients].map(|x| x.dims()[1]);
    // All shifts, all changes, then the divergence of each member.
    let place = |(k, rows): (usize, &Range<usize>)| {
        let times = |range: &Range<usize>, width: usize| range.start * width..range.end * width;
        let [inducing, root] = [&centres[k], &roots[k]];
        let inputs = [times(inducing, p), k * c..(k + 1) * c, times(rows, p), inducing.clone(), root.clone()];
        let of_divergence = 2 * n + k;
        Place { inputs, output: vec![rows.clone(), n + rows.start..n + rows.end, of_divergence..of_divergence + 1] }
    };
    let of_members = rows.iter().enumerate().map(place).collect();
    let one = move |_, _, own: [&[f64]; 5]| {
        let [z, coefficients, x, centre, root] = own.map(<[f64]>::len);
        let shapes: [&[usize]; 5] = [&[z / p, p], &[coefficients], &[x / p, p], &[centre], &[root]];
        let inputs = std::array::from_fn(|at| TensorData::new(own[at].to_vec(), shapes[at]));
        let whitened = Arc::new(Whitened { program: structure.program.clone(), single });
        let (value, vjp) = HostOp::forward(whitened, inputs)?;
        let adjoint: Adjoint<5> = Box::new(|grad, needs| {
            try_map(vjp(vector(grad.to_vec()), needs)?, |slopes| slopes.map(into_vec).transpose())
        });
        Ok((widened(value)?, adjoint))
    };
    let op = Apart { places: of_members, jitters: jitters.clone(), one };
    let (flat_centre, flat_root) = (centre.clone().squeeze_dim::<1>(1), root.clone().squeeze_dim::<1>(1));
    let packed: Tensor<1> = apply5(op, in_z, coefficients, in_x, flat_centre, flat_root)?;
    let part = |start, count| packed.clone().narrow(0, start, count);
    let prior = variances(&structure.last)?.squeeze_dim::<1>(1);
    let mut mean = part(0, n);
    if let Some(level) = level(first.mean, &mut values, &x)? {
        mean = mean + level.squeeze_dim(1);
    }
    let variance = (prior.clone() + part(n, n)).max_pair(prior.detach() * floor);
    let place =
        |(k, rows): (usize, Range<usize>)| Place { inputs: [rows.clone(), rows], output: once(k..k + 1).collect() };
    let one = move |k, _, [mean, variance]: [&[f64]; 2]| {
        // A density is not asked at marginals of a member without a factor.
        if !mean.iter().chain(variance).all(|x| x.is_finite()) {
            return Err(Error::NotFinite("the marginals".into()));
        }
        let Expected { value, in_means, in_variances } = expected(k, mean, variance)?;
        Ok((vec![value], along([in_means, in_variances])))
    };
    let op = Apart { places: rows.into_iter().enumerate().map(place).collect(), jitters: Jitters::default(), one };
    let expected: Tensor<1> = apply2(op, mean, variance)?;
    let losses = part(2 * n, k) - expected;
    let found = to_f64(losses.clone().inner())?;
    let mut gradients = losses.sum().backward();
    let slopes = shared.slopes(&mut gradients)?;
    let mut of_leaf = |leaf: &Tensor<2>| leaf.grad_remove(&mut gradients).map(to_f64).transpose();
    let [in_z, in_centre, in_root] = [of_leaf(&z)?, of_leaf(&centre)?, of_leaf(&root)?];
    let jitters = lock(&jitters).clone();
    let of_member = |(k, loss): (usize, f64)| {
        let cut = |all: &Option<Vec<f64>>, place: &Range<usize>| {
            all.as_ref().map_or(vec![0.0; place.len()], |all| all[place.clone()].to_vec())
        };
        let mut slopes = shared.of_member(&slopes, k);
        slopes.extend([cut(&in_z, &places[k]), cut(&in_centre, &centres[k]), cut(&in_root, &roots[k])]);
        Found { loss, slopes, jitter: jitters.get(k).copied().unwrap_or_default() }
    };
    Ok(found.into_iter().enumerate().map(of_member).collect())
}
