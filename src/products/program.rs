//! A lowered kernel as a program: evaluated on short rows of the matrix that stay in the nearest cache, forward and in
//! reverse, for any tree of terms, sums and products.

use super::scalar::{Elementary, Scalar};
use crate::kernels::form::{Lowered, Metric};
use crate::kernels::profile::Profile;

/// Columns handled at once: every intermediate row of a few nodes fits the first-level cache.
pub const WIDTH: usize = 256;

/// The structure of a lowered kernel, without its numbers.
#[derive(Debug, Clone)]
pub struct Program {
    /// In post-order: children before parents; the last is the root.
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
enum Node {
    Term(TermPlan),
    Sum(Vec<usize>),
    Product(Vec<usize>),
}

/// Where a term's numbers stand: columns `start..start + width` of the features, entries of the coefficients.
#[derive(Debug, Clone)]
struct TermPlan {
    metric: Metric,
    profile: Profile,
    start: usize,
    width: usize,
    shape: Option<usize>,
    variance: Option<usize>,
}

/// One row against up to [`WIDTH`] columns.
pub struct Block<'a, T> {
    /// Features of the row `[p]`.
    pub row: &'a [T],
    /// Features of all columns `[p, m]`, transposed.
    pub columns: &'a [T],
    /// Number of columns m in all.
    pub m: usize,
    /// First column of the block.
    pub first: usize,
    /// Columns in the block.
    pub len: usize,
    /// Variances and shapes.
    pub coefficients: &'a [T],
    /// The row's own index among the columns, when both inputs are one: where white noise stands.
    pub own: Option<usize>,
}

/// Room for the intermediate rows of one thread.
pub struct Scratch<T> {
    values: Vec<T>,
    cotangents: Vec<T>,
    squares: Vec<T>,
    weights: Vec<T>,
}

/// Sums of the adjoint of one thread.
pub struct Sums<T> {
    /// Gradient in the row's features `[p]`, for the current row.
    pub row: Vec<T>,
    /// Gradient in the columns' features `[p, m]`, transposed.
    pub columns: Vec<T>,
    /// Gradient in the coefficients.
    pub coefficients: Vec<f64>,
}

impl Program {
    /// The program of a kernel whose terms' features stand side by side in one matrix.
    pub fn new(lowered: &Lowered) -> Self {
        let mut program = Self { nodes: Vec::new() };
        let (mut column, mut coefficient) = (0, 0);
        program.push(lowered, &mut column, &mut coefficient);
        program
    }

    fn push(&mut self, lowered: &Lowered, column: &mut usize, coefficient: &mut usize) -> usize {
        let mut next = |present: bool| {
            present.then(|| {
                *coefficient += 1;
                *coefficient - 1
            })
        };
        let node = match lowered {
            Lowered::Term(term) => {
                let width = term.features.dims()[1];
                let start = *column;
                *column += width;
                let variance = next(term.variance.is_some());
                let shape = next(term.shape.is_some());
                Node::Term(TermPlan { metric: term.metric, profile: term.profile, start, width, shape, variance })
            }
            Lowered::Sum(parts) => Node::Sum(parts.iter().map(|k| self.push(k, column, coefficient)).collect()),
            Lowered::Product(parts) => Node::Product(parts.iter().map(|k| self.push(k, column, coefficient)).collect()),
        };
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Scratch rows for this program.
    pub fn scratch<T: Elementary>(&self) -> Scratch<T> {
        let rows = vec![T::of(0.0); self.nodes.len() * WIDTH];
        Scratch {
            values: rows.clone(),
            cotangents: rows,
            squares: vec![T::of(0.0); WIDTH],
            weights: vec![T::of(0.0); WIDTH],
        }
    }

    /// The covariances of a block, into `out [len]`.
    pub fn forward<T: Elementary>(&self, block: &Block<T>, scratch: &mut Scratch<T>, out: &mut [T]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("fma")
        {
            // SAFETY: the features were just detected.
            return unsafe { self.forward_avx512(block, scratch, out) };
        }
        self.forward_body(block, scratch, out);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,fma,avx2")]
    fn forward_avx512<T: Elementary>(&self, block: &Block<T>, scratch: &mut Scratch<T>, out: &mut [T]) {
        self.forward_body(block, scratch, out);
    }

    #[inline(always)]
    fn forward_body<T: Elementary>(&self, block: &Block<T>, scratch: &mut Scratch<T>, out: &mut [T]) {
        self.evaluate(block, scratch);
        let root = (self.nodes.len() - 1) * WIDTH;
        out.copy_from_slice(&scratch.values[root..root + block.len]);
    }

    #[inline(always)]
    fn evaluate<T: Elementary>(&self, block: &Block<T>, scratch: &mut Scratch<T>) {
        for (i, node) in self.nodes.iter().enumerate() {
            let (done, rest) = scratch.values.split_at_mut(i * WIDTH);
            let out = &mut rest[..block.len];
            match node {
                Node::Term(term) => {
                    term.compare(block, &mut scratch.squares);
                    term.values(block, &scratch.squares, out);
                }
                Node::Sum(children) => combine(children, done, out, |a, b| a + b),
                Node::Product(children) => combine(children, done, out, |a, b| a * b),
            }
        }
    }

    /// Adds the adjoint of a block, given the cotangents `grad [len]` of its covariances.
    pub fn adjoint<T: Elementary>(&self, block: &Block<T>, grad: &[T], scratch: &mut Scratch<T>, sums: &mut Sums<T>) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("fma")
        {
            // SAFETY: the features were just detected.
            return unsafe { self.adjoint_avx512(block, grad, scratch, sums) };
        }
        self.adjoint_body(block, grad, scratch, sums);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,fma,avx2")]
    fn adjoint_avx512<T: Elementary>(
        &self,
        block: &Block<T>,
        grad: &[T],
        scratch: &mut Scratch<T>,
        sums: &mut Sums<T>,
    ) {
        self.adjoint_body(block, grad, scratch, sums);
    }

    #[inline(always)]
    fn adjoint_body<T: Elementary>(&self, block: &Block<T>, grad: &[T], scratch: &mut Scratch<T>, sums: &mut Sums<T>) {
        self.evaluate(block, scratch);
        let root = (self.nodes.len() - 1) * WIDTH;
        scratch.cotangents[root..root + block.len].copy_from_slice(grad);
        for (i, node) in self.nodes.iter().enumerate().rev() {
            let (before, from_here) = scratch.cotangents.split_at_mut(i * WIDTH);
            let cotangent = &from_here[..block.len];
            match node {
                Node::Term(term) => {
                    term.compare(block, &mut scratch.squares);
                    term.adjoint(block, cotangent, &scratch.squares, &mut scratch.weights, sums);
                }
                Node::Sum(children) => {
                    for &child in children {
                        before[child * WIDTH..][..block.len].copy_from_slice(cotangent);
                    }
                }
                Node::Product(children) => {
                    for &child in children {
                        let target = &mut before[child * WIDTH..][..block.len];
                        target.copy_from_slice(cotangent);
                        for &other in children.iter().filter(|&&other| other != child) {
                            let factor = &scratch.values[other * WIDTH..][..block.len];
                            for (t, f) in target.iter_mut().zip(factor) {
                                *t = *t * *f;
                            }
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn combine<T: Elementary>(children: &[usize], done: &[T], out: &mut [T], join: impl Fn(T, T) -> T) {
    for (i, &child) in children.iter().enumerate() {
        let source = &done[child * WIDTH..][..out.len()];
        if i == 0 {
            out.copy_from_slice(source);
        } else {
            for (o, s) in out.iter_mut().zip(source) {
                *o = join(*o, *s);
            }
        }
    }
}

/// Runs `$body` with `$p` a constant profile, so that the compiler specialises the loop for it.
macro_rules! with_profile {
    ($profile:expr, $p:ident => $body:expr) => {
        match $profile {
            Profile::Rbf => with_profile!(@ Profile::Rbf, $p, $body),
            Profile::Matern12 => with_profile!(@ Profile::Matern12, $p, $body),
            Profile::Matern32 => with_profile!(@ Profile::Matern32, $p, $body),
            Profile::Matern52 => with_profile!(@ Profile::Matern52, $p, $body),
            Profile::RationalQuadratic => with_profile!(@ Profile::RationalQuadratic, $p, $body),
            Profile::Identity => with_profile!(@ Profile::Identity, $p, $body),
            other => {
                let $p = other;
                $body
            }
        }
    };
    (@ $constant:expr, $p:ident, $body:expr) => {{
        const P: Profile = $constant;
        let $p = P;
        $body
    }};
}

impl TermPlan {
    fn coefficient<T: Elementary>(index: Option<usize>, block: &Block<T>) -> T {
        index.map_or(T::of(1.0), |i| block.coefficients[i])
    }

    #[inline(always)]
    fn features<'a, T>(&self, block: &Block<'a, T>, k: usize) -> (&'a T, &'a [T]) {
        let column = self.start + k;
        (&block.row[column], &block.columns[column * block.m + block.first..][..block.len])
    }

    /// s of each pair.
    #[inline(always)]
    fn compare<T: Elementary>(&self, block: &Block<T>, squares: &mut [T]) {
        let squares = &mut squares[..block.len];
        squares.fill(T::of(0.0));
        for k in 0..self.width {
            let (&a, columns) = self.features(block, k);
            match self.metric {
                Metric::SquaredDistance => {
                    for (s, &b) in squares.iter_mut().zip(columns) {
                        let difference = a - b;
                        *s = num_traits::Float::mul_add(difference, difference, *s);
                    }
                }
                Metric::InnerProduct => {
                    for (s, &b) in squares.iter_mut().zip(columns) {
                        *s = num_traits::Float::mul_add(a, b, *s);
                    }
                }
                Metric::Delta => {}
            }
        }
    }

    #[inline(always)]
    fn values<T: Elementary>(&self, block: &Block<T>, squares: &[T], out: &mut [T]) {
        let (a, v) = (Scalar(Self::coefficient(self.shape, block)), Self::coefficient(self.variance, block));
        if self.metric == Metric::Delta {
            out.fill(T::of(0.0));
            if let Some(slot) = block.own.and_then(|own| out.get_mut(own.checked_sub(block.first)?)) {
                *slot = v;
            }
            return;
        }
        with_profile!(self.profile, p => {
            for (o, &s) in out.iter_mut().zip(squares) {
                *o = v * p.value(Scalar(s), a).0;
            }
        });
    }

    #[inline(always)]
    fn adjoint<T: Elementary>(
        &self,
        block: &Block<T>,
        cotangent: &[T],
        squares: &[T],
        weights: &mut [T],
        sums: &mut Sums<T>,
    ) {
        let (a, v) = (Scalar(Self::coefficient(self.shape, block)), Self::coefficient(self.variance, block));
        if self.metric == Metric::Delta {
            if let (Some(i), Some(own)) = (self.variance, block.own)
                && let Some(g) = own.checked_sub(block.first).and_then(|at| cotangent.get(at))
            {
                sums.coefficients[i] += g.f64();
            }
            return;
        }
        let weights = &mut weights[..block.len];
        let (mut in_value, mut in_shape) = ([T::of(0.0); LANES], [T::of(0.0); LANES]);
        with_profile!(self.profile, p => {
            for ((w, s), g) in weights.chunks_mut(LANES).zip(squares.chunks(LANES)).zip(cotangent.chunks(LANES)) {
                for l in 0..w.len() {
                    let (value, slope, shape) = p.slopes(Scalar(s[l]), a);
                    w[l] = g[l] * v * slope.0;
                    in_value[l] += g[l] * value.0;
                    in_shape[l] += g[l] * v * shape.0;
                }
            }
        });
        let total = |lanes: &[T; LANES]| lanes.iter().map(|l| l.f64()).sum::<f64>();
        if let Some(i) = self.variance {
            sums.coefficients[i] += total(&in_value);
        }
        if let Some(i) = self.shape {
            sums.coefficients[i] += total(&in_shape);
        }
        let two = T::of(2.0);
        for k in 0..self.width {
            let (&a, columns) = self.features(block, k);
            let target = &mut sums.columns[(self.start + k) * block.m + block.first..][..block.len];
            let mut lanes = [T::of(0.0); LANES];
            let chunks = weights.chunks(LANES).zip(columns.chunks(LANES)).zip(target.chunks_mut(LANES));
            for ((w, b), t) in chunks {
                for l in 0..w.len() {
                    if self.metric == Metric::SquaredDistance {
                        let pull = two * w[l] * (a - b[l]);
                        lanes[l] += pull;
                        t[l] -= pull;
                    } else {
                        lanes[l] += w[l] * b[l];
                        t[l] += w[l] * a;
                    }
                }
            }
            sums.row[self.start + k] += T::of(total(&lanes));
        }
    }
}

/// Independent partial sums, enough for the widest vectors.
const LANES: usize = 16;
