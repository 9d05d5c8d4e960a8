//! Symmetric tridiagonal matrices: the small matrices of Krylov methods, and their Gauss quadrature.

use crate::error::{Error, Result};

/// A symmetric tridiagonal matrix of order `m`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tridiagonal {
    /// The diagonal `[m]`.
    pub diagonal: Vec<f64>,
    /// The entries next to the diagonal `[m − 1]`.
    pub off_diagonal: Vec<f64>,
}

/// Most sweeps for one eigenvalue. Two are typical.
const SWEEPS: usize = 60;

impl Tridiagonal {
    /// The nodes `λ` and weights `w` of the Gauss quadrature `Σ w f(λ) = e₁ᵀ f(T) e₁`: the eigenvalues, and the squared
    /// first entries of the eigenvectors (Golub and Welsch 1969). Takes `O(m²)` with the QL iteration with implicit
    /// shifts.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when an entry is not finite or the iteration does not end.
    pub fn gauss_quadrature(&self) -> Result<Vec<(f64, f64)>> {
        let mut d = self.diagonal.clone();
        let mut e = self.off_diagonal.clone();
        let n = d.len();
        e.resize(n, 0.0);
        if !d.iter().chain(&e).all(|x| x.is_finite()) {
            return Err(Error::NotFinite("a tridiagonal matrix of a Krylov method".into()));
        }
        let mut first = vec![0.0; n];
        first.iter_mut().take(1).for_each(|z| *z = 1.0);
        for l in 0..n {
            let mut sweeps = 0;
            loop {
                let split = |&m: &usize| e[m].abs() <= f64::EPSILON * (d[m].abs() + d[m + 1].abs());
                let m = (l..n - 1).find(split).unwrap_or(n - 1);
                if m == l {
                    break;
                }
                sweeps += 1;
                if sweeps > SWEEPS {
                    return Err(Error::NotFinite(format!("eigenvalue {l} of a tridiagonal matrix of order {n}")));
                }
                sweep(&mut d, &mut e, &mut first, l, m);
            }
        }
        Ok(d.into_iter().zip(first).map(|(node, z)| (node, z * z)).collect())
    }

    /// The matrix, row-major `[m, m]`.
    pub fn dense(&self) -> Vec<f64> {
        let m = self.diagonal.len();
        let mut full = vec![0.0; m * m];
        for (i, d) in self.diagonal.iter().enumerate() {
            full[i * m + i] = *d;
        }
        for (i, e) in self.off_diagonal.iter().enumerate() {
            full[i * m + i + 1] = *e;
            full[(i + 1) * m + i] = *e;
        }
        full
    }
}

/// One QL sweep with Wilkinson's shift over the unreduced block `l..=m`. Applies its rotations to the row `first`.
fn sweep(d: &mut [f64], e: &mut [f64], first: &mut [f64], l: usize, m: usize) {
    let ratio = (d[l + 1] - d[l]) / (2.0 * e[l]);
    let mut g = d[m] - d[l] + e[l] / (ratio + ratio.hypot(1.0).copysign(ratio));
    let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
    for i in (l..m).rev() {
        let (f, b) = (s * e[i], c * e[i]);
        let r = f64::hypot(f, g);
        e[i + 1] = r;
        if r == 0.0 {
            // The block has split early: the next sweep handles the rest.
            d[i + 1] -= p;
            e[m] = 0.0;
            return;
        }
        (s, c) = (f / r, g / r);
        g = d[i + 1] - p;
        let t = (d[i] - g) * s + 2.0 * c * b;
        p = s * t;
        d[i + 1] = g + p;
        g = c * t - b;
        (first[i], first[i + 1]) = (c * first[i] - s * first[i + 1], s * first[i] + c * first[i + 1]);
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0.0;
}
