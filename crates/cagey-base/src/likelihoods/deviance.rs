//! Unit deviances: twice what the log density of a target lacks under a mean, compared with the mean that suits the
//! target best (McCullagh and Nelder 1989, *Generalized linear models*, 2.3). 0 is a perfect fit.

/// Of a count `y` under the Poisson distribution: `2 [y ln(y/μ) − (y − μ)]`.
pub fn poisson(y: f64, mean: f64) -> f64 {
    2.0 * (relative(y, mean) - (y - mean))
}

/// Of a count `y` of `n` trials: `2 [y ln(y/μ) + (n − y) ln((n − y)/(n − μ))]`.
pub fn binomial(y: f64, mean: f64, n: f64) -> f64 {
    2.0 * (relative(y, mean) + relative(n - y, n - mean))
}

/// Of a count `y` with variance `μ + αμ²`: `2 [y ln(y/μ) − (y + 1/α) ln((1 + αy)/(1 + αμ))]`.
pub fn negative_binomial(y: f64, mean: f64, dispersion: f64) -> f64 {
    // ln((1 + αy)/(1 + αμ)), which stays exact near Poisson's distribution.
    let rise = (dispersion * (y - mean) / (1.0 + dispersion * mean)).ln_1p();
    2.0 * (relative(y, mean) - (y + dispersion.recip()) * rise)
}

/// Of a positive `y` whose standard deviation is proportional to the mean: `2 [(y − μ)/μ − ln(y/μ)]`.
pub fn gamma(y: f64, mean: f64) -> f64 {
    2.0 * ((y - mean) / mean - (y / mean).ln())
}

/// `y ln(y/μ)`, which is 0 for `y` = 0.
fn relative(y: f64, mean: f64) -> f64 {
    if y > 0.0 { y * (y / mean).ln() } else { 0.0 }
}
