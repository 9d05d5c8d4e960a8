//! Distributions of standardised residuals: a Student-t or normal one, or, if few errors differ in size from most, two
//! of them with one centre.

use serde::{Deserialize, Serialize};

use super::student::StudentT;

/// Two distributions about 0 with the same degrees of freedom and different scales.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// The narrower and the wider distribution.
    pub parts: [StudentT; 2],
    /// The share of the wider distribution; 0 if there is only one.
    pub share: f64,
    /// E|X − X′| for two independent draws, where it is known.
    spread: Option<f64>,
}

/// Steps of the expectation-maximisation algorithm.
const STEPS: usize = 200;
/// Most values that a fit uses, evenly spaced in their order.
const MOST: usize = 2000;
/// Degrees of freedom to try.
const DEGREES: [Option<f64>; 6] = [Some(2.1), Some(3.0), Some(5.0), Some(10.0), Some(30.0), None];

impl Mixture {
    /// A single distribution.
    pub fn of(part: StudentT) -> Self {
        Self { parts: [part; 2], share: 0.0, spread: None }
    }

    /// E|X − X′| for two independent draws.
    fn spread(&self) -> f64 {
        let ([a, b], [first, second]) = ([1.0 - self.share, self.share], &self.parts);
        let alone = || a * a * first.spread() + b * b * second.spread() + 2.0 * a * b * first.distance_to(second);
        self.spread.unwrap_or_else(alone)
    }

    /// The best of several maximum-likelihood fits, about 0, to values `[n]`: a normal distribution, a Student-t
    /// distribution, and two of either. The best one has the highest log likelihood less half a logarithm of n for each
    /// of its numbers (Schwarz 1978). Without `tails`, only normal ones.
    pub fn fit(z: &[f64], tails: bool) -> Self {
        let single = Self::of(if tails { StudentT::fit(z) } else { StudentT::fit_normal(z) });
        let mut sizes: Vec<f64> = z.iter().map(|z| z.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let count = sizes.len().min(MOST);
        let some: Vec<f64> = (0..count).map(|k| sizes[(2 * k + 1) * sizes.len() / (2 * count)]).collect();
        let (Some(middle), true) = (some.get(count / 2), some.iter().all(|size| size.is_finite())) else {
            return single;
        };
        if *middle <= 0.0 {
            return single;
        }
        let worth = |law: &Self| {
            let scales = if law.share == 0.0 { 1 } else { 3 };
            let numbers = scales + usize::from(law.parts[0].df.is_some());
            let of = law.log_densities();
            let log_likelihood = some.iter().map(|z| of(*z)).sum::<f64>();
            log_likelihood - 0.5 * numbers as f64 * (count as f64).ln()
        };
        let double = |df: &Option<f64>| {
            let fitted = two_scales(&some, *df, *middle);
            (worth(&fitted), fitted)
        };
        let degrees = DEGREES.iter().filter(|df| tails || df.is_none());
        match degrees.map(double).max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((found, law)) if found > worth(&single) => Self { spread: Some(law.spread()), ..law },
            _ => single,
        }
    }

    /// The distribution of the sum with an independent normal number of this variance. For normal parts it is exact. A
    /// Student-t part keeps its form: its variance grows, and its degrees of freedom with the square of that growth.
    pub fn plus(&self, variance: f64) -> Self {
        Self { parts: self.parts.map(|part| part.plus(variance)), share: self.share, spread: None }
    }

    /// The standard deviation; infinite for at most two degrees of freedom.
    pub fn sd(&self) -> f64 {
        self.mean(|part| part.sd().powi(2)).sqrt()
    }

    /// The probability of at most `z`.
    pub fn cdf(&self, z: f64) -> f64 {
        self.mean(|part| part.cdf(z))
    }

    /// The log density.
    pub fn log_density(&self, z: f64) -> f64 {
        if self.share == 0.0 { self.parts[0].log_density(z) } else { self.log_densities()(z) }
    }

    /// The log density of many values, without its constants for each.
    pub(super) fn log_densities(&self) -> impl Fn(f64) -> f64 + use<> {
        let (share, [first, second]) = (self.share, self.parts.map(|part| part.log_densities()));
        let shares = [1.0 - share, share].map(f64::ln);
        move |z| {
            if share == 0.0 {
                return first(z);
            }
            let (a, b) = (first(z) + shares[0], second(z) + shares[1]);
            let most = a.max(b);
            most + ((a - most).exp() + (b - most).exp()).ln()
        }
    }

    /// The value that is not exceeded with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        let [first, second] = &self.parts;
        let a = first.quantile(p);
        let b = if self.share == 0.0 { a } else { second.quantile(p) };
        if a == b || !a.is_finite() || !b.is_finite() {
            return a;
        }
        // The quantile lies between those of the parts. A Newton step that leaves this bracket halves it instead.
        let (mut low, mut high) = (a.min(b), a.max(b));
        let mut z = a;
        for _ in 0..100 {
            let off = self.cdf(z) - p;
            if off > 0.0 {
                high = z
            } else {
                low = z
            }
            let next = z - off / self.log_density(z).exp();
            let next = if next > low && next < high { next } else { 0.5 * (low + high) };
            if (next - z).abs() <= 1e-12 * z.abs().max(1e-12) {
                return next;
            }
            z = next;
        }
        z
    }

    /// The continuous ranked probability score at `z`: E|X − z| − ½ E|X − X′|.
    pub fn crps(&self, z: f64) -> f64 {
        if self.share == 0.0 {
            return self.parts[0].crps(z);
        }
        self.mean(|part| part.distance(z)) - 0.5 * self.spread()
    }

    /// What is wrong with the distribution, if anything is.
    pub fn problem(&self) -> Option<String> {
        let right = |part: &StudentT| {
            part.scale.is_finite() && part.scale > 0.0 && part.df.is_none_or(|df| df.is_finite() && df > 0.0)
        };
        let well =
            self.parts.iter().all(right) && (0.0..=1.0).contains(&self.share) && self.spread.is_none_or(f64::is_finite);
        (!well).then(|| "the calibration has an invalid share, scale or degrees of freedom".into())
    }

    /// The mean of a number over the parts.
    pub fn mean(&self, f: impl Fn(&StudentT) -> f64) -> f64 {
        let [a, b] = &self.parts;
        if self.share == 0.0 { f(a) } else { (1.0 - self.share) * f(a) + self.share * f(b) }
    }
}

/// `x` to the power of half of `twice`, by roots and products if that is a whole number.
fn half_power(x: f64, twice: f64) -> f64 {
    match twice as i32 {
        whole if f64::from(whole) != twice => x.powf(0.5 * twice),
        whole if whole % 2 == 0 => x.powi(whole / 2),
        whole => x.powi(whole / 2) * x.sqrt(),
    }
}

/// Fits two scales and a share to absolute values by expectation and maximisation.
fn two_scales(sizes: &[f64], df: Option<f64>, middle: f64) -> Mixture {
    let (mut scales, mut share) = ([0.7 * middle, 4.0 * middle], 0.2);
    let values: Vec<f64> = sizes.iter().map(|z| z * z).collect();
    for _ in 0..STEPS {
        let (mut squares, mut counts) = ([0.0; 2], [0.0; 2]);
        let ([a, b], odds) =
            (scales.map(|scale| (scale * scale).recip()), (1.0 - share) / share * scales[1] / scales[0]);
        for value in &values {
            // The density of the narrower distribution in units of the wider one's, and what a value says of each
            // scale.
            let (ratio, worths) = match df {
                None => ((0.5 * value * (b - a)).exp(), [1.0; 2]),
                Some(df) => {
                    let [a, b] = [df + value * a, df + value * b];
                    (half_power(b / a, df + 1.0), [(df + 1.0) / a, (df + 1.0) / b])
                }
            };
            let wide = 1.0 / (1.0 + odds * ratio);
            for (k, weight) in [1.0 - wide, wide].into_iter().enumerate() {
                squares[k] += weight * worths[k] * value;
                counts[k] += weight;
            }
        }
        let floor = 1e-6 * middle;
        let next = [0, 1].map(|k| (squares[k] / f64::max(counts[k], 1e-9)).sqrt().max(floor));
        let moved = (next[0] / scales[0] - 1.0).abs() + (next[1] / scales[1] - 1.0).abs();
        scales = next;
        share = (counts[1] / sizes.len() as f64).clamp(1e-6, 1.0 - 1e-6);
        if moved < 1e-5 {
            break;
        }
    }
    Mixture { parts: scales.map(|scale| StudentT { df, scale }), share, spread: None }
}
