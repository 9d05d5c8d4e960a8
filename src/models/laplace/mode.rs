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

/// After so many steps they are tried at any change, and shortened: where the curvature is far from the Hessian, such as
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

/// Gradient of the log density in all latent values, and curvature with which a step climbs.
struct Slopes {
    gradient: Vec<f64>,
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

    fn slopes(&self, f: &[f64]) -> Slopes {
        let (n, latents) = (self.n(), self.density.latents());
        let (mut gradient, mut hessian) = (vec![0.0; latents], vec![0.0; latents * latents]);
        let mut all = vec![0.0; f.len()];
        for (i, (row, f)) in self.at(f).enumerate() {
            self.density.derivatives(row, &f, &mut gradient, &mut hessian);
            gradient.iter().enumerate().for_each(|(latent, slope)| all[latent * n + i] = *slope);
        }
        Slopes { gradient: all, d: self.curvatures(f, |row, f, d| self.density.climbing_curvature(row, f, d)) }
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

    /// `W h + g`.
    fn pseudo_target(&self, Slopes { gradient, d }: &Slopes, h: &[f64]) -> Vec<f64> {
        let mut curved: Vec<f64> = d.iter().zip(h).map(|(d, h)| d * h).collect();
        if self.density.is_centred() {
            let n = self.n();
            let along: Vec<f64> = (0..n).map(|i| curved.iter().skip(i).step_by(n).sum()).collect();
            curved.iter_mut().zip(d.iter().zip(along.iter().cycle())).for_each(|(c, (d, along))| *c -= d * along);
        }
        curved.iter().zip(gradient).map(|(c, g)| c + g).collect()
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
    fn start(&self) -> Moved {
        let f: Vec<f64> = (0..self.density.latents()).flat_map(|latent| self.mean(latent).to_vec()).collect();
        let weights = vec![0.0; f.len()];
        let start = Moved { value: self.log_posterior(&f, &weights), f, weights };
        let peaked = matches!(self.density.support(1.0), Support::Counts(_) | Support::Positive);
        match peaked && self.density.latents() == 1 && self.density.is_log_concave() {
            true => self.near_peaks().ok().filter(|near| near.value > start.value).unwrap_or(start),
            false => start,
        }
    }

    /// Where Newton's step leads from the values at which each target is most likely. That is close to the mode for
    /// large counts of different sizes, which steps of one length from the prior mean reach slowly.
    fn near_peaks(&self) -> Result<Moved> {
        let mean = self.mean(0);
        let peaks: Vec<f64> = self.rows.iter().map(|row| self.density.peak(*row)).collect();
        let (slopes, above) = (self.slopes(&peaks), self.above(&peaks));
        let system = System::new(self.gram, &slopes.d, self.density.is_centred())?;
        let weights = self.solve(&system, &self.pseudo_target(&slopes, &above))?;
        let f: Vec<f64> = mean.iter().zip(self.gram.apply(&weights)).map(|(m, h)| m + h).collect();
        Ok(Moved { value: self.log_posterior(&f, &weights), f, weights })
    }

    /// Climbs from the [start](Self::start). A step is halved until the log posterior does not decrease, because
    /// Newton's step may overshoot by orders of magnitude. Short steps with a curvature always increase it.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when the search finds no finite mode, [`Error::NotConverged`] when it takes too long.
    pub fn mode(&self) -> Result<Mode> {
        let Moved { mut f, mut weights, mut value } = self.start();
        let mut change = f64::INFINITY;
        // That of the last step with the curvature.
        let mut last: Option<System> = None;
        for step in 0..STEPS {
            let (slopes, above) = (self.slopes(&f), self.above(&f));
            let least = value - ROUNDING * value.abs().max(1.0);
            let (mut next, mut bent) = (None, false);
            let slow = step >= SLOW;
            if let Some(system) = &last
                && !self.density.is_log_concave()
                && (change < NEAR || slow)
            {
                let climb: Vec<f64> = slopes.gradient.iter().zip(&weights).map(|(g, a)| g - a).collect();
                let Solved { x, bend, .. } = Tangent::new(self, &f).solve(system, &climb, FINE)?;
                bent = bend.is_some();
                next = match bend {
                    Some(bend) => self.far(&f, &weights, &self.along(x), &self.along(bend), least),
                    None => self.shortened(&f, &weights, self.along(x), least, if slow { SHORTER } else { 0 }),
                };
            }
            if next.is_none() {
                bent = false;
                let system = System::new(self.gram, &slopes.d, self.density.is_centred())?;
                let target = self.solve(&system, &self.pseudo_target(&slopes, &above))?;
                let turn = target.iter().zip(&weights).map(|(to, a)| to - a).collect();
                last = Some(system);
                next = self.shortened(&f, &weights, self.along(turn), least, HALVINGS);
            }
            let Some(mut moved) = next else { break };
            if slow && changed(&f, &moved.f) < SHORT {
                self.lengthen(&f, &weights, &mut moved);
            }
            change = changed(&f, &moved.f);
            Moved { f, weights, value } = moved;
            if change <= CLOSE && !bent {
                return self.at_mode(f, weights);
            }
        }
        let what = format!("the mode of {} latent values for {} rows", f.len(), self.n());
        if !value.is_finite() || !change.is_finite() {
            return Err(Error::NotFinite(what));
        }
        let reason = "the data may look noiseless at these parameters; try more noise, or the model svgp";
        Err(Error::NotConverged { what, residual: change, tolerance: CLOSE, iterations: STEPS, reason: reason.into() })
    }

    /// How far f moves when its weights move so far.
    fn along(&self, turn: Vec<f64>) -> Move {
        Move { climb: self.gram.apply(&turn), turn }
    }

    /// Doubles a step as long as the log posterior rises. Where a density falls exponentially, as that of a noise far
    /// too small, Newton's steps are far too short.
    fn lengthen(&self, f: &[f64], weights: &[f64], moved: &mut Moved) {
        let on = |from: &[f64], to: &[f64]| from.iter().zip(to).map(|(from, to)| to + (to - from)).collect();
        for _ in 0..DOUBLINGS {
            let (f, weights): (Vec<f64>, Vec<f64>) = (on(f, &moved.f), on(weights, &moved.weights));
            let value = self.log_posterior(&f, &weights);
            if value.is_nan() || value <= moved.value {
                break;
            }
            *moved = Moved { f, weights, value };
        }
    }

    /// The best step along a direction in which the log posterior bends upwards, as near a saddle, beside another step.
    fn far(&self, f: &[f64], weights: &[f64], step: &Move, bend: &Move, least: f64) -> Option<Moved> {
        let sum = |a: &[f64], b: &[f64], share: f64| a.iter().zip(b).map(|(a, b)| a + share * b).collect::<Vec<_>>();
        let longest = LONG / changed(f, &sum(f, &bend.climb, 1.0));
        let mut best: Option<Moved> = None;
        for halving in 0..HALVINGS {
            let length = longest * 0.5f64.powi(halving as i32);
            let way = Move { climb: sum(&step.climb, &bend.climb, length), turn: sum(&step.turn, &bend.turn, length) };
            let moved = self.shortened(f, weights, way, least, 0);
            match (&best, moved) {
                (Some(best), Some(moved)) if moved.value <= best.value => break,
                (Some(_), None) => break,
                (_, moved) => best = moved,
            }
        }
        best
    }

    /// A step, halved until the log posterior is at least `least`.
    fn shortened(
        &self,
        f: &[f64],
        weights: &[f64],
        Move { climb, turn }: Move,
        least: f64,
        halvings: usize,
    ) -> Option<Moved> {
        (0..=halvings).find_map(|halving| {
            let length = 0.5f64.powi(halving as i32);
            let moved = |from: &[f64], by: &[f64]| from.iter().zip(by).map(|(x, by)| x + length * by).collect();
            let (f, weights): (Vec<f64>, Vec<f64>) = (moved(f, &climb), moved(weights, &turn));
            let value = self.log_posterior(&f, &weights);
            // If the start is NaN, any finite value is better.
            (value >= least || (least.is_nan() && value.is_finite())).then_some(Moved { f, weights, value })
        })
    }
}

/// The largest change of a latent value, relative to the largest value or 1.
fn changed(f: &[f64], to: &[f64]) -> f64 {
    let size = f.iter().fold(1.0, |size: f64, f| size.max(f.abs()));
    to.iter().zip(f).map(|(to, f)| (to - f).abs()).fold(0.0, f64::max) / size
}

/// A step of the latent values and of their weights.
struct Move {
    climb: Vec<f64>,
    turn: Vec<f64>,
}

/// The point that a step reached.
struct Moved {
    f: Vec<f64>,
    weights: Vec<f64>,
    /// The log posterior there.
    value: f64,
}
