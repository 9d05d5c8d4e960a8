//! Newton's method for given actions. It needs no products with K except the existing ones.

use super::observed::Observed;
use super::sites::Sites;
use super::small::Small;
use super::solve::{HALVINGS, ROUNDING, keeps};
use crate::error::{Error, Result};
use crate::linalg::Factor;
use crate::linalg::real::dot;

/// Most steps.
const STEPS: usize = 50;

/// Full steps settle if each changes f by less than this share of the change before.
const SHORTER: f64 = 0.9;

/// Most full steps: as many as the slowest of these take to become a billion times shorter.
const FULL_STEPS: usize = 200;

/// Actions and what is known about them, on the host.
pub(super) struct Fixed<'a> {
    /// The rows, and the prior means of their latent values.
    pub observed: Observed<'a>,
    /// SᵀKS `[i, i]`.
    pub gram: &'a [f64],
    /// Non-zeros `[L n]` of block-sparse actions, the same blocks for each latent function.
    pub values: &'a [f64],
    /// The boundaries of the blocks.
    pub offsets: &'a [usize],
    /// Whether every latent function has its own columns.
    pub apart: bool,
    /// Newton's method has settled when the largest change of f is below this. The change is relative to the largest
    /// distance of f from the prior mean, or to 1.
    pub settled: f64,
}

impl Fixed<'_> {
    /// Sᵀ x for `x` `[L n]`.
    fn project(&self, x: impl Fn(usize) -> f64) -> Vec<f64> {
        let n = self.observed.rows.len();
        let block = |rows: &[usize], l: usize| (rows[0]..rows[1]).map(|i| x(l * n + i)).sum::<f64>();
        let (latents, blocks) = (self.values.len() / n, self.offsets.windows(2));
        match self.apart {
            true => {
                (0..latents).flat_map(|l| blocks.clone().map(move |rows| (rows, l))).map(|(r, l)| block(r, l)).collect()
            }
            false => blocks.map(|rows| (0..latents).map(|l| block(rows, l)).sum()).collect(),
        }
    }

    /// Number of actions.
    fn actions(&self) -> usize {
        (self.offsets.len() - 1) * if self.apart { self.values.len() / self.observed.rows.len() } else { 1 }
    }

    /// Adds `SᵀW⁻¹S`, which is diagonal, to a matrix `[i, i]`.
    fn add_noise(&self, sites: &Sites, matrix: &mut [f64]) {
        let noise = self.project(|e| self.values[e] * self.values[e] / sites.curvature[e]);
        matrix.iter_mut().step_by(self.actions() + 1).zip(noise).for_each(|(m, noise)| *m += noise);
    }

    /// `SᵀW⁻¹S` `[i, i]`.
    pub fn noise(&self, sites: &Sites) -> Vec<f64> {
        let mut noise = vec![0.0; self.actions() * self.actions()];
        self.add_noise(sites, &mut noise);
        noise
    }

    /// Solves the system at sites.
    pub fn at(&self, sites: &Sites) -> Result<Small> {
        let Sites { f, gradient, curvature, .. } = sites;
        let mut matrix = self.gram.to_vec();
        self.add_noise(sites, &mut matrix);
        let factor = Factor::new(matrix, "Sᵀ(K + W⁻¹)S")?;
        let projected = self.project(|e| self.values[e] * (f[e] - self.observed.mean[e] + gradient[e] / curvature[e]));
        Small::new(factor, projected)
    }

    /// `aᵀSᵀKSb` for weights a and b.
    fn pull(&self, a: &[f64], b: &[f64]) -> f64 {
        self.gram.chunks_exact(self.actions()).zip(a).map(|(row, a_)| a_ * dot(row, b)).sum()
    }

    /// The relative change of f.
    fn change(&self, from: &[f64], to: &[f64]) -> f64 {
        let size = self.observed.above(to).iter().fold(1.0f64, |size, h| size.max(h.abs()));
        from.iter().zip(to).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / size
    }

    /// `S a` `[L n]` for weights a.
    fn spread(&self, a: &[f64]) -> Vec<f64> {
        let (n, blocks) = (self.observed.rows.len(), self.offsets.len() - 1);
        let block: Vec<usize> = self.offsets.windows(2).enumerate().flat_map(|(b, o)| vec![b; o[1] - o[0]]).collect();
        let of = |e: usize| block[e % n] + if self.apart { e / n * blocks } else { 0 };
        self.values.iter().enumerate().map(|(e, s)| s * a[of(e)]).collect()
    }

    /// The sites at the latent mean that they lead to. `place` gives `K S a` `[L n]`. Steps are halved while the log
    /// posterior decreases. Actions that are not its gradients may stop its increase before such a mean. Then full
    /// steps go on as long as they get shorter. If they do not settle, the next one, which gives the posterior's mean,
    /// may lead astray. If it does, pseudo-targets `f + W⁻¹ S a` make f the mean.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when latent values are not, and what factorisations report.
    pub fn sites(&self, place: impl Fn(&[f64]) -> Result<Vec<f64>>) -> Result<Sites> {
        let value = |f: &[f64], a: &[f64]| self.observed.log_density(f) - 0.5 * self.pull(a, a);
        let (mut weights, mut settled) = (vec![0.0; self.actions()], false);
        let mut height = vec![0.0; self.observed.mean.len()];
        let mut sites = self.observed.sites(self.observed.mean.to_vec());
        for _ in 0..STEPS {
            let target = self.at(&sites)?.weights;
            // Products are linear: those of a part of a step need no other products.
            let top = place(&target)?;
            let forces = sites.gradient.iter().zip(top.iter().zip(&height)).map(|(g, (to, from))| g * (to - from));
            if forces.sum::<f64>() <= self.pull(&weights, &target) - self.pull(&weights, &weights) {
                break;
            }
            let least = value(&sites.f, &weights);
            let least = least - ROUNDING * least.abs().max(1.0);
            let found = (0..=HALVINGS).find_map(|halving| {
                let length = 0.5f64.powi(halving as i32);
                let along = |from: &[f64], to: &[f64]| -> Vec<f64> {
                    from.iter().zip(to).map(|(from, to)| from + length * (to - from)).collect()
                };
                let (moved, height) = (along(&weights, &target), along(&height, &top));
                let f = self.observed.latent(&height);
                let value = value(&f, &moved);
                (value >= least || (least.is_nan() && value.is_finite())).then_some((halving, moved, height, f))
            });
            let Some((halving, moved, reached, f)) = found else { break };
            let change = self.change(&sites.f, &f);
            (weights, height) = (moved, reached);
            sites = self.observed.sites(f);
            if change <= self.settled {
                // Halving can make a step as small as this far from where full steps settle.
                settled = halving == 0;
                break;
            }
        }
        if !settled {
            let (start, reached) = (self.observed.log_density(self.observed.mean), value(&sites.f, &weights));
            let (mut now, mut last, mut astray) = (sites.clone(), f64::INFINITY, None);
            for _ in 0..FULL_STEPS {
                let to = self.at(&now)?.weights;
                let f = self.observed.latent(&place(&to)?);
                let (change, kept) = (self.change(&now.f, &f), keeps(start, reached, value(&f, &to)));
                astray = astray.or(Some(!kept));
                if !kept || change.is_nan() || change > SHORTER * last {
                    break;
                }
                (last, now) = (change, self.observed.sites(f));
                settled = change <= self.settled;
                if settled {
                    break;
                }
            }
            match astray {
                _ if settled => sites = now,
                Some(true) => sites.gradient = self.spread(&weights),
                _ => {}
            }
        }
        match sites.f.iter().chain(&sites.gradient).all(|value| value.is_finite()) {
            true => Ok(sites),
            false => Err(Error::NotFinite("the latent values of Newton's method".into())),
        }
    }
}
