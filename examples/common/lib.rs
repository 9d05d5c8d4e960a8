//! The device that an example computes on.

use cagey::device::{Compute, DeviceKind, Precision};

/// Device and number type.
#[derive(clap::Args, Clone, Copy)]
pub struct Device {
    /// Device: flex, ndarray, wgpu, cuda or rocm, if cagey is built with it
    #[arg(long, value_name = "NAME", default_value = "flex")]
    device: DeviceKind,
    /// Number type: f32 or f64 [default: what the example needs, and f32 on GPUs]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Precision>,
}

/// The device that the command line of an example without other options asks for.
pub fn asked(usual: Precision) -> Compute {
    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        device: Device,
    }
    <Options as clap::Parser>::parse().device.compute(usual)
}

impl Device {
    /// Where to compute; `usual` is the number type on CPUs.
    pub fn compute(&self, usual: Precision) -> Compute {
        let usual = self.device.is_cpu().then_some(usual);
        Compute::new(self.device, self.dtype.or(usual))
    }
}
