//! Devices and number types, chosen at run time; transfers to a device and back.

mod algebra;
mod memory;
pub mod transfers;

use std::str::FromStr;
use std::sync::OnceLock;

#[cfg(feature = "gpu")]
use burn::tensor::DeviceType;
use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

pub use algebra::{Algebra, algebra, set_algebra};
pub use memory::limit_memory;
pub(crate) use memory::memory_limit;
pub use transfers::Transfers;

use crate::error::{Error, Result};

/// A kind of device that cagey can compute on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DeviceKind {
    /// The CPU, through burn's pure-Rust backend (the default).
    Flex,
    /// The CPU, through ndarray.
    Ndarray,
    /// A GPU through Vulkan, Metal, DirectX or WebGPU.
    Wgpu,
    /// An NVIDIA GPU through CUDA.
    Cuda,
    /// An AMD GPU through ROCm.
    Rocm,
}

/// The precision of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
}

/// Where and in which precision to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compute {
    /// The kind of device.
    pub kind: DeviceKind,
    /// The precision of data and kernel algebra.
    pub precision: Precision,
}

/// Keeps burn from looking for `burn.toml`, and cubecl for `cubecl.toml`, in the working directory and every folder
/// above it, for the whole process. Programs that may start in any directory call this before anything else. A library
/// must not take this decision for them.
pub fn ignore_settings_files() {
    use burn_std::config::RuntimeConfig;

    // Settings that exist already stay.
    let _ = burn::BurnConfig::try_set(burn::BurnConfig::default());
    #[cfg(feature = "gpu")]
    let _ = burn::cubecl::config::CubeClRuntimeConfig::try_set(Default::default());
}

impl DeviceKind {
    /// All kinds, whether or not this build has them.
    pub const ALL: [Self; 5] = [Self::Flex, Self::Ndarray, Self::Wgpu, Self::Cuda, Self::Rocm];

    /// The name on the command line, which is also the cargo feature that adds this kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Ndarray => "ndarray",
            Self::Wgpu => "wgpu",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
        }
    }

    /// Whether this is the CPU, where host memory is device memory.
    pub fn is_cpu(self) -> bool {
        matches!(self, Self::Flex | Self::Ndarray)
    }

    /// Whether this build includes it.
    pub fn is_built(self) -> bool {
        match self {
            Self::Flex => cfg!(feature = "flex"),
            Self::Ndarray => cfg!(feature = "ndarray"),
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Rocm => cfg!(feature = "rocm"),
        }
    }

    /// The kind of an opened device.
    #[cfg(feature = "gpu")]
    pub(crate) fn of(device: &Device) -> Option<Self> {
        let device = device.clone().inner();
        Self::ALL.into_iter().filter(|kind| kind.is_built()).find(|kind| kind.device().is_ok_and(|own| own == device))
    }

    /// The burn device, opened at the first call.
    ///
    /// # Errors
    /// [`Error::Device`] when this build lacks the feature or the machine has no such device.
    pub fn device(self) -> Result<Device> {
        static OPENED: [OnceLock<Option<Device>>; DeviceKind::ALL.len()] =
            [const { OnceLock::new() }; DeviceKind::ALL.len()];
        let name = self.name();
        if !self.is_built() {
            return Err(Error::Device(format!("this build has no `{name}`; build with `--features {name}`")));
        }
        OPENED[self as usize]
            .get_or_init(|| self.open())
            .clone()
            .ok_or_else(|| Error::Device(format!("`{name}` is built in, but no such device answers on this machine")))
    }

    /// Whether f64 arithmetic gives correct results: a known sum is computed once and compared. Never on `wgpu`, whose
    /// shaders have no logarithm of an f64: there the sum itself would lose the device on drivers that have the type.
    pub fn has_f64(self, device: &Device) -> bool {
        match self {
            Self::Flex | Self::Ndarray => return true,
            Self::Wgpu => return false,
            Self::Cuda | Self::Rocm => {}
        }
        static ANSWERS: [OnceLock<bool>; DeviceKind::ALL.len()] = [const { OnceLock::new() }; DeviceKind::ALL.len()];
        *ANSWERS[self as usize].get_or_init(|| {
            if !device.supports_dtype(DType::F64) {
                return false;
            }
            let known = [0.1f64, 1.5, -2.25, 3.0];
            let probe = std::panic::catch_unwind(|| {
                let x = Tensor::<1>::from_data(TensorData::from(known), (device, DType::F64));
                let square = x.clone().unsqueeze_dim::<2>(1).matmul(x.clone().unsqueeze_dim::<2>(0));
                let logarithms = x.clone().powi_scalar(2).log();
                (x.exp().sum() + square.sum() + logarithms.sum()).try_into_data().ok()?.try_into_vec::<f64>().ok()
            });
            let want = known.iter().map(|v| v.exp()).sum::<f64>()
                + known.iter().sum::<f64>().powi(2)
                + known.iter().map(|v| (v * v).ln()).sum::<f64>();
            matches!(probe, Ok(Some(got)) if got.len() == 1 && (got[0] - want).abs() < 1e-12 * want)
        })
    }

    /// The name that the hardware reports, if the device exists and reports one.
    pub fn adapter(self) -> Option<String> {
        #[cfg(feature = "gpu")]
        {
            self.device().ok()?.identity().map(|identity| identity.name)
        }
        #[cfg(not(feature = "gpu"))]
        None
    }

    /// Whether this is a physical card, not software that emulates one.
    fn is_card(self) -> bool {
        #[cfg(feature = "gpu")]
        {
            self.device().is_ok_and(|device| device.identity().is_some_and(|identity| identity.physical.is_some()))
        }
        #[cfg(not(feature = "gpu"))]
        false
    }

    /// The device, after a test computation: a driver may be present but unusable, and burn then panics.
    fn open(self) -> Option<Device> {
        std::panic::catch_unwind(|| {
            let device = self.find()?;
            Tensor::<1>::from_data(TensorData::from([1.0f32]), (&device, DType::F32)).try_into_data().ok()?;
            Some(device)
        })
        .ok()
        .flatten()
    }

    /// The device, if the machine has one. Listing devices first is quiet; opening a device that does not exist panics.
    fn find(self) -> Option<Device> {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => Some(Device::flex()),
            #[cfg(feature = "ndarray")]
            Self::Ndarray => Some(Device::ndarray()),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => (!Device::enumerate(DeviceType::Wgpu).is_empty())
                .then(|| Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "cuda")]
            Self::Cuda => Device::enumerate(DeviceType::Cuda).first().cloned(),
            #[cfg(feature = "rocm")]
            Self::Rocm => Device::enumerate(DeviceType::Rocm).first().cloned(),
            #[allow(unreachable_patterns)] // which arms exist depends on the features of the build
            _ => None,
        }
    }
}

/// Whether a device uses the host's memory.
#[cfg(feature = "gpu")]
#[doc(hidden)]
pub fn is_host(device: &Device) -> bool {
    !matches!(device.clone().inner().as_dispatch(), burn::backend::DispatchDevice::Cube(_))
}

/// Whether a device uses the host's memory.
#[cfg(not(feature = "gpu"))]
#[doc(hidden)]
pub fn is_host(_device: &Device) -> bool {
    true
}

impl Precision {
    /// Bytes per number.
    pub fn bytes(self) -> usize {
        self.dtype().size()
    }

    /// Its name in burn.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F64 => DType::F64,
        }
    }

    /// `f32` or `f64`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

impl Default for Compute {
    fn default() -> Self {
        let kind = if cfg!(feature = "flex") { DeviceKind::Flex } else { DeviceKind::Ndarray };
        Self { kind, precision: Precision::F64 }
    }
}

impl Compute {
    /// The device and precision with these names; the default precision is f64 on the CPU and f32 on GPUs.
    pub fn new(kind: DeviceKind, precision: Option<Precision>) -> Self {
        let default = if kind.is_cpu() { Precision::F64 } else { Precision::F32 };
        Self { kind, precision: precision.unwrap_or(default) }
    }

    /// The first GPU of this build and machine that offers the precision (by default f32); otherwise the default
    /// device. Ignores software that emulates a GPU.
    pub fn automatic(precision: Option<Precision>) -> Self {
        let of = |kind| Self::new(kind, precision);
        let gpus = [DeviceKind::Cuda, DeviceKind::Rocm, DeviceKind::Wgpu].into_iter().map(of);
        gpus.filter(|gpu| gpu.device().is_ok())
            .find(|gpu| gpu.kind.is_card())
            .unwrap_or_else(|| of(Self::default().kind))
    }

    /// The burn device, after a check that it offers the precision.
    ///
    /// # Errors
    /// [`Error::Device`] when it is not built in, not on this machine, or lacks f64.
    pub fn device(&self) -> Result<Device> {
        let device = self.kind.device()?;
        let offered = match self.precision {
            Precision::F32 => device.supports_dtype(DType::F32),
            Precision::F64 => self.kind.has_f64(&device),
        };
        if offered {
            Ok(device)
        } else {
            let (kind, precision) = (self.kind.name(), self.precision.name());
            Err(Error::Device(format!("`{kind}` has no {precision} on this machine; use f32 or a CPU device"))
                .set("Compute::precision", "f32"))
        }
    }
}

impl FromStr for DeviceKind {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|k| k.name() == text)
            .ok_or_else(|| Error::Usage(format!("unknown device `{text}`; use flex, ndarray, wgpu, cuda or rocm")))
    }
}

impl FromStr for Precision {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "f32" => Ok(Self::F32),
            "f64" => Ok(Self::F64),
            _ => Err(Error::Usage(format!("unknown dtype `{text}`; use f32 or f64"))),
        }
    }
}
