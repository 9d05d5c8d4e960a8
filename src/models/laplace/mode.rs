//! Finds the mode of the posterior by a safeguarded Newton's method.

use super::system::{Gram, System};
use super::tangent::{Solved, Tangent};
use crate::error::{Error, Result};
use crate::likelihoods::{Density, Row, Support};

/// Most steps of Newton's method.
const STEPS: usize = 200;

/// Most halvings of a step.
const HALVINGS: usize = 60;

/// If the [change](changed) is at most this, the search ends after the step. The error of the result is its square.
const CLOSE: f64 = 1e-7;

/// Below this change, steps with the Hessian are tried if it differs from the curvature.
const NEAR: f64 = 0.1;

/// After so many steps they are tried at any change, and shortened: where the curvature is far from the Hessian, as
/// that of a noise without errors, the way is long.
const SLOW: usize = 20;
const SHORTER: usize = 4;

/// Most doublings of a step of a long search, if its [change](changed) is below this.
const DOUBLINGS: usize = 20;
const SHORT: f64 = 0.03;

/// The longest step along a direction in which the log posterior bends upwards, as a [change](changed).
const LONG: f64 = 0.5;

/// The relative error of these steps' solutions. With it, a step makes an error of 1e-7 one of 1e-14.
const FINE: f64 = 1e-8;

/// The loss of the log posterior that counts as a rounding error, relative to its size.
const ROUNDING: f64 = 1e-13;

/// The problem of finding a posterior mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task<'a> {
    pub density: &'a dyn Density,
    pub rows: &'a [Row],
    pub gram: Gram<'a>,
    /// Prior means `[P, n]`, for all latent functions or for each.
    pub means: &'a [f64],
}

impl<'a> Task<'a> {
    pub fn n(&self) -> usize {
        self.rows.len()
    }

    /// The prior mean of a latent function.
    pub fn mean(&self, latent: usize) -> &'a [f64] {
        let place = latent.min(self.means.len() / self.n() - 1);
        &self.means[place * self.n()..][..self.n()]
    }

    /// The rows with their latent values.
    pub fn at<'b>(&'b self, f: &'b [f64]) -> impl Iterator<Item = (Row, Vec<f64>)> + 'b {
        let values = |i: usize| f.iter().skip(i).step_by(self.n()).copied().collect();
        self.rows.iter().enumerate().map(move |(i, row)| (*row, values(i)))
    }
}

/// The mode `f = m + K a` of the posterior, with the values there.
#[derive(Debug, Clone)]
pub(super) struct Mode {
    /// `[L, n]`.
    pub f: Vec<f64>,
    /// `a` `[L, n]`, the gradient of the log density.
    pub weights: Vec<f64>,
    /// `ln p(y | f)`.
    pub log_density: f64,
    /// `(K + W⁻¹)⁻¹`.
    pub system: System,
}

/// Derivatives of the log density in all latent values.
pub(super) struct Slopes {
    gradient: Vec<f64>,
    /// The negative Hessian of each row `[n, L, L]`, where the curvature differs from it.
    pub hessians: Vec<f64>,
    /// The curvature with which a step climbs.
    d: Vec<f64>,
}

impl Task<'_> {
    fn log_density(&self, f: &[f64]) -> f64 {
        self.at(f).map(|(row, f)| self.density.log_density(row, &f)).sum()
    }

    /// `ln p(y | f) − ½ aᵀ(f − m)`.
    fn log_posterior(&self, f: &[f64], weights: &[f64]) -> f64 {
        self.log_density(f) - 0.5 * weights.iter().zip(self.above(f)).map(|(a, h)| a * h).sum::<f64>()
    }

    /// `f − m`.
    pub fn above(&self, f: &[f64]) -> Vec<f64> {
        let above = |(l, f): (usize, &[f64])| f.iter().zip(self.mean(l)).map(|(f, m)| f - m).collect::<Vec<_>>();
        f.chunks_exact(self.n()).enumerate().flat_map(above).collect()
    }

    pub fn slopes(&self, f: &[f64]) -> Slopes {
        let (n, latents) = (self.n(), self.density.latents());
        let (mut row_gradient, mut hessian) = (vec![0.0; latents], vec![0.0; latents * latents]);
        let (mut gradient, mut hessians) = (vec![0.0; f.len()], Vec::new());
        for (i, (row, f)) in self.at(f).enumerate() {
            self.density.derivatives(row, &f, &mut row_gradient, &mut hessian);
            row_gradient.iter().enumerate().for_each(|(latent, slope)| gradient[latent * n + i] = *slope);
            if !self.density.is_log_concave() {
                hessians.extend(hessian.iter().map(|h| -h));
            }
        }
        let d = self.curvatures(f, |row, f, d| self.density.climbing_curvature(row, f, d));
        Slopes { gradient, hessians, d }
    }

    /// The numbers `d` `[L, n]` of a curvature `of` a row.
    fn curvatures(&self, f: &[f64], of: impl Fn(Row, &[f64], &mut [f64])) -> Vec<f64> {
        let (mut all, mut d) = (vec![0.0; f.len()], vec![0.0; self.density.latents()]);
        for (i, (row, f)) in self.at(f).enumerate() {
            of(row, &f, &mut d);
            d.iter().enumerate().for_each(|(latent, d)| all[latent * self.n() + i] = *d);
        }
        all
    }

    /// Newton's step from `f`, with the slopes there: its system, and the weights to which it leads, `(I + W K)⁻¹(W h +
    /// g)` for `h = f − m`.
    fn newton(&self, f: &[f64], Slopes { gradient, d, .. }: &Slopes) -> Result<(System, Vec<f64>)> {
        let system = System::new(self.gram, d, self.density.is_centred())?;
        let mut curved: Vec<f64> = d.iter().zip(self.above(f)).map(|(d, h)| d * h).collect();
        if self.density.is_centred() {
            let n = self.n();
            let along: Vec<f64> = (0..n).map(|i| curved.iter().skip(i).step_by(n).sum()).collect();
            curved.iter_mut().zip(d.iter().zip(along.iter().cycle())).for_each(|(c, (d, along))| *c -= d * along);
        }
        curved.iter_mut().zip(gradient).for_each(|(c, g)| *c += g);
        let weights = self.solve(&system, &curved)?;
        Ok((system, weights))
    }

    /// `(I + W K)⁻¹ b = b − C K b`.
    pub fn solve(&self, system: &System, b: &[f64]) -> Result<Vec<f64>> {
        let taken = system.apply(&self.gram.apply(b))?;
        Ok(b.iter().zip(taken).map(|(b, t)| b - t).collect())
    }

    /// The values at `f = m + K a`.
    pub fn at_mode(&self, f: Vec<f64>, weights: Vec<f64>) -> Result<Mode> {
        let curvature = self.curvatures(&f, |row, f, d| self.density.curvature(row, f, d));
        let system = System::new(self.gram, &curvature, self.density.is_centred())?;
        Ok(Mode { log_density: self.log_density(&f), f, weights, system })
    }

    /// The prior mean or, if it is higher, the point [near the peaks](Self::near_peaks) of counts and sizes. Only if
    /// there is one mode, because another start might lead to another one.
    fn start(&self) -> Place {
        let f: Vec<f64> = (0..self.density.latents()).flat_map(|latent| self.mean(latent).to_vec()).collect();
        let weights = vec![0.0; f.len()];
        let start = self.place(f, weights);
        let peaked = matches!(self.density.support(1.0), Support::Counts(_) | Support::Positive);
        match peaked && self.density.latents() == 1 && self.density.is_log_concave() {
            true => self.near_peaks().ok().filter(|near| near.value > start.value).unwrap_or(start),
            false => start,
        }
    }

    /// Where Newton's step leads from the values at which each target is most likely. That is close to the mode for
    /// large counts of different sizes, which steps of one length from the prior mean reach slowly.
    fn near_peaks(&self) -> Result<Place> {
        let peaks: Vec<f64> = self.rows.iter().map(|row| self.density.peak(*row)).collect();
        let (_, weights) = self.newton(&peaks, &self.slopes(&peaks))?;
        Ok(self.place(plus(self.mean(0), &self.gram.apply(&weights), 1.0), weights))
    }

    /// Climbs from the [start](Self::start). A step is halved until the log posterior does not decrease, because
    /// Newton's step may overshoot by orders of magnitude. Short steps with a curvature always increase it.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when the search finds no finite mode, [`Error::NotConverged`] when it takes too long.
    pub fn mode(&self) -> Result<Mode> {
        let (mut at, mut change, mut steps) = (self.start(), f64::INFINITY, 0);
        // That of the last step with the curvature.
        let mut last: Option<System> = None;
        while steps < STEPS {
            let slopes = self.slopes(&at.f);
            let least = at.value - ROUNDING * at.value.abs().max(1.0);
            let slow = steps >= SLOW;
            let mut next = None;
            if let Some(system) = &last
                && !self.density.is_log_concave()
                && (change < NEAR || slow)
            {
                let climb = plus(&slopes.gradient, &at.weights, -1.0);
                let Solved { x, bend, whole } = Tangent::new(self, &slopes.hessians).solve(system, &climb, FINE)?;
                next = match bend {
                    Some(bend) => self.far(&at, &self.along(x), &self.along(bend), least),
                    None => self.shortened(&at, &self.along(x), least, if slow { SHORTER } else { 0 }),
                };
                // The search does not end by a step over some directions.
                next = next.filter(|next| whole || changed(&at.f, &next.f) > CLOSE);
            }
            if next.is_none() {
                let (system, weights) = self.newton(&at.f, &slopes)?;
                last = Some(system);
                next = self.shortened(&at, &self.along(plus(&weights, &at.weights, -1.0)), least, HALVINGS);
            }
            let Some(mut next) = next else { break };
            if slow && changed(&at.f, &next.f) < SHORT {
                next = self.lengthened(&at, next);
            }
            change = changed(&at.f, &next.f);
            (at, steps) = (next, steps + 1);
            if change <= CLOSE {
                return self.at_mode(at.f, at.weights);
            }
        }
        let what = format!("the mode of {} latent values for {} rows", at.f.len(), self.n());
        if !at.value.is_finite() || !change.is_finite() {
            return Err(Error::NotFinite(what));
        }
        let reason = "use the model svgp, which needs no mode, or more noise if the data look noiseless".into();
        Err(Error::NotConverged { what, residual: change, tolerance: CLOSE, iterations: steps, reason })
    }

    fn place(&self, f: Vec<f64>, weights: Vec<f64>) -> Place {
        Place { value: self.log_posterior(&f, &weights), f, weights }
    }

    /// How far f moves when its weights move so far.
    fn along(&self, turn: Vec<f64>) -> Move {
        Move { climb: self.gram.apply(&turn), turn }
    }

    /// Where a step of some length leads.
    fn after(&self, at: &Place, step: &Move, length: f64) -> Place {
        self.place(plus(&at.f, &step.climb, length), plus(&at.weights, &step.turn, length))
    }

    /// A step, halved until the log posterior is at least `least`.
    fn shortened(&self, at: &Place, step: &Move, least: f64, halvings: usize) -> Option<Place> {
        let after = |halving: usize| self.after(at, step, 0.5f64.powi(halving as i32));
        // If the start is NaN, any finite value is better.
        (0..=halvings).map(after).find(|next| next.value >= least || (least.is_nan() && next.value.is_finite()))
    }

    /// A step, doubled as long as the log posterior rises. Where a density falls exponentially, as that of a noise far
    /// too small, Newton's steps are far too short.
    fn lengthened(&self, at: &Place, mut next: Place) -> Place {
        let step = Move { climb: plus(&next.f, &at.f, -1.0), turn: plus(&next.weights, &at.weights, -1.0) };
        for doublings in 1..=DOUBLINGS {
            let further = self.after(at, &step, 2f64.powi(doublings as i32));
            if further.value.is_nan() || further.value <= next.value {
                break;
            }
            next = further;
        }
        next
    }

    /// The best step along a direction in which the log posterior bends upwards, as near a saddle, beside another step.
    fn far(&self, at: &Place, step: &Move, bend: &Move, least: f64) -> Option<Place> {
        let longest = LONG / changed(&at.f, &plus(&at.f, &bend.climb, 1.0));
        let mut best: Option<Place> = None;
        for halving in 0..HALVINGS {
            let length = longest * 0.5f64.powi(halving as i32);
            let next = self.shortened(at, &step.plus(bend, length), least, 0);
            match (&best, next) {
                (Some(best), Some(next)) if next.value <= best.value => break,
                (Some(_), None) => break,
                (_, next) => best = next,
            }
        }
        best
    }
}

/// The largest change of a latent value, relative to the largest value or 1.
fn changed(f: &[f64], to: &[f64]) -> f64 {
    let size = f.iter().fold(1.0, |size: f64, f| size.max(f.abs()));
    to.iter().zip(f).map(|(to, f)| (to - f).abs()).fold(0.0, f64::max) / size
}

/// `x + length · by`.
fn plus(x: &[f64], by: &[f64], length: f64) -> Vec<f64> {
    x.iter().zip(by).map(|(x, by)| x + length * by).collect()
}

/// A step of the latent values and of their weights.
struct Move {
    climb: Vec<f64>,
    turn: Vec<f64>,
}

impl Move {
    fn plus(&self, other: &Self, length: f64) -> Self {
        Self { climb: plus(&self.climb, &other.climb, length), turn: plus(&self.turn, &other.turn, length) }
    }
}

/// A point of the search.
struct Place {
    f: Vec<f64>,
    weights: Vec<f64>,
    /// The log posterior there.
    value: f64,
}
