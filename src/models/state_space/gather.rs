//! From r and N of the backward pass to the gradient in the kernel's parameters.

use cagey_base::state_space::factor::Small;
use cagey_base::state_space::{Block, MOST};

use super::filter::{Matrix, Transition};

/// Collects the derivatives of minus the log density in steps and amplitudes.
pub struct Gather {
    /// Of amplitudes, with the sign of the log density.
    pub amplitudes: Vec<f64>,
    /// Of rates, one after another, with the sign of the log density.
    rates: Vec<f64>,
    /// Sums of Ā and Q̄ of each block over steps between the same times.
    bars: Vec<[Small; 2]>,
    times: (f64, f64),
    /// A and Q of each block in these steps.
    entries: Vec<f64>,
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
            entries: Vec::new(),
            pending: false,
        }
    }

    /// Adds those of a step: Q̄ = (r rᵀ − N)/2 and Ā = r aᵀ + (r rᵀ − N) A P, with a and P before the step.
    #[inline(always)]
    pub fn add<const D: usize>(
        &mut self,
        blocks: &[Block],
        transition: &Transition<D>,
        (r, n): (&[f64; D], &Matrix<D>),
        (before, carried): (&[f64; D], &Matrix<D>),
    ) {
        if self.times != transition.times {
            self.flush(blocks);
            self.times = transition.times;
            self.entries.clone_from(&transition.entries);
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
                let own = r[first + i];
                for j in 0..size {
                    q[i * size + j] += 0.5 * (own * r[first + j] - n[first + i][first + j]);
                    a[i * size + j] += own * (before[first + j] + along[first + j]);
                }
            }
            // Minus N A P: in loops of known length for the sizes that blocks mostly have.
            match size {
                1 => subtract::<D, 1>(first, n, carried, a),
                2 => subtract::<D, 2>(first, n, carried, a),
                3 => subtract::<D, 3>(first, n, carried, a),
                4 => subtract::<D, 4>(first, n, carried, a),
                6 => subtract::<D, 6>(first, n, carried, a),
                8 => subtract::<D, 8>(first, n, carried, a),
                _ => subtract::<D, MOST>(first, n, carried, a),
            }
        }
    }

    /// Turns the sums for the present step into derivatives in rates.
    pub fn flush(&mut self, blocks: &[Block]) {
        if !std::mem::take(&mut self.pending) {
            return;
        }
        let (mut at, mut rest) = (0, self.entries.as_slice());
        for (block, bars) in blocks.iter().zip(&mut self.bars) {
            let (end, entries) = (at + block.rates.len(), block.size * block.size);
            let (own, later) = rest.split_at(2 * entries);
            block.contract(self.times, &own[..entries], [&bars[0], &bars[1], &NONE], &mut self.rates[at..end]);
            (at, rest) = (end, later);
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
            block.contract((t, t), &NONE, [&NONE, &NONE, &bar], &mut self.rates[at..end]);
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

/// Subtracts the block of X Y with `S` rows and columns from `first` on.
#[inline(always)]
fn subtract<const D: usize, const S: usize>(first: usize, x: &Matrix<D>, y: &Matrix<D>, from: &mut Small) {
    let mut sums = [[0.0; S]; S];
    let rows: [&[f64; D]; S] = std::array::from_fn(|i| &x[first + i]);
    for (k, y) in y.iter().enumerate() {
        let y = &y[first..first + S];
        for (sums, x) in sums.iter_mut().zip(rows) {
            sums.iter_mut().zip(y).for_each(|(sum, y)| *sum += x[k] * y);
        }
    }
    sums.as_flattened().iter().zip(from).for_each(|(sum, from)| *from -= sum);
}
