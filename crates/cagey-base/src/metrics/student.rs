//! Student-t distributions of standardised residuals: fits, and the closed forms that scores need.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::erf::{erfc, erfc_inv};
use statrs::function::gamma::ln_gamma;

/// `scale · T` with T of `df` degrees of freedom; normal if `df` is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StudentT {
    /// Degrees of freedom; none for the normal distribution.
    pub df: Option<f64>,
    /// The factor of the standard form.
    pub scale: f64,
}

/// Range of degrees of freedom to try: with fewer, a variance says little; with more, the normal distribution is as
/// good.
const LEAST: f64 = 2.1;
const MOST: f64 = 60.0;
/// With more degrees of freedom, a sum is normal.
const NORMAL: f64 = 1000.0;

impl StudentT {
    /// The standard normal distribution.
    pub fn normal() -> Self {
        Self { df: None, scale: 1.0 }
    }

    /// The normal distribution about 0 that fits values `[n]` best; the standard one if they give no information.
    pub fn fit_normal(z: &[f64]) -> Self {
        let scale = (z.iter().map(|z| z * z).sum::<f64>() / z.len().max(1) as f64).sqrt();
        if scale > 0.0 && scale.is_finite() { Self { df: None, scale } } else { Self::normal() }
    }

    /// The maximum-likelihood fit, about 0, to values `[n]`. The normal fit if the additional parameter does not gain
    /// half a logarithm of n (Schwarz 1978).
    pub fn fit(z: &[f64]) -> Self {
        let normal = Self::fit_normal(z);
        if z.len() < 2 {
            return normal;
        }
        let likelihood = |fit: &Self| {
            let of = fit.log_densities();
            z.iter().map(|z| of(*z)).sum::<f64>()
        };
        let of = |log_df: f64| {
            let fit = Self { df: Some(log_df.exp()), scale: scale(z, log_df.exp(), normal.scale) };
            (likelihood(&fit), fit)
        };
        // The profile over ln df has one peak, so a golden-section search finds it.
        let (mut low, mut high) = (LEAST.ln(), MOST.ln());
        let golden = 0.5 * (5f64.sqrt() - 1.0);
        let at = |low: f64, high: f64| [high - golden * (high - low), low + golden * (high - low)];
        let [mut a, mut b] = at(low, high).map(of);
        for _ in 0..20 {
            if a.0 > b.0 {
                high = low + golden * (high - low);
                b = a;
                a = of(at(low, high)[0]);
            } else {
                low = high - golden * (high - low);
                a = b;
                b = of(at(low, high)[1]);
            }
        }
        let best = if a.0 > b.0 { a } else { b };
        if best.0 > likelihood(&normal) + 0.5 * (z.len() as f64).ln() { best.1 } else { normal }
    }

    /// Its standard deviation; infinite for at most two degrees of freedom.
    pub fn sd(&self) -> f64 {
        match self.df {
            Some(df) if df <= 2.0 => f64::INFINITY,
            df => self.scale * df.map_or(1.0, |df| (df / (df - 2.0)).sqrt()),
        }
    }

    /// A distribution of the form of this one with the variance of its sum with a normal number of `variance`. The
    /// excess kurtosis of that sum falls with the square of the share of its first part, so 1/df does too.
    pub fn plus(&self, variance: f64) -> Self {
        let sd = self.sd();
        if !sd.is_finite() {
            return *self;
        }
        let (all, share) = (sd * sd + variance, sd * sd / (sd * sd + variance));
        let df = self.df.map(|df| df / (share * share)).filter(|df| *df < NORMAL);
        Self { df, scale: (all * df.map_or(1.0, |df| (df - 2.0) / df)).sqrt() }
    }

    /// The probability of at most `z`.
    pub fn cdf(&self, z: f64) -> f64 {
        let t = z / self.scale;
        match self.df {
            None => 0.5 * erfc(-t * std::f64::consts::FRAC_1_SQRT_2),
            Some(_) if t.is_infinite() => f64::from(u8::from(t > 0.0)),
            Some(df) => standard(df).map_or(f64::NAN, |t_df| t_df.cdf(t)),
        }
    }

    /// The value that is not exceeded with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        self.scale
            * match self.df {
                None => -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p),
                Some(_) if p <= 0.0 => f64::NEG_INFINITY,
                Some(_) if p >= 1.0 => f64::INFINITY,
                Some(df) => standard(df).map_or(f64::NAN, |t_df| t_df.inverse_cdf(p)),
            }
    }

    /// Half the width of the central interval of this probability.
    pub fn central(&self, level: f64) -> f64 {
        self.quantile(0.5 + 0.5 * level)
    }

    /// The log density.
    pub fn log_density(&self, z: f64) -> f64 {
        self.log_densities()(z)
    }

    /// The log density of many values, without its constants for each.
    pub(super) fn log_densities(&self) -> impl Fn(f64) -> f64 + use<> {
        let Self { df, scale } = *self;
        let level = match df {
            None => -0.5 * (2.0 * PI).ln(),
            Some(df) => ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * PI).ln(),
        };
        let last = scale.ln();
        move |z| {
            let t = z / scale;
            let standard = match df {
                None => level - 0.5 * t * t,
                Some(df) => level - 0.5 * (df + 1.0) * (t * t / df).ln_1p(),
            };
            standard - last
        }
    }

    /// E|X − z|: `t (2F(t) − 1) + 2 f(t) (df + t²) / (df − 1)`, times the scale.
    pub fn distance(&self, z: f64) -> f64 {
        let t = z / self.scale;
        let density = (self.log_density(z) + self.scale.ln()).exp();
        let tails = self.df.map_or(1.0, |df| (df + t * t) / (df - 1.0));
        self.scale * (t * (2.0 * self.cdf(z) - 1.0) + 2.0 * density * tails)
    }

    /// E|X − X′| for two independent draws: `4 √df B(½, df − ½) / ((df − 1) B(½, df/2)²)`, times the scale.
    pub fn spread(&self) -> f64 {
        let standard = match self.df {
            None => 2.0 / PI.sqrt(),
            Some(df) => {
                let ln_beta = |a: f64, b: f64| ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
                4.0 * df.sqrt() / (df - 1.0) * (ln_beta(0.5, df - 0.5) - 2.0 * ln_beta(0.5, 0.5 * df)).exp()
            }
        };
        self.scale * standard
    }

    /// E|X − Y| for an independent Y of another distribution: the mean of its [distance](Self::distance), by the
    /// trapezoidal rule in y = scale · sinh(s).
    pub fn distance_to(&self, other: &Self) -> f64 {
        if self.df.is_none() && other.df.is_none() {
            return self.scale.hypot(other.scale) * (2.0 / PI).sqrt();
        }
        const STEP: f64 = 0.02;
        let term = |k: i32| {
            let s = STEP * f64::from(k);
            let y = other.scale * s.sinh();
            self.distance(y) * other.log_density(y).exp() * other.scale * s.cosh()
        };
        // Both sides are equal by symmetry.
        STEP * (term(0) + 2.0 * (1..1500).map(term).filter(|value| value.is_finite()).sum::<f64>())
    }

    /// The continuous ranked probability score at `z`: E|X − z| − ½ E|X − X′| (Jordan, Krüger and Lerch 2019, appendix
    /// A). With one degree of freedom both are infinite, and the integral of (F − \[z ≤ t\])² is
    /// `(2/π) (t atan t − ½ ln(1 + t²) + ln 2)`, times the scale. Infinite for fewer than one.
    pub fn crps(&self, z: f64) -> f64 {
        let t = z / self.scale;
        match self.df {
            Some(df) if df < 1.0 => f64::INFINITY,
            Some(1.0) => self.scale * 2.0 / PI * (t * t.atan() - 0.5 * (t * t).ln_1p() + 2f64.ln()),
            _ => self.distance(z) - 0.5 * self.spread(),
        }
    }
}

fn standard(df: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, df).ok()
}

/// The scale that fits best for given degrees of freedom; larger values have smaller weights.
fn scale(z: &[f64], df: f64, start: f64) -> f64 {
    let mut square = start * start;
    for _ in 0..50 {
        let weighted = |z: &f64| (df + 1.0) * z * z / (df + z * z / square);
        let next = z.iter().map(weighted).sum::<f64>() / z.len() as f64;
        let done = (next - square).abs() < 1e-8 * square;
        square = next;
        if done {
            break;
        }
    }
    square.sqrt()
}
