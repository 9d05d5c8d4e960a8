//! Statistics of residuals: how far they drift along an order, how their size depends on something, how peaked they
//! are.

/// The smallest dependence of the size of errors on something that is reported.
pub const WORTH: f64 = 0.1;
/// The smallest peakedness that is reported: about that of a Student-t distribution with 8 degrees of freedom.
pub const PEAKED: f64 = 1.282;
/// Parts of the rows; what is found is removed in each of them.
const BINS: usize = 12;

/// Values with their ranks.
#[derive(Debug, Clone)]
pub struct Ranked {
    /// Rows, the smallest value first.
    rows: Vec<usize>,
    /// Ranks from −1 to 1; equal values have equal ranks.
    rank: Vec<f64>,
    /// Ranks of the distances of the ranks from the middle, likewise.
    fold: Vec<f64>,
    distinct: usize,
}

impl Ranked {
    pub fn new(values: &[f64]) -> Self {
        let Ranks { rows, rank, distinct } = ranks(values);
        let fold = ranks(&rank.iter().map(|r| r.abs()).collect::<Vec<_>>()).rank;
        Self { rows, rank, fold, distinct }
    }

    /// Whether there are at least two different values.
    pub fn varies(&self) -> bool {
        self.distinct > 1
    }

    /// Whether there are enough different values to order the rows.
    pub fn is_an_order(&self) -> bool {
        self.distinct > 10.max(self.rows.len() / 4)
    }

    /// Whether other values order the rows in the same way, forwards or backwards.
    pub fn same_order(&self, other: &Self) -> bool {
        correlation(&self.rank, &other.rank).abs() > 0.999
    }

    /// The largest distance from 0 of sums of centred residuals along the order: max |Σz| / √Σz² (Brown, Durbin and
    /// Evans 1975).
    pub fn wander(&self, z: &[f64]) -> f64 {
        let mean = z.iter().sum::<f64>() / z.len() as f64;
        let (mut sum, mut squares, mut farthest) = (0.0, 0.0, 0.0_f64);
        for row in &self.rows {
            let value = z[*row] - mean;
            (sum, squares) = (sum + value, squares + value * value);
            farthest = farthest.max(f64::abs(sum));
        }
        farthest / squares.sqrt().max(f64::MIN_POSITIVE)
    }

    /// How much successive residuals along the order have the same sign: the sum of their first three autocorrelations.
    pub fn follow(&self, z: &[f64]) -> f64 {
        let value = |place: usize| self.rows.get(place).map_or(0.0, |row| z[*row]);
        let products = (0..self.rows.len()).map(|k| value(k) * (value(k + 1) + value(k + 2) + value(k + 3)));
        products.sum::<f64>() / z.iter().map(|z| z * z).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// Absolute rank correlation of these values with others.
    pub fn monotone(&self, other: &Self) -> f64 {
        correlation(&self.rank, &other.rank).abs()
    }

    /// The larger absolute rank correlation with others, of these values or of their distances from the middle.
    pub fn dependence(&self, other: &Self) -> f64 {
        self.monotone(other).max(correlation(&self.fold, &other.rank).abs())
    }

    /// The root mean square in the top third, divided by that in the bottom third.
    pub fn ratio(&self, z: &[f64]) -> f64 {
        let third = (self.rows.len() / 3).max(1);
        root_mean_square(&self.rows[self.rows.len() - third..], z) / root_mean_square(&self.rows[..third], z)
    }

    /// Subtracts the mean of each part of the order.
    pub fn centre(&self, z: &mut [f64]) {
        for part in self.parts() {
            let mean = part.iter().map(|row| z[*row]).sum::<f64>() / part.len() as f64;
            part.iter().for_each(|row| z[*row] -= mean);
        }
    }

    /// Divides by the root mean square of each part of the order.
    pub fn level(&self, z: &mut [f64]) {
        for part in self.parts() {
            let size = root_mean_square(part, z).max(f64::MIN_POSITIVE);
            part.iter().for_each(|row| z[*row] /= size);
        }
    }

    fn parts(&self) -> impl Iterator<Item = &[usize]> {
        self.rows.chunks(self.rows.len().div_ceil(BINS).max(1))
    }
}

struct Ranks {
    /// The rows in the order of values.
    rows: Vec<usize>,
    /// From −1 to 1.
    rank: Vec<f64>,
    /// Number of distinct values.
    distinct: usize,
}

fn ranks(values: &[f64]) -> Ranks {
    let n = values.len();
    let mut rows: Vec<usize> = (0..n).collect();
    rows.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (mut rank, mut distinct, mut first) = (vec![0.0; n], 0, 0);
    while first < n {
        let equal = rows[first..].iter().take_while(|row| values[**row] == values[rows[first]]).count().max(1);
        let place = first as f64 + 0.5 * (equal - 1) as f64;
        rows[first..first + equal].iter().for_each(|row| rank[*row] = 2.0 * place / (n.max(2) - 1) as f64 - 1.0);
        (distinct, first) = (distinct + 1, first + equal);
    }
    Ranks { rows, rank, distinct }
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let (mean_a, mean_b) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (a - mean_a, b - mean_b);
        (ab, aa, bb) = (ab + a * b, aa + a * a, bb + b * b);
    }
    if aa * bb > 0.0 { ab / (aa * bb).sqrt() } else { 0.0 }
}

fn root_mean_square(rows: &[usize], z: &[f64]) -> f64 {
    (rows.iter().map(|row| z[*row].powi(2)).sum::<f64>() / rows.len().max(1) as f64).sqrt()
}

/// Standard deviation divided by the mean absolute deviation about the median: √(π/2) = 1.2533 for a normal
/// distribution, more for one with heavy tails (Geary 1935, inverted).
pub fn peakedness(z: &[f64]) -> f64 {
    let n = z.len() as f64;
    let mut sorted = z.to_vec();
    let middle = sorted.len() / 2;
    let median = *sorted.select_nth_unstable_by(middle, f64::total_cmp).1;
    let mean = z.iter().sum::<f64>() / n;
    let sd = (z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / n).sqrt();
    sd / (z.iter().map(|z| (z - median).abs()).sum::<f64>() / n).max(f64::MIN_POSITIVE)
}
