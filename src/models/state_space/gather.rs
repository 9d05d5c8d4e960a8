//! From r and N of the backward pass to the gradient in the kernel's parameters.

use cagey_base::state_space::factor::Small;
use cagey_base::state_space::{Block, MOST};

use super::filter::Matrix;

/// Collects the derivatives of minus the log density in steps and amplitudes.
pub struct Gather {
    /// Of amplitudes, with the sign of the log density.
    pub amplitudes: Vec<f64>,
    /// Of rates, one after another, with the sign of the log density.
    rates: Vec<f64>,
    /// Sums of Ā and Q̄ of each block over steps between the same times.
    bars: Vec<[Small; 2]>,
    times: (f64, f64),
    pending: bool,
}

const NONE: Small = [0.0; MOST * MOST];

impl Gather {
    /// For these blocks.
    pub fn new(blocks: &[Block]) -> Self {
        let rates = blocks.iter().map(|block| block.rates.len()).sum();
        Self {
            amplitudes: vec![0.0; blocks.len()],
            rates: vec![0.0; rates],
            bars: vec![[NONE; 2]; blocks.len()],
            times: (f64::NAN, f64::NAN),
            pending: false,
        }
    }

    /// Adds those of a step: Q̄ = (r rᵀ − N)/2 and Ā = r aᵀ + (r rᵀ − N) A P, with a and P before the step.
    #[inline(always)]
    pub fn add<const D: usize>(
        &mut self,
        blocks: &[Block],
        times: (f64, f64),
        (r, n): (&[f64; D], &Matrix<D>),
        (before, carried): (&[f64; D], &Matrix<D>),
    ) {
        if self.times != times {
            self.flush(blocks);
            self.times = times;
        }
        self.pending = true;
        // r rᵀ A P.
        let mut along = [0.0; D];
        for (r, row) in r.iter().zip(carried) {
            along.iter_mut().zip(row).for_each(|(along, value)| *along += r * value);
        }
        for (block, [a, q]) in blocks.iter().zip(&mut self.bars) {
            let (first, size) = (block.offset, block.size);
            if block.rates.is_empty() {
                continue;
            }
            for i in 0..size {
                let (own, row) = (r[first + i], &n[first + i]);
                for j in 0..size {
                    q[i * size + j] += 0.5 * (own * r[first + j] - row[first + j]);
                    a[i * size + j] += own * (before[first + j] + along[first + j]);
                }
                for (n, carried) in row.iter().zip(carried) {
                    for j in 0..size {
                        a[i * size + j] -= n * carried[first + j];
                    }
                }
            }
        }
    }

    /// Turns the sums for the present step into derivatives in rates.
    pub fn flush(&mut self, blocks: &[Block]) {
        if !std::mem::take(&mut self.pending) {
            return;
        }
        let mut at = 0;
        for (block, bars) in blocks.iter().zip(&mut self.bars) {
            let end = at + block.rates.len();
            block.contract(self.times, [&bars[0], &bars[1], &NONE], &mut self.rates[at..end]);
            at = end;
            let entries = block.size * block.size;
            bars.iter_mut().for_each(|bar| bar[..entries].fill(0.0));
        }
    }

    /// Adds those of the prior at the first row.
    pub fn start<const D: usize>(&mut self, blocks: &[Block], t: f64, (r, n): (&[f64; D], &Matrix<D>)) {
        let mut at = 0;
        for block in blocks {
            let (first, size, end) = (block.offset, block.size, at + block.rates.len());
            let mut bar = NONE;
            for i in 0..size {
                for j in 0..size {
                    bar[i * size + j] = 0.5 * (r[first + i] * r[first + j] - n[first + i][first + j]);
                }
            }
            block.contract((t, t), [&NONE, &NONE, &bar], &mut self.rates[at..end]);
            at = end;
        }
    }

    /// The derivatives of minus the log density in the kernel's parameters, but for white noise.
    pub fn slopes(&self, blocks: &[Block], count: usize) -> Vec<f64> {
        let (mut parameters, mut at) = (vec![0.0; count], 0);
        for (block, amplitude) in blocks.iter().zip(&self.amplitudes) {
            for (parameter, slope) in &block.slopes {
                parameters[*parameter] -= amplitude * block.amplitude * slope;
            }
            for rate in &block.rates {
                // The rate is inverse to its parameter.
                parameters[rate.length] += self.rates[at] * rate.rate / rate.value;
                at += 1;
            }
        }
        parameters
    }
}
