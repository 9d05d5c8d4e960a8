//! Transfers between host and device: every upload and read of a tensor goes through here and is counted.

use std::fmt::{self, Display, Formatter};
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::kind::Basic;
use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::Serialize;

use super::is_host;
use crate::error::{Error, Result};

static UP: AtomicU64 = AtomicU64::new(0);
static DOWN: AtomicU64 = AtomicU64::new(0);
static SYNCS: AtomicU64 = AtomicU64::new(0);

/// Bytes moved between host memory and devices with their own memory, and how often the host waited for a device. On
/// the CPU nothing moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Transfers {
    /// Bytes from the host to a device.
    pub up: u64,
    /// Bytes from a device to the host.
    pub down: u64,
    /// Reads; each waits until the device is done.
    pub syncs: u64,
}

impl Transfers {
    /// All transfers since the start of this process.
    pub fn so_far() -> Self {
        let [up, down, syncs] = [&UP, &DOWN, &SYNCS].map(|count| count.load(Ordering::Relaxed));
        Self { up, down, syncs }
    }

    /// Whether nothing was transferred.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Display for Transfers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [up, down] = [self.up, self.down].map(|bytes| bytes as f64 / 1e6);
        write!(f, "{up:.1} MB up, {down:.1} MB down, {} waits", self.syncs)
    }
}

impl Sub for Transfers {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { up: self.up - earlier.up, down: self.down - earlier.down, syncs: self.syncs - earlier.syncs }
    }
}

/// Counts an upload.
pub(crate) fn went_up(bytes: usize) {
    UP.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Counts a read.
pub(crate) fn came_down(bytes: usize) {
    DOWN.fetch_add(bytes as u64, Ordering::Relaxed);
    SYNCS.fetch_add(1, Ordering::Relaxed);
}

/// Uploads host numbers to a tensor on a device, in the given type.
pub fn upload<const D: usize, K: Basic>(data: TensorData, device: &Device, dtype: DType) -> Tensor<D, K> {
    if !is_host(device) {
        went_up(data.num_elements() * dtype.size());
    }
    Tensor::from_data(data, (device, dtype))
}

/// The numbers of a tensor, in its own type.
///
/// # Errors
/// [`Error::Device`] when the device cannot be read.
pub fn read<const D: usize>(tensor: Tensor<D>) -> Result<TensorData> {
    if !is_host(&tensor.device()) {
        came_down(tensor.shape().num_elements() * tensor.dtype().size());
    }
    tensor.try_into_data().map_err(|e| Error::Device(format!("reading a tensor back failed: {e:?}")))
}
