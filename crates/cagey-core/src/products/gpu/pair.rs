//! A program on one pair of rows, in any arithmetic: the computation of one unit of a GPU.

use crate::arithmetic::Arithmetic;
use crate::kernels::form::Metric;
use crate::products::engine::program::{Node, Program};
use crate::products::engine::term::TermPlan;

/// Features of two rows, and the coefficients.
pub struct Pair<A> {
    /// Features of the row `[p]`.
    pub row: Vec<A>,
    /// Features of the column `[p]`.
    pub column: Vec<A>,
    /// 1 for the same row of the same input, else 0.
    pub same: A,
    /// Variances and shapes.
    pub coefficients: Vec<A>,
}

impl<A: Arithmetic> Pair<A> {
    /// s of a term.
    fn compared(&self, term: &TermPlan) -> A {
        let columns = self.row[term.features()].iter().zip(&self.column[term.features()]);
        let each = columns.map(|(a, b)| match term.metric {
            Metric::SquaredDistance => {
                let difference = less(a, b);
                difference.clone().mul(difference)
            }
            _ => a.clone().mul(b.clone()),
        });
        match term.metric {
            Metric::Delta => self.same.clone(),
            _ => each.reduce(A::add).unwrap_or_else(|| self.same.clone().scale(0.0)),
        }
    }

    /// The shape of a term; arbitrary if it has none.
    fn shape(&self, term: &TermPlan) -> A {
        self.coefficients[term.shape.unwrap_or_default()].clone()
    }

    /// A term's value times its variance.
    fn scaled(&self, term: &TermPlan, value: A) -> A {
        match term.variance {
            Some(v) => value.mul(self.coefficients[v].clone()),
            None => value,
        }
    }

    /// The covariance, without the program's factor.
    pub fn value(&self, program: &Program) -> A {
        let values = self.values(program, |term, s| match term.metric {
            Metric::Delta => s,
            _ => term.profile.value(s, self.shape(term)),
        });
        values[values.len() - 1].clone()
    }

    fn values(&self, program: &Program, mut profile: impl FnMut(&TermPlan, A) -> A) -> Vec<A> {
        let mut values: Vec<A> = Vec::new();
        for node in program.nodes() {
            let value = match node {
                Node::Term(term) => {
                    let value = profile(term, self.compared(term));
                    self.scaled(term, value)
                }
                Node::Sum(children) => joined(&values, children, A::add),
                Node::Product(children) => joined(&values, children, A::mul),
            };
            values.push(value);
        }
        values
    }

    /// The covariance, and the gradients in the row's features and in the coefficients, one after another, given a
    /// cotangent of the covariance, both without the program's factor. None means 0. The gradient in the factor is for
    /// a cotangent of the covariance with the factor.
    pub fn slopes(&self, program: &Program, cotangent: A) -> (A, Vec<Option<A>>) {
        // k, ∂k/∂s, ∂k/∂a of every term, in the order of the terms.
        let mut terms = Vec::new();
        let values = self.values(program, |term, s| {
            let slopes = match term.metric {
                Metric::Delta => (s.clone(), s.clone(), s),
                _ => term.profile.slopes(s, self.shape(term)),
            };
            terms.push(slopes.clone());
            slopes.0
        });
        let p = self.row.len();
        let mut slopes = vec![None; p + self.coefficients.len()];
        let last = values.len() - 1;
        if let Some(factor) = program.outer() {
            slopes[p + factor] = Some(cotangent.clone().mul(values[last].clone()));
        }
        let mut cotangents = vec![None; values.len()];
        cotangents[last] = Some(cotangent);
        for (i, node) in program.nodes().iter().enumerate().rev() {
            let Some(cotangent) = cotangents[i].take() else { continue };
            match node {
                Node::Term(term) => {
                    let (k, in_s, in_a) = terms[term.index].clone();
                    if let Some(v) = term.variance {
                        slopes[p + v] = Some(cotangent.clone().mul(k));
                    }
                    let cotangent = self.scaled(term, cotangent);
                    if let Some(a) = term.shape {
                        slopes[p + a] = Some(cotangent.clone().mul(in_a));
                    }
                    if term.pulls() && term.metric != Metric::Delta {
                        self.pull(term, cotangent.mul(in_s), &mut slopes);
                    }
                }
                Node::Sum(children) => children.iter().for_each(|&c| cotangents[c] = Some(cotangent.clone())),
                Node::Product(children) => {
                    for &child in children {
                        let others = children.iter().filter(|&&other| other != child);
                        let product = others.fold(cotangent.clone(), |x, &other| x.mul(values[other].clone()));
                        cotangents[child] = Some(product);
                    }
                }
            }
        }
        (values[last].clone(), slopes)
    }

    /// The adjoint from s to the row's features.
    fn pull(&self, term: &TermPlan, cotangent: A, slopes: &mut [Option<A>]) {
        let squares = term.metric == Metric::SquaredDistance;
        let cotangent = if squares { cotangent.scale(2.0) } else { cotangent };
        for k in term.features() {
            let (a, b) = (&self.row[k], &self.column[k]);
            let along = if squares { less(a, b) } else { b.clone() };
            slopes[k] = Some(cotangent.clone().mul(along));
        }
    }
}

fn less<A: Arithmetic>(a: &A, b: &A) -> A {
    a.clone().add(b.clone().scale(-1.0))
}

fn joined<A: Arithmetic>(values: &[A], children: &[usize], with: impl Fn(A, A) -> A) -> A {
    let mut all = children.iter().map(|&child| values[child].clone());
    // A kernel never lowers to empty sums or products.
    let first = all.next().expect("sums and products are never empty");
    all.fold(first, with)
}
