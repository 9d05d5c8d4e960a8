//! Kernels as state-space models: which processes a kernel consists of, as far as it has such a form.

use cagey_base::state_space::{Block, Factor, MOST, Rate, bessel};

use super::rows::Axes;
use crate::error::{Error, Result};
use crate::kernels::{Kernel, Leaf};
use crate::params::Parameters;

/// The share of a periodic kernel's variance that its harmonics leave out at most.
pub const LEFT_OUT: f64 = 1e-9;

/// Most states of a model.
pub const STATES: usize = 128;

/// A kernel in one dimension as a sum of products of processes. Numbers refer to the kernel's parameters in order.
#[derive(Debug, Clone)]
pub struct Program {
    terms: Vec<Term>,
    /// Products with white noise, which have no states.
    white: Vec<Term>,
    /// Number of the kernel's parameters.
    pub parameters: usize,
    /// The columns of its inputs.
    pub axes: Axes,
}

/// A product of processes.
#[derive(Debug, Clone, Default)]
struct Term {
    /// The summand of the kernel that it belongs to.
    summand: usize,
    /// Parameters that multiply the variance.
    variances: Vec<usize>,
    markov: Vec<Markov>,
    /// Periodic factors: period and lengthscale.
    periodic: Vec<[usize; 2]>,
    /// Linear factors.
    linear: u32,
    white: bool,
}

/// A factor, and the parameters of its rate and its origin.
#[derive(Debug, Clone, Copy)]
struct Markov {
    factor: Factor,
    scale: f64,
    length: usize,
    origin: Option<usize>,
}

/// The blocks of a kernel at given parameter values.
#[derive(Debug, Clone)]
pub struct Blocks {
    /// In the order of their states.
    pub blocks: Vec<Block>,
    /// Number of states.
    pub states: usize,
    /// White noise of each summand that has some: the summand, its variance, and its parameters.
    pub white: Vec<(usize, f64, Vec<usize>)>,
}

impl Program {
    /// Reads a kernel of one input column, or of that within each of several series.
    ///
    /// # Errors
    /// [`Error::Usage`] for kernels without such a form, with the nearest one that has.
    pub fn of(kernel: &Kernel, d: usize) -> Result<Self> {
        let axes = Axes::of(kernel, d)?;
        let (mut terms, mut white, mut next) = (Vec::new(), Vec::new(), 0);
        for (summand, part) in kernel.summands().into_iter().enumerate() {
            for term in products(part, axes, &mut next)? {
                let term = Term { summand, ..term };
                if term.white {
                    if term.linear > 0 || term.markov.iter().any(|markov| markov.origin.is_some()) {
                        return Err(unknown("a product of `white` is known for stationary kernels only".into()));
                    }
                    white.push(term);
                    continue;
                }
                let size: usize = term.markov.iter().map(|markov| markov.factor.size()).product();
                if size << term.periodic.len() > MOST {
                    let problem =
                        format!("a product of kernels has more than {MOST} states; take fewer or rougher factors");
                    return Err(unknown(problem));
                }
                terms.push(term);
            }
        }
        Ok(Self { terms, white, parameters: next, axes })
    }

    /// Whether white noise is a summand.
    pub fn is_noisy(&self) -> bool {
        !self.white.is_empty()
    }

    /// The columns of a kernel of `d` columns, and its blocks at its present parameters.
    ///
    /// # Errors
    /// As [`of`](Self::of) and [`at`](Self::at).
    pub fn blocks(kernel: &Kernel, d: usize) -> Result<(Axes, Blocks)> {
        let program = Self::of(kernel, d)?;
        let values: Vec<f64> = kernel.parameters().iter().flat_map(|(_, p)| p.internal()).collect();
        Ok((program.axes, program.at(&values)?))
    }

    /// The blocks at parameter values in standardised units.
    ///
    /// # Errors
    /// [`Error::Usage`] if a periodic kernel would need more than [`STATES`] states.
    pub fn at(&self, values: &[f64]) -> Result<Blocks> {
        let mut all = Blocks { blocks: Vec::new(), states: 0, white: Vec::new() };
        for Term { summand, variances, .. } in &self.white {
            all.white.push((*summand, variances.iter().map(|at| values[*at]).product(), variances.clone()));
        }
        for term in &self.terms {
            let rates = term.markov.iter().map(|markov| Rate {
                factor: markov.factor,
                rate: markov.scale / values[markov.length],
                length: markov.length,
                value: values[markov.length],
                origin: markov.origin.map_or(f64::NEG_INFINITY, |at| values[at]),
            });
            let variance: f64 = term.variances.iter().map(|at| values[*at]).product();
            let mut block = Block {
                summand: term.summand,
                offset: 0,
                size: 1,
                rates: rates.collect(),
                amplitude: variance.sqrt(),
                power: term.linear as i32,
                slopes: term.variances.iter().map(|at| (*at, 0.5 / values[*at])).collect(),
            };
            block.size = block.rates.iter().map(|rate| rate.factor.size()).product();
            all.waves(&block, &term.periodic, values, 1.0);
        }
        if all.states > STATES {
            return Err(Error::Usage(format!(
                "the state-space model would need {} states, and takes {STATES}: a periodic kernel with a short \
                 lengthscale has many harmonics; bound its lengthscale below, or choose the exact model",
                all.states
            ))
            .about("Settings::kernel"));
        }
        Ok(all)
    }
}

impl Blocks {
    /// The variance of white noise.
    pub fn noise(&self) -> f64 {
        self.white.iter().map(|(_, variance, _)| variance).sum()
    }

    /// Adds the derivatives in the parameters of white noise, given that in its variance.
    pub fn add_noise_slopes(&self, slope: f64, to: &mut [f64], values: &[f64]) {
        for (_, variance, parameters) in &self.white {
            parameters.iter().for_each(|at| to[*at] += slope * variance / values[*at]);
        }
    }

    /// The blocks of one summand of the kernel, or all.
    pub fn of(&self, summand: Option<usize>) -> Self {
        let mut own = self.clone();
        own.blocks.retain(|block| summand.is_none_or(|summand| summand == block.summand));
        own.white.retain(|(of, ..)| summand.is_none_or(|summand| summand == *of));
        own
    }

    /// Adds a block for each combination of harmonics of the periodic factors that are left. `share` is the share of
    /// the variance that the harmonics chosen so far have.
    fn waves(&mut self, block: &Block, periodic: &[[usize; 2]], values: &[f64], share: f64) {
        let Some(([period, lengthscale], rest)) = periodic.split_first() else {
            self.blocks.push(Block { offset: self.states, ..block.clone() });
            self.states += block.size;
            return;
        };
        let (ell, tail) = (values[*lengthscale], LEFT_OUT / share);
        let weights = harmonics(ell, tail);
        for (j, (weight, slope)) in weights.into_iter().enumerate() {
            let mut own = block.clone();
            own.amplitude *= weight.sqrt();
            own.slopes.push((*lengthscale, 0.5 * slope));
            if j > 0 {
                own.rates.insert(
                    0,
                    Rate {
                        factor: Factor::Rotation,
                        rate: std::f64::consts::TAU * j as f64 / values[*period],
                        length: *period,
                        value: values[*period],
                        origin: f64::NEG_INFINITY,
                    },
                );
                own.size *= 2;
            }
            // States beyond the limit are counted, not made.
            if self.states <= STATES {
                self.waves(&own, rest, values, share * weight.max(LEFT_OUT));
            }
        }
    }
}

/// The variances of the harmonics of a periodic kernel with this lengthscale, from 0 on until the rest is below `tail`,
/// and the derivatives of their logarithms in the lengthscale (Solin and Särkkä 2014, *Explicit link between periodic
/// covariance functions and state space models*): e^(−z) I₀(z) and 2 e^(−z) I_j(z) for z = 1/lengthscale².
fn harmonics(ell: f64, tail: f64) -> Vec<(f64, f64)> {
    let z = (1.0 / (ell * ell)).clamp(1e-8, 1e6);
    let all = bessel(z, STATES + 1);
    let (mut rest, mut found) = (1.0, Vec::new());
    for j in 0..STATES {
        let weight = if j == 0 { all[0] } else { 2.0 * all[j] };
        let below = if j == 0 { all[1] } else { all[j - 1] };
        // d log q/dz, and dz/dℓ = −2z/ℓ.
        let slope = (0.5 * (below + all[j + 1]) - all[j]) / all[j].max(f64::MIN_POSITIVE) * (-2.0 * z / ell);
        found.push((weight, slope));
        rest -= weight;
        if rest < tail.max(1e-15) {
            break;
        }
    }
    found
}

pub(super) fn unknown(problem: String) -> Error {
    Error::Usage(format!("the state-space model does not know this kernel: {problem}")).about("Settings::kernel")
}

/// The products that a part of a kernel is the sum of. `next` is the number of its first parameter.
fn products(kernel: &Kernel, axes: Axes, next: &mut usize) -> Result<Vec<Term>> {
    match kernel {
        Kernel::Leaf(_) if axes.series.is_some() && kernel.of_same() == axes.series => Ok(vec![Term::default()]),
        Kernel::Leaf(leaf) if axes.series.is_some() && leaf.dims.as_deref() != Some(&[axes.time]) => {
            Err(unknown(format!("`{}` within the series is not of the time alone", leaf.form.name())))
        }
        Kernel::Leaf(leaf) => {
            let first = *next;
            *next += leaf.parameters.len();
            Ok(vec![term(leaf, first)?])
        }
        Kernel::Sum(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(products(part, axes, next)?);
            }
            Ok(all)
        }
        Kernel::Product(parts) => {
            let mut all = vec![Term::default()];
            for part in parts {
                let factors = products(part, axes, next)?;
                all = all.iter().flat_map(|term| factors.iter().map(|factor| term.times(factor))).collect();
            }
            Ok(all)
        }
        Kernel::Transformed(_) => Err(unknown("it transforms the inputs".into())),
        _ => Err(unknown("it is of a kind of its own".into())),
    }
}

impl Term {
    fn times(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.variances.extend(&other.variances);
        all.markov.extend(&other.markov);
        all.periodic.extend(&other.periodic);
        all.linear += other.linear;
        all.white |= other.white;
        all
    }
}

/// The process of a leaf whose parameters begin at number `first`.
fn term(leaf: &Leaf, first: usize) -> Result<Term> {
    if leaf.parameters.iter().any(|parameter| parameter.len() != 1) {
        return Err(unknown(format!("`{}` has several values of a parameter", leaf.form.name())));
    }
    let markov = |factor, scale: f64| Markov { factor, scale, length: first, origin: None };
    let one =
        |factor, scale| Term { variances: vec![first + 1], markov: vec![markov(factor, scale)], ..Term::default() };
    let tau = std::f64::consts::TAU;
    Ok(match leaf.form.name() {
        "matern12" => one(Factor::Matern(1), 1.0),
        "matern32" => one(Factor::Matern(2), 3f64.sqrt()),
        "matern52" => one(Factor::Matern(3), 5f64.sqrt()),
        "cosine_sum" => one(Factor::Rotation, tau),
        "cosine_norm" => one(Factor::Rotation, 0.5 * tau),
        "wiener" => {
            let order = leaf.form.options().first().map_or(1, |(_, order)| *order);
            let markov = Markov { origin: Some(first + 2), ..markov(Factor::Wiener(order), 1.0) };
            Term { variances: vec![first + 1], markov: vec![markov], ..Term::default() }
        }
        "periodic" | "periodic_norm" => {
            Term { variances: vec![first + 2], periodic: vec![[first, first + 1]], ..Term::default() }
        }
        "linear" => Term { variances: vec![first], linear: 1, ..Term::default() },
        "constant" => Term { variances: vec![first], ..Term::default() },
        "white" => Term { variances: vec![first], white: true, ..Term::default() },
        other => {
            let near = match other {
                "rbf" => "`matern52` is the nearest that it knows",
                "rq" => "`matern32`, or a sum of two with different lengthscales, is the nearest that it knows",
                "polynomial" => "`linear`, or products of it, is the nearest that it knows",
                "same" => "it is for a column that tells series apart, as a factor of all summands",
                "spectral_mixture" => "a sum of `cosine_sum * matern52` is the nearest that it knows",
                _ => "it knows matern12, matern32, matern52, wiener, periodic, cosine_sum, linear, constant, white",
            };
            return Err(unknown(format!("`{other}`; {near}")));
        }
    })
}
