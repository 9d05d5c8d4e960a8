//! One operation for all members, each on its own numbers of every input.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use burn::tensor::{DType, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::linalg::host::{HostOp, Vjp, try_map};
use crate::linalg::jitter::watch_apart;
use crate::linalg::real::{narrowed, widened};
use crate::products::engine::sums::lock;
use crate::threads;

/// The places of a member's numbers.
pub(super) struct Place<const N: usize> {
    /// In each input.
    pub inputs: [Range<usize>; N],
    /// In the output, part by part.
    pub output: Vec<Range<usize>>,
}

/// The gradients in a member's inputs, given that in its output, if wanted.
pub(super) type Adjoint<const N: usize> = Box<dyn FnOnce(&[f64], [bool; N]) -> Result<[Option<Vec<f64>>; N]> + Send>;

/// The adjoint of one number with these slopes.
pub(super) fn along<const N: usize>(slopes: [Vec<f64>; N]) -> Adjoint<N> {
    Box::new(|grad, _needs| Ok(slopes.map(|own| Some(own.into_iter().map(|slope| grad[0] * slope).collect()))))
}

/// The relative jitter of each member.
pub(super) type Jitters = Arc<Mutex<Vec<f64>>>;

/// The outputs of all members. A member that fails must not stop the others: it gets NaN, and slopes of 0.
pub(super) struct Apart<const N: usize, F> {
    pub places: Vec<Place<N>>,
    pub jitters: Jitters,
    /// The output of a member and its adjoint, from its number, the type of the inputs, and its own numbers of these.
    pub one: F,
}

impl<const N: usize, F> HostOp<N> for Apart<N, F>
where
    F: Fn(usize, DType, [&[f64]; N]) -> Result<(Vec<f64>, Adjoint<N>)> + Send + Sync + 'static,
{
    fn forward(self: Arc<Self>, inputs: [TensorData; N]) -> Result<(TensorData, Vjp<N>)> {
        let (dtype, shapes) = (inputs[0].dtype(), inputs.each_ref().map(|input| input.shape().to_vec()));
        let host = try_map(inputs, widened)?;
        let each = threads::map(self.places.par_iter().enumerate(), |(k, place)| {
            let own = std::array::from_fn(|at| &host[at][place.inputs[at].clone()]);
            watch_apart(|| (self.one)(k, dtype, own).ok())
        });
        let (each, jitters): (Vec<_>, Vec<f64>) = each.into_iter().unzip();
        *lock(&self.jitters) = jitters;
        let count = self.places.iter().flat_map(|place| &place.output).map(Range::len).sum();
        let (mut out, mut adjoints) = (vec![f64::NAN; count], Vec::with_capacity(each.len()));
        for (one, place) in each.into_iter().zip(&self.places) {
            adjoints.push(one.map(|(values, adjoint)| {
                let to = place.output.iter().flat_map(|part| part.clone());
                to.zip(values).for_each(|(to, value)| out[to] = value);
                adjoint
            }));
        }
        let vjp = move |grad, needs: [bool; N]| {
            let grad = widened(grad)?;
            let own = |(adjoint, place): (Option<Adjoint<N>>, &Place<N>)| {
                let grad: Vec<f64> = place.output.iter().flat_map(|part| &grad[part.clone()]).copied().collect();
                adjoint.map(|adjoint| adjoint(&grad, needs)).transpose()
            };
            let found = threads::map(adjoints.into_par_iter().zip(&self.places), own);
            let mut all = shapes.each_ref().map(|shape| vec![0.0; shape.iter().product()]);
            for (found, place) in found.into_iter().zip(&self.places) {
                for (at, all) in all.iter_mut().enumerate() {
                    let all = &mut all[place.inputs[at].clone()];
                    match &found {
                        Ok(found) => {
                            let own = found.as_ref().and_then(|found| found[at].as_ref()).into_iter().flatten();
                            all.iter_mut().zip(own).for_each(|(to, slope)| *to = *slope);
                        }
                        // Of this member alone.
                        Err(_) => all.fill(f64::NAN),
                    }
                }
            }
            let mut shapes = shapes.iter();
            Ok(all.map(|numbers| shapes.next().map(|shape| narrowed(numbers, shape, dtype))))
        };
        Ok((narrowed(out, &[count], dtype), Box::new(vjp)))
    }
}
