//! Covariances within many small sets of points. Pairs from all sets share tiles, because one set would leave a tile
//! mostly empty.

use crate::kernels::form::Metric;
use crate::linalg::real::{Real, dot, squared_distance};
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::program::{Program, Pulled, Scratch};
use crate::products::engine::term::Pairs;
use crate::products::engine::tile::{GROUP, Tile, panel, wide, zeros};

/// Sets of points, all of the same size, and the pairs that are compared in each set.
#[derive(Debug, Clone, Copy)]
pub struct Sets<'a, T> {
    /// The kernel.
    pub program: &'a Program,
    /// Its variances and shapes.
    pub coefficients: &'a [T],
    /// The features of each set's points `[points, p]`.
    pub points: &'a [Vec<T>],
    /// The number of features.
    pub p: usize,
    /// Pairs of points, the same for every set.
    pub pairs: &'a [[usize; 2]],
}

impl<T: Number> Sets<'_, T> {
    /// The covariances `[sets, pairs]`.
    pub fn covariances(self) -> Vec<T> {
        T::vectorised(Evaluate(self))
    }

    /// The adjoint: gradients in each set's features `[points, p]`, and in the coefficients.
    pub fn pull(self, grad: &[T]) -> (Vec<Vec<T>>, Vec<f64>) {
        let (mut points, mut coefficients) = T::vectorised(PairsAdjoint { sets: self, grad });
        let factor = self.program.factor(self.coefficients);
        points.iter_mut().flatten().for_each(|g| *g *= factor);
        let along = coefficients.pop().unwrap_or_default();
        (points, self.program.with_factor(self.coefficients, coefficients, along))
    }

    fn count(&self) -> usize {
        self.points.len() * self.pairs.len()
    }

    /// The set of a pair, given its index among the pairs of all sets; and its two points.
    fn pair(&self, at: usize) -> (usize, [usize; 2]) {
        (at / self.pairs.len(), self.pairs[at % self.pairs.len()])
    }

    /// The comparisons of a tile of pairs for every term, and whether each pair is a point with itself.
    fn compare<L: Lanes<Element = T>>(&self, first: usize) -> (Vec<Tile<L>>, Tile<L>) {
        let size = GROUP * panel::<L>();
        let terms = self.program.terms().count();
        let (mut compared, mut same) = (vec![vec![T::of(0.0); size]; terms], vec![T::of(0.0); size]);
        for (k, at) in (first..self.count().min(first + size)).enumerate() {
            let (set, [a, b]) = self.pair(at);
            let point = |i: usize| &self.points[set][i * self.p..][..self.p];
            same[k] = T::of(f64::from(u8::from(a == b)));
            for (term, out) in self.program.terms().zip(&mut compared) {
                let (a, b) = (&point(a)[term.features()], &point(b)[term.features()]);
                out[k] = match term.metric {
                    Metric::SquaredDistance => squared_distance(a, b),
                    _ => T::of(dot(a, b)),
                };
            }
        }
        (compared.iter().map(|s| tile(s)).collect(), tile(&same))
    }
}

/// Numbers as a tile, row after row; zero after the last number.
fn tile<L: Lanes>(numbers: &[L::Element]) -> Tile<L> {
    let mut tile = zeros();
    tile.iter_mut().zip(numbers.chunks_exact(panel::<L>())).for_each(|(row, numbers)| *row = wide(numbers));
    tile
}

/// The first numbers of a tile, as many as `out` has room for.
fn numbers<L: Lanes>(tile: &Tile<L>, out: &mut [L::Element]) {
    let mut lanes = [L::Element::of(0.0); 16];
    for (chunk, values) in out.chunks_mut(L::N).zip(tile.iter().flatten()) {
        values.store(&mut lanes);
        chunk.copy_from_slice(&lanes[..chunk.len()]);
    }
}

struct Evaluate<'a, T>(Sets<'a, T>);

impl<T: Number> Work<T> for Evaluate<'_, T> {
    type Output = Vec<T>;

    fn run<L: Lanes<Element = T>>(self) -> Vec<T> {
        let Self(sets) = self;
        let size = GROUP * panel::<L>();
        let factor = sets.program.factor(sets.coefficients);
        let mut scratch: Scratch<L> = sets.program.scratch(false);
        let mut out = vec![T::of(0.0); sets.count()];
        for (k, out) in out.chunks_mut(size).enumerate() {
            let (compared, same) = sets.compare::<L>(k * size);
            let pairs = Pairs::Each { compared: &compared, same: &same };
            L::enter(
                #[inline(always)]
                || numbers(sets.program.evaluate(&pairs, sets.coefficients, &mut scratch), out),
            );
            out.iter_mut().for_each(|k| *k *= factor);
        }
        out
    }
}

struct PairsAdjoint<'a, T> {
    sets: Sets<'a, T>,
    grad: &'a [T],
}

impl<T: Number> Work<T> for PairsAdjoint<'_, T> {
    /// Gradients in the points and in the coefficients; the last is the factor's.
    type Output = (Vec<Vec<T>>, Vec<f64>);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { sets, grad } = self;
        let (size, program) = (GROUP * panel::<L>(), sets.program);
        let mut scratch: Scratch<L> = program.scratch(true);
        let mut in_points: Vec<Vec<T>> = sets.points.iter().map(|set| vec![T::of(0.0); set.len()]).collect();
        let mut in_coefficients = vec![0.0; sets.coefficients.len() + 1];
        let mut weights = vec![T::of(0.0); size];
        for (k, grad) in grad.chunks(size).enumerate() {
            let (compared, same) = sets.compare::<L>(k * size);
            let pairs = Pairs::Each { compared: &compared, same: &same };
            weights[..grad.len()].copy_from_slice(grad);
            weights[grad.len()..].fill(T::of(0.0));
            *program.cotangent(&mut scratch) = tile(&weights);
            L::enter(
                #[inline(always)]
                || {
                    program.linearise(&pairs, sets.coefficients, &mut scratch);
                    if let Some((factor, coefficients)) = in_coefficients.split_last_mut() {
                        if program.has_factor() {
                            *factor += program.along(&scratch);
                        }
                        let mut to = Pulled { columns: &mut [], rows: &mut [], coefficients };
                        program.pull(&pairs, sets.coefficients, &mut scratch, &mut to);
                    }
                },
            );
            for (term, cotangent) in program.compared(&scratch) {
                numbers(cotangent, &mut weights);
                for (w, at) in weights.iter().zip(k * size..k * size + grad.len()) {
                    let (set, pair) = sets.pair(at);
                    let [a, b] = pair.map(|i| i * sets.p + term.start);
                    let (points, out) = (&sets.points[set], &mut in_points[set]);
                    for f in 0..term.width {
                        let (x, z) = (points[a + f], points[b + f]);
                        let (in_x, in_z) = match term.metric {
                            Metric::SquaredDistance => (*w * (x - z), *w * (z - x)),
                            _ => (*w * z, *w * x),
                        };
                        out[a + f] += in_x;
                        out[b + f] += in_z;
                    }
                }
            }
        }
        (in_points, in_coefficients)
    }
}
