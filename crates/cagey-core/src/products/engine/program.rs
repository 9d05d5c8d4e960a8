//! A lowered kernel as a program. It runs on tiles that stay in the nearest cache, forward and in reverse, for any tree
//! of terms, sums and products.

use crate::kernels::form::{Lowered, Metric};
use crate::linalg::real::Real;
use crate::products::engine::lanes::{Lanes, Number};
use crate::products::engine::term::{Pairs, TermPlan};
use crate::products::engine::tile::{Few, Tile, Wide, dot, zeros};

/// The structure of a lowered kernel, without its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    /// In post-order: children before parents; the last is the root.
    nodes: Vec<Node>,
    /// The coefficient that multiplies everything. The caller applies it, so that it is not applied pair by pair.
    factor: Option<usize>,
}

/// A term, or a combination of earlier nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// One term.
    Term(TermPlan),
    /// The sum of these nodes.
    Sum(Vec<usize>),
    /// The product of these nodes.
    Product(Vec<usize>),
}

/// Room for the intermediate tiles of one thread.
#[derive(Debug)]
pub struct Scratch<L> {
    values: Vec<Tile<L>>,
    slopes: Vec<Tile<L>>,
    shapes: Vec<Tile<L>>,
    cotangents: Vec<Tile<L>>,
}

/// The gradients to which the adjoint of a tile adds.
#[derive(Debug)]
pub struct Pulled<'a, L> {
    /// Gradient in the columns' features `[p]`.
    pub columns: &'a mut [Wide<L>],
    /// Gradient in the rows' features `[p]`, lane by lane.
    pub rows: &'a mut [Few<L>],
    /// Gradient in the coefficients.
    pub coefficients: &'a mut [f64],
}

impl Program {
    /// The program of a kernel whose terms' features are side by side in one matrix.
    pub fn new(lowered: &Lowered) -> Self {
        let mut program = Self { nodes: Vec::new(), factor: None };
        let (mut column, mut coefficient) = (0, 0);
        program.push(lowered, &mut column, &mut coefficient);
        if let [Node::Term(term)] = program.nodes.as_mut_slice() {
            program.factor = term.variance.take();
        }
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
                let index = self.terms().count();
                Node::Term(TermPlan {
                    metric: term.metric,
                    profile: term.profile,
                    index,
                    start,
                    width,
                    shape,
                    variance,
                })
            }
            Lowered::Sum(parts) => Node::Sum(parts.iter().map(|k| self.push(k, column, coefficient)).collect()),
            Lowered::Product(parts) => Node::Product(parts.iter().map(|k| self.push(k, column, coefficient)).collect()),
        };
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The terms in the order of their features.
    pub fn terms(&self) -> impl Iterator<Item = &TermPlan> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Term(term) => Some(term),
            _ => None,
        })
    }

    /// The nodes in post-order; the last is the root.
    #[cfg(feature = "gpu")]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The coefficient that still has to multiply the covariances.
    #[cfg(feature = "gpu")]
    pub fn outer(&self) -> Option<usize> {
        self.factor
    }

    /// The factor v that still has to multiply the covariances of this program.
    pub fn factor<T: Number>(&self, coefficients: &[T]) -> T {
        self.factor.map_or(T::of(1.0), |i| coefficients[i])
    }

    /// Whether this is one profile without coefficients, times its factor.
    pub fn is_scaled_profile(&self) -> bool {
        matches!(self.nodes.as_slice(), [Node::Term(term)] if term.shape.is_none() && term.variance.is_none())
    }

    /// The gradients in the coefficients, from those without the factor and the gradient in the factor.
    pub fn with_factor<T: Number>(&self, coefficients: &[T], mut pulled: Vec<f64>, along: f64) -> Vec<f64> {
        let factor = self.factor(coefficients).f64();
        pulled.iter_mut().for_each(|gradient| *gradient *= factor);
        self.pull_factor(along, &mut pulled);
        pulled
    }

    /// Adds the gradient in the factor, if it is a coefficient.
    pub fn pull_factor(&self, gradient: f64, coefficients: &mut [f64]) {
        if let Some(i) = self.factor {
            coefficients[i] += gradient;
        }
    }

    /// Tiles for [`evaluate`](Self::evaluate), and for the adjoint if `slopes`.
    pub fn scratch<L: Lanes>(&self, slopes: bool) -> Scratch<L> {
        let tiles = |wanted: bool| vec![zeros(); if wanted { self.nodes.len() } else { 0 }];
        Scratch { values: tiles(true), slopes: tiles(slopes), shapes: tiles(slopes), cotangents: tiles(slopes) }
    }

    /// The covariances of a tile.
    #[inline(always)]
    pub fn evaluate<'s, L: Lanes>(
        &self,
        pairs: &Pairs<L>,
        coefficients: &[L::Element],
        scratch: &'s mut Scratch<L>,
    ) -> &'s Tile<L> {
        for (i, node) in self.nodes.iter().enumerate() {
            let (done, rest) = scratch.values.split_at_mut(i);
            match node {
                Node::Term(term) => term.values(pairs, coefficients, &mut rest[0]),
                other => other.combine(done, &mut rest[0]),
            }
        }
        &scratch.values[self.nodes.len() - 1]
    }

    /// The covariances of a tile; also computes what [`pull`](Self::pull) needs.
    #[inline(always)]
    pub fn linearise<'s, L: Lanes>(
        &self,
        pairs: &Pairs<L>,
        coefficients: &[L::Element],
        scratch: &'s mut Scratch<L>,
    ) -> &'s Tile<L> {
        for (i, node) in self.nodes.iter().enumerate() {
            let (done, rest) = scratch.values.split_at_mut(i);
            match node {
                Node::Term(term) => {
                    term.slopes(pairs, coefficients, &mut rest[0], &mut scratch.slopes[i], &mut scratch.shapes[i]);
                }
                other => other.combine(done, &mut rest[0]),
            }
        }
        &scratch.values[self.nodes.len() - 1]
    }

    /// The cotangents of a tile's covariances, for the caller to fill before [`pull`](Self::pull).
    #[inline(always)]
    pub fn cotangent<'s, L: Lanes>(&self, scratch: &'s mut Scratch<L>) -> &'s mut Tile<L> {
        self.root(scratch).1
    }

    /// The covariances of a tile, and the [`cotangent`](Self::cotangent).
    #[inline(always)]
    pub fn root<'s, L: Lanes>(&self, scratch: &'s mut Scratch<L>) -> (&'s Tile<L>, &'s mut Tile<L>) {
        let root = self.nodes.len() - 1;
        (&scratch.values[root], &mut scratch.cotangents[root])
    }

    /// Whether the factor is a coefficient.
    pub fn has_factor(&self) -> bool {
        self.factor.is_some()
    }

    /// Σ cotangent · covariance over a tile: its part of the gradient in the factor.
    #[inline(always)]
    pub fn along<L: Lanes>(&self, scratch: &Scratch<L>) -> f64 {
        let root = self.nodes.len() - 1;
        dot(&scratch.cotangents[root], &scratch.values[root])
    }

    /// The cotangents of every term's comparisons, as [`pull`](Self::pull) leaves them, including the 2 from the
    /// derivative of a squared distance.
    pub fn compared<'s, L: Lanes>(&self, scratch: &'s Scratch<L>) -> impl Iterator<Item = (&TermPlan, &'s Tile<L>)> {
        self.nodes.iter().zip(&scratch.cotangents).filter_map(|(node, cotangent)| match node {
            Node::Term(term) if term.pulls() => Some((term, cotangent)),
            _ => None,
        })
    }

    /// Adds the adjoint of a tile. Call it after [`linearise`](Self::linearise), with the cotangents in place.
    #[inline(always)]
    pub fn pull<L: Lanes>(
        &self,
        pairs: &Pairs<L>,
        coefficients: &[L::Element],
        scratch: &mut Scratch<L>,
        to: &mut Pulled<L>,
    ) {
        for (i, node) in self.nodes.iter().enumerate().rev() {
            let (before, rest) = scratch.cotangents.split_at_mut(i);
            let cotangent = &mut rest[0];
            match node {
                Node::Term(term) if term.metric == Metric::Delta => {
                    if let Some(index) = term.variance {
                        to.coefficients[index] += term.pull_white(pairs, cotangent);
                    }
                }
                Node::Term(term) => {
                    if let Some(index) = term.variance {
                        // The value is v k: its gradient in v is k.
                        let total = dot(cotangent, &scratch.values[i]);
                        to.coefficients[index] += total / coefficients[index].f64();
                    }
                    if let Some(index) = term.shape {
                        to.coefficients[index] += dot(cotangent, &scratch.shapes[i]);
                    }
                    if term.pulls() {
                        weigh(cotangent, &scratch.slopes[i], term.metric);
                        term.pull(pairs, cotangent, to.columns, to.rows);
                    }
                }
                Node::Sum(children) => children.iter().for_each(|&child| before[child] = *cotangent),
                Node::Product(children) => {
                    for &child in children {
                        before[child] = *cotangent;
                        for &other in children.iter().filter(|&&other| other != child) {
                            multiply(&mut before[child], &scratch.values[other]);
                        }
                    }
                }
            }
        }
    }
}

impl Node {
    #[inline(always)]
    fn combine<L: Lanes>(&self, done: &[Tile<L>], out: &mut Tile<L>) {
        let (Self::Sum(children) | Self::Product(children)) = self else { return };
        for (i, &child) in children.iter().enumerate() {
            match (i, self) {
                (0, _) => *out = done[child],
                (_, Self::Product(_)) => multiply(out, &done[child]),
                _ => add(out, &done[child]),
            }
        }
    }
}

#[inline(always)]
fn add<L: Lanes>(to: &mut Tile<L>, other: &Tile<L>) {
    to.iter_mut().flatten().zip(other.iter().flatten()).for_each(
        #[inline(always)]
        |(a, b)| *a = a.add(*b),
    );
}

#[inline(always)]
fn multiply<L: Lanes>(to: &mut Tile<L>, other: &Tile<L>) {
    to.iter_mut().flatten().zip(other.iter().flatten()).for_each(
        #[inline(always)]
        |(a, b)| *a = a.mul(*b),
    );
}

/// Turns cotangents of covariances into cotangents of s, including the 2 from the derivative of a squared distance.
#[inline(always)]
fn weigh<L: Lanes>(cotangent: &mut Tile<L>, slopes: &Tile<L>, metric: Metric) {
    let two = L::splat(L::Element::of(if metric == Metric::SquaredDistance { 2.0 } else { 1.0 }));
    for (row, slopes) in cotangent.iter_mut().zip(slopes) {
        row.iter_mut().zip(slopes).for_each(
            #[inline(always)]
            |(w, s)| *w = w.mul(s.mul(two)),
        );
    }
}
