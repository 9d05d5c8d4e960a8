//! Integrals over one dimension.

use std::sync::OnceLock;

/// The number of nodes of the rule for training.
pub const NODES: usize = 20;

/// Gauss–Hermite nodes and weights for the standard normal: `E[g(z)] ≈ Σ w g(z)`, exact for polynomials of degree
/// `2n − 1`.
///
/// The roots of each polynomial lie between those of the one before. The weights `1/(n h²_{n−1})` of the orthonormal
/// recurrence keep all digits, however small they are.
pub fn hermite(n: usize) -> Vec<(f64, f64)> {
    let mut roots = vec![0.0];
    for degree in 2..=n {
        let edge = 2.0 * (degree as f64).sqrt() + 1.0;
        let bounds: Vec<f64> = std::iter::once(-edge).chain(roots).chain(std::iter::once(edge)).collect();
        roots = bounds.windows(2).map(|pair| bisect(degree, pair[0], pair[1])).collect();
    }
    roots.into_iter().map(|z| (z, 1.0 / (n as f64 * orthonormal(n - 1, z).powi(2)))).collect()
}

/// The rule with [`NODES`] nodes.
pub fn rule() -> &'static [(f64, f64)] {
    static RULE: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    RULE.get_or_init(|| hermite(NODES))
}

/// The orthonormal Hermite polynomial of a degree, for the standard normal.
fn orthonormal(degree: usize, z: f64) -> f64 {
    let (mut before, mut now) = (0.0, 1.0);
    for k in 0..degree {
        let k = k as f64;
        (before, now) = (now, (z * now - k.sqrt() * before) / (k + 1.0).sqrt());
    }
    now
}

fn bisect(degree: usize, mut low: f64, mut high: f64) -> f64 {
    let sign = orthonormal(degree, low).signum();
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if orthonormal(degree, middle).signum() == sign {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// Nodes in `[0, 1]`, Kronrod weights and the weights of the 7-point Gauss rule among them (QUADPACK's `qk15`).
const KRONROD: [(f64, f64, f64); 8] = [
    (0.991_455_371_120_812_6, 0.022_935_322_010_529_224, 0.0),
    (0.949_107_912_342_758_5, 0.063_092_092_629_978_56, 0.129_484_966_168_869_7),
    (0.864_864_423_359_769_1, 0.104_790_010_322_250_18, 0.0),
    (0.741_531_185_599_394_5, 0.140_653_259_715_525_92, 0.279_705_391_489_276_64),
    (0.586_087_235_467_691_1, 0.169_004_726_639_267_9, 0.0),
    (0.405_845_151_377_397_2, 0.190_350_578_064_785_4, 0.381_830_050_505_118_9),
    (0.207_784_955_007_898_47, 0.204_432_940_075_298_9, 0.0),
    (0.0, 0.209_482_141_084_727_82, 0.417_959_183_673_469_4),
];

/// Points and weights for integrals over the pieces between sorted `breaks`.
pub fn over(breaks: &[f64]) -> Vec<(f64, f64)> {
    let pieces = breaks.windows(2).map(|pair| (0.5 * (pair[0] + pair[1]), 0.5 * (pair[1] - pair[0])));
    let both = |(node, kronrod, _): &(f64, f64, f64)| [(-node, *kronrod), (*node, *kronrod)];
    let nodes = || KRONROD[..7].iter().flat_map(both).chain([(0.0, KRONROD[7].1)]);
    pieces.flat_map(|(centre, half)| nodes().map(move |(node, weight)| (centre + half * node, half * weight))).collect()
}

/// `∫ g` over the pieces between sorted `breaks`. Each piece is halved until its error is below `tolerance` or below
/// rounding, but at most ten times.
pub fn adaptive(breaks: &[f64], tolerance: f64, g: &dyn Fn(f64) -> f64) -> f64 {
    breaks.windows(2).map(|pair| piece(pair[0], pair[1], tolerance, 10, g)).sum()
}

/// Differences below this share of an integral are rounding errors.
const ROUNDING: f64 = 1e-11;

fn piece(low: f64, high: f64, tolerance: f64, depth: usize, g: &dyn Fn(f64) -> f64) -> f64 {
    let (centre, half) = (0.5 * (low + high), 0.5 * (high - low));
    let (mut fine, mut coarse) = (0.0, 0.0);
    for &(node, kronrod, gauss) in &KRONROD {
        let value = if node == 0.0 { g(centre) } else { g(centre - half * node) + g(centre + half * node) };
        fine += kronrod * value;
        coarse += gauss * value;
    }
    if depth == 0
        || half == 0.0
        || !fine.is_finite()
        || (fine - coarse).abs() <= (tolerance / half).max(ROUNDING * fine.abs())
    {
        return half * fine;
    }
    piece(low, centre, 0.5 * tolerance, depth - 1, g) + piece(centre, high, 0.5 * tolerance, depth - 1, g)
}
