//! A function of one input by the states of its kernel, in numbers.
//!
//! Each time of a row has the states given all rows up to then, N(a, P), and minus the first and second derivatives of
//! the log density of the rows from then on, r and N. At a time between two, with h for what it observes, A and Q of
//! the step to it from the time before, and A' of the step from it to the next: for g = A P Aᵀh + Q h and g' = A'g, the
//! mean is m + h·A a + g'·r and the variance h·g − g'·N g' (de Jong 1989).

use serde::{Deserialize, Serialize};

use super::latent::{Moments, dot};
use super::{Find, Function, Mean, VARIANCE_FLOOR, sized};
use crate::state_space::{Block, MOST, observed, variance};

/// What all rows say about the states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct States<A = String> {
    /// The processes.
    pub blocks: Vec<Block>,
    /// The variance of white noise.
    pub white: f64,
    /// The prior mean.
    pub mean: Mean,
    /// Number of different times.
    pub count: usize,
    /// The array of the times, ascending.
    pub times: A,
    /// The arrays a, one time after another, and P, row-major.
    pub before: [A; 2],
    /// The arrays r and N.
    pub after: [A; 2],
}

/// [`States`], ready to predict.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    of: States<Vec<f64>>,
    /// The number of states.
    size: usize,
}

impl States {
    pub(super) fn ready(&self, d: usize, array: Find) -> Result<Ready, String> {
        let mut sound = self.blocks.iter().scan(0, |next, block| {
            let first = std::mem::replace(next, *next + block.size);
            let size: usize = block.rates.iter().map(|rate| rate.factor.size()).product();
            Some(block.offset == first && block.size == size && size <= MOST)
        });
        if d != 1 || self.blocks.is_empty() || !sound.all(|one| one) {
            return Err("has states that do not fit each other".into());
        }
        let size: usize = self.blocks.iter().map(|block| block.size).sum();
        let times = sized(array, &self.times, self.count)?;
        let pair = |[vector, matrix]: &[String; 2], array: Find| {
            Ok::<_, String>([sized(array, vector, self.count * size)?, sized(array, matrix, self.count * size * size)?])
        };
        let (before, after) = (pair(&self.before, array)?, pair(&self.after, array)?);
        self.mean.check(d)?;
        let (blocks, mean) = (self.blocks.clone(), self.mean.clone());
        Ok(Ready { of: States { blocks, white: self.white, mean, count: self.count, times, before, after }, size })
    }
}

impl Function for Ready {
    fn moments(&self, x: &[f64]) -> Result<Vec<Moments>, String> {
        Ok(x.iter().map(|t| self.at(*t)).collect())
    }
}

/// Vector and matrix of a time.
fn at([vectors, matrices]: &[Vec<f64>; 2], place: usize, size: usize) -> (&[f64], &[f64]) {
    (&vectors[place * size..][..size], &matrices[place * size * size..][..size * size])
}

fn times(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(vector.len()).map(|row| dot(row, vector)).collect()
}

impl Ready {
    fn at(&self, t: f64) -> Moments {
        let States { blocks, white, mean: prior, times: all, before, after, .. } = &self.of;
        let (size, next) = (self.size, all.partition_point(|time| *time <= t));
        let mut seen = Vec::new();
        observed(blocks, t, &mut seen);
        let mut h = vec![0.0; size];
        seen.iter().for_each(|(at, value)| h[*at] = *value);
        let (mut mean, mut g) = (0.0, vec![0.0; size]);
        match next.checked_sub(1) {
            // Before all rows, states are those of the prior.
            None => self.each(t, t, |block, [_, _, p]| add(block, p, &h, &mut g)),
            Some(last) => {
                let (a, p) = at(before, last, size);
                let mut back = vec![0.0; size];
                self.each(all[last], t, |block, [own, _, _]| add_transposed(block, own, &h, &mut back));
                mean += dot(&back, a);
                let carried = times(p, &back);
                self.each(all[last], t, |block, [own, q, _]| {
                    add(block, own, &carried, &mut g);
                    add(block, q, &h, &mut g);
                });
            }
        }
        let mut left = dot(&h, &g);
        if let Some(later) = all.get(next) {
            let (r, n) = at(after, next, size);
            let mut ahead = vec![0.0; size];
            self.each(t, *later, |block, [own, _, _]| add(block, own, &g, &mut ahead));
            mean += dot(&ahead, r);
            left -= dot(&ahead, &times(n, &ahead));
        }
        let (found, floor) = (left + white, VARIANCE_FLOOR * variance(blocks, t));
        Moments { mean: prior.at(&[t]) + mean, variance: if found < floor { floor } else { found } }
    }

    fn each(&self, from: f64, to: f64, mut visit: impl FnMut(&Block, [&[f64]; 3])) {
        self.of.blocks.iter().for_each(|block| block.step(from, to, |parts| visit(block, parts)));
    }
}

/// Adds M v, for the matrix of a block.
fn add(block: &Block, matrix: &[f64], v: &[f64], to: &mut [f64]) {
    let (first, size) = (block.offset, block.size);
    for (to, row) in to[first..first + size].iter_mut().zip(matrix.chunks_exact(size)) {
        *to += dot(row, &v[first..first + size]);
    }
}

/// Adds Mᵀv.
fn add_transposed(block: &Block, matrix: &[f64], v: &[f64], to: &mut [f64]) {
    let (first, size) = (block.offset, block.size);
    for (row, v) in matrix.chunks_exact(size).zip(&v[first..]) {
        to[first..first + size].iter_mut().zip(row).for_each(|(to, m)| *to += m * v);
    }
}
