//! One evaluation: the device, the precision and the tensors of the parameters.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::device::transfers::{read, upload};
use crate::device::{Compute, Precision, is_host};
use crate::error::{Error, Result};
use crate::linalg::host;
use crate::params::{Parameter, Parameters, all_finite};

/// The tensors of one evaluation. Parameters live on the host; [`value`](Scope::value) brings them to the device. A
/// training scope records the operations on them, for [`gradient`](Scope::gradient).
#[derive(Debug)]
pub struct Scope {
    compute: Compute,
    device: Device,
    budget: usize,
    /// The type to which parameters are rounded.
    rounded: DType,
    /// Whether parameters take no gradients.
    constant: bool,
    /// The parameters' tensors in the wide type, by the parameters' ids.
    leaves: Rc<RefCell<HashMap<u64, Tensor<1>>>>,
}

/// Default limit on the temporary memory of a matrix-free product, in bytes.
pub const BUDGET: usize = 128 << 20;

impl Scope {
    /// A scope without gradients, for prediction.
    ///
    /// # Errors
    /// [`Error::Device`] when the device or its precision is not available.
    pub fn new(compute: Compute) -> Result<Self> {
        let (device, rounded) = (compute.device()?, compute.precision.dtype());
        let scope = Self { compute, device, budget: BUDGET, rounded, constant: false, leaves: Rc::default() };
        Ok(scope.with_budget(BUDGET))
    }

    /// A scope that records gradients.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn training(compute: Compute) -> Result<Self> {
        let scope = Self::new(compute)?;
        Ok(Self { device: scope.device.autodiff(), ..scope })
    }

    /// A scope for gradients in a tensor `x`, on the tensor's device. Parameters are constants.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Shape`] when the tensor has another device or type.
    pub fn beside<const D: usize>(compute: Compute, x: &Tensor<D>) -> Result<Self> {
        let (scope, device) = (Self::new(compute)?, x.device());
        if (device != scope.device && device != scope.device.clone().autodiff()) || x.dtype() != scope.dtype() {
            let expected = format!("{:?} on {:?}, recording gradients or not", scope.dtype(), scope.device);
            return Err(Error::shape("a tensor of inputs", expected, format!("{:?} on {device:?}", x.dtype())));
        }
        Ok(Self { device, constant: true, ..scope })
    }

    /// The same scope with another limit, in bytes, on the temporary memory of a matrix-free product. Inputs and
    /// outputs do not count. A product takes at least one tile, whatever the limit. On a GPU the limit is at most a
    /// quarter of its [memory](crate::device::DeviceKind::memory).
    pub fn with_budget(self, bytes: usize) -> Self {
        let most = self.compute.kind.memory().map_or(usize::MAX, |memory| (memory / 4) as usize);
        Self { budget: bytes.min(most), ..self }
    }

    /// The same evaluation, with the internal values of these parameters taken from a tensor `[P, 1]` that records no
    /// gradients. The tensor holds them one parameter after another.
    pub(crate) fn holding(self, parameters: &impl Parameters, values: &Tensor<2>) -> Self {
        let mut at = 0;
        for (_, parameter) in parameters.parameters() {
            let leaf = values.clone().narrow(0, at, parameter.len()).squeeze_dim::<1>(1).cast(self.wide());
            let leaf = if self.device.is_autodiff() { Tensor::from_inner(leaf) } else { leaf };
            self.leaves.borrow_mut().insert(parameter.id(), self.tracked(leaf, parameter));
            at += parameter.len();
        }
        self
    }

    /// Makes a leaf record gradients if its parameter takes them.
    fn tracked(&self, leaf: Tensor<1>, parameter: &Parameter) -> Tensor<1> {
        if parameter.fixed || self.constant || !self.device.is_autodiff() { leaf } else { leaf.require_grad() }
    }

    /// The same evaluation in its [wide](Self::wide) type. The two share their parameters, and gradients of both add
    /// up.
    pub fn widened(&self) -> Self {
        let precision = if self.wide() == DType::F64 { Precision::F64 } else { self.compute.precision };
        let compute = Compute { precision, ..self.compute };
        Self { compute, device: self.device.clone(), leaves: Rc::clone(&self.leaves), ..*self }
    }

    /// Bytes of temporary memory that a matrix-free product may take.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// The device of this evaluation.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kind of device and the precision.
    pub fn compute(&self) -> Compute {
        self.compute
    }

    /// The dtype of this evaluation.
    pub fn dtype(&self) -> DType {
        self.compute.precision.dtype()
    }

    /// The dtype of small matrices: f64 if the device has it. Their algebra is ill-conditioned, however well
    /// conditioned the products behind them are.
    pub fn wide(&self) -> DType {
        if self.compute.kind.has_f64(&self.device) { DType::F64 } else { self.dtype() }
    }

    /// The internal values of a parameter as a tensor `[len]`.
    ///
    /// Gradients of all uses add up in the [wide](Self::wide) type, because large parts of an objective may cancel.
    pub fn value(&self, parameter: &Parameter) -> Tensor<1> {
        self.wide_value(parameter).cast(self.dtype())
    }

    /// [`value`](Self::value) in the [wide](Self::wide) type. This is the leaf of the graph that receives the
    /// gradients, and it is the same tensor at every call within a scope.
    pub fn wide_value(&self, parameter: &Parameter) -> Tensor<1> {
        self.leaves
            .borrow_mut()
            .entry(parameter.id())
            .or_insert_with(|| {
                // Rounded in the same way for all uses: terms that cancel in exact arithmetic must see the same values.
                let mut values = parameter.internal();
                if self.rounded == DType::F32 {
                    values.iter_mut().for_each(|value| *value = f64::from(*value as f32));
                }
                let values = TensorData::new(values, [parameter.len()]);
                self.tracked(upload(values, &self.device, self.wide()), parameter)
            })
            .clone()
    }

    /// Host numbers as a tensor `[n]` of this scope.
    pub fn vector(&self, values: &[f64]) -> Tensor<1> {
        upload(TensorData::new(values.to_vec(), [values.len()]), &self.device, self.dtype())
    }

    /// Row-major host numbers as a tensor `[rows, columns]` of this scope.
    pub fn matrix(&self, values: &[f64], rows: usize, columns: usize) -> Tensor<2> {
        self.matrix_in(values, rows, columns, self.dtype())
    }

    /// As [`matrix`](Self::matrix), of all rows of so many columns that there are.
    pub fn rows(&self, values: &[f64], columns: usize) -> Tensor<2> {
        self.matrix(values, values.len() / columns, columns)
    }

    /// Positions as a tensor `[n]` of integers.
    pub fn indices(&self, of: &[usize]) -> Tensor<1, Int> {
        indices(of, &self.device)
    }

    /// As [`matrix`](Self::matrix), in another dtype.
    pub fn matrix_in(&self, values: &[f64], rows: usize, columns: usize, dtype: DType) -> Tensor<2> {
        upload(TensorData::new(values.to_vec(), [rows, columns]), &self.device, dtype)
    }

    /// The loss as a number, and its gradient in the raw values of all parameters that are not fixed, in the order of
    /// [`Parameters::free_raw`].
    ///
    /// # Errors
    /// [`Error::NotFinite`] when the loss or an entry of the gradient is NaN or infinite, [`Error::Shape`] for a loss
    /// of several values, [`Error::Usage`] for one that was not made of this scope's parameters.
    pub fn gradient(&self, loss: Tensor<1>, parameters: &(impl Parameters + ?Sized)) -> Result<(f64, Vec<f64>)> {
        let (value, slopes) = self.slopes(loss, parameters)?;
        let mut gradient: Vec<f64> = Vec::new();
        let free = parameters.parameters().into_iter().filter(|(_, p)| !p.fixed);
        for ((_, parameter), slope) in free.zip(slopes) {
            gradient.extend(parameter.raw_slope(slope));
        }
        Ok((value, gradient))
    }

    /// The loss as a number, and its gradient in the internal values of each parameter that is not fixed.
    ///
    /// # Errors
    /// As [`gradient`](Self::gradient).
    #[doc(hidden)]
    pub fn slopes(&self, loss: Tensor<1>, parameters: &(impl Parameters + ?Sized)) -> Result<(f64, Vec<Vec<f64>>)> {
        one_value(&loss)?;
        let tracked = loss.is_tracked();
        // Errors of other graphs, of which nobody asked.
        host::failure();
        let mut gradients = tracked.then(|| loss.backward());
        if let Some(error) = host::failure() {
            return Err(error);
        }
        let leaves = self.leaves.borrow();
        let free = || parameters.parameters().into_iter().filter(|(_, p)| !p.fixed);
        let tensors = free().map(|(_, parameter)| {
            let leaf = leaves.get(&parameter.id());
            leaf.zip(gradients.as_mut()).and_then(|(leaf, gradients)| leaf.grad_remove(gradients))
        });
        let tensors: Vec<Option<Tensor<1>>> = tensors.collect();
        if !tensors.is_empty() && tensors.iter().all(Option::is_none) {
            return Err(Error::Usage(
                "the loss depends on no free parameter of this scope: compute it in the scope that is asked for its \
                 gradient (a training scope), without `detach` or a way over the host"
                    .into(),
            ));
        }
        // In one tensor, so that the host waits for the device once.
        let loss = if loss.is_autodiff() { loss.inner() } else { loss };
        let mut all = vec![loss.cast(self.wide())];
        all.extend(tensors.iter().flatten().cloned());
        let numbers = to_f64(Tensor::cat(all, 0))?;
        let (value, mut rest) = numbers.split_at(1);
        let value = objective(value)?;
        let mut slopes = Vec::new();
        for ((path, parameter), tensor) in free().zip(tensors) {
            let slope = match tensor {
                Some(_) => {
                    let (own, others) = rest.split_at(parameter.len());
                    rest = others;
                    own.to_vec()
                }
                None => vec![0.0; parameter.len()],
            };
            if !all_finite(&slope) {
                return Err(Error::NotFinite(format!("the gradient in {path}")));
            }
            slopes.push(slope);
        }
        Ok((value, slopes))
    }
}

/// The gradient of a loss `[1]` in a tensor `x` that records gradients, in row-major order.
///
/// # Errors
/// [`Error::Shape`] for a loss of several values; [`Error::Usage`] for one that does not depend on `x`, and for one
/// whose graph was differentiated before; what the adjoints of operations report.
pub fn gradient_in<const D: usize>(loss: Tensor<1>, x: &Tensor<D>) -> Result<Vec<f64>> {
    one_value(&loss)?;
    let apart = || Error::Usage("the loss does not depend on the tensor that its gradient is asked in".into());
    if !loss.is_tracked() {
        return Err(apart());
    }
    // Errors of other graphs, of which nobody asked.
    host::failure();
    // burn panics if operations of the graph are gone.
    let gradients = catch_unwind(AssertUnwindSafe(|| loss.backward())).map_err(|_| host::differentiated())?;
    match host::failure() {
        Some(error) => Err(error),
        None => to_f64(x.grad(&gradients).ok_or_else(apart)?),
    }
}

fn one_value(loss: &Tensor<1>) -> Result<()> {
    if loss.dims() == [1] {
        return Ok(());
    }
    let got = format!("{:?}: a sum over the rows is missing", loss.dims());
    Err(Error::shape("the loss", "one value, `[1]`", got))
}

/// Positions as a tensor `[n]` of integers on a device.
pub(crate) fn indices(of: &[usize], device: &Device) -> Tensor<1, Int> {
    let of: Vec<i64> = of.iter().map(|&i| i as i64).collect();
    let (count, dtype) = (of.len(), if is_host(device) { DType::I64 } else { DType::I32 });
    upload(TensorData::new(of, [count]).convert_dtype(dtype), device, dtype)
}

/// The number in a tensor of one element.
///
/// # Errors
/// [`Error::NotFinite`] when it is not finite, [`Error::Device`] when it cannot be read.
pub fn scalar(tensor: Tensor<1>) -> Result<f64> {
    objective(&to_f64(tensor)?)
}

fn objective(numbers: &[f64]) -> Result<f64> {
    match numbers {
        [value] if value.is_finite() => Ok(*value),
        [_] => Err(Error::NotFinite("the objective".into())),
        other => Err(Error::shape("objective", "1 value", other.len().to_string())),
    }
}

/// Joins tensors along a dimension. A single one stays as it is.
pub fn joined<const D: usize>(mut parts: Vec<Tensor<D>>, along: usize) -> Tensor<D> {
    if parts.len() == 1 { parts.swap_remove(0) } else { Tensor::cat(parts, along) }
}

/// The entries of a tensor, in row-major order.
///
/// # Errors
/// [`Error::Device`] when the device cannot be read.
pub fn to_f64<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f64>> {
    read(tensor)?
        .convert::<f64>()
        .try_into_vec::<f64>()
        .map_err(|e| Error::Device(format!("unexpected tensor type: {e:?}")))
}
