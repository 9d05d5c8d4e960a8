//! The device that a command computes on.

use std::str::FromStr;

use cagey::Result;
use cagey::device::{Algebra, Compute, DeviceKind, Precision, limit_memory, set_algebra};
use clap::Args;

use crate::cli::report;
use crate::values;

/// Options of the device.
#[derive(Debug, Clone, Args)]
pub struct DeviceOptions {
    /// Device: flex (CPU), ndarray (CPU), wgpu, cuda or rocm (GPU), or auto: the first GPU that works, else the CPU;
    /// see `cagey devices`
    #[arg(long, value_name = "NAME")]
    device: Option<Choice>,
    /// Number type: f32 or f64; f64 on the CPU and f32 on GPUs by default
    #[arg(long)]
    dtype: Option<Precision>,
    /// Where matrices are factorised and linear systems are solved, for GPUs without f64
    #[arg(long, value_enum, default_value_t)]
    algebra: Algebra,
    /// Memory of the GPU to plan with, such as 8GB; by default what the GPU reports
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    device_memory: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Choice {
    Auto,
    Kind(DeviceKind),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown = |_| format!("unknown device `{text}`; use auto, flex, ndarray, wgpu, cuda or rocm");
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Kind).map_err(unknown) }
    }
}

impl DeviceOptions {
    /// Returns the device and number type. Also makes the choices that hold for the whole process.
    pub fn choose(&self) -> Compute {
        set_algebra(self.algebra);
        self.device_memory.into_iter().for_each(limit_memory);
        match self.device {
            Some(Choice::Kind(kind)) => Compute::new(kind, self.dtype),
            Some(Choice::Auto) => Compute::automatic(self.dtype),
            None => Compute::new(Compute::default().kind, self.dtype),
        }
    }

    /// Prints which device was chosen, if the user asked for `auto`.
    pub fn announce(&self, compute: Compute) {
        if matches!(self.device, Some(Choice::Auto)) {
            report::say(&format!("--device auto: {}", described(compute)));
        }
    }
}

/// Describes a device by its kind, the name of the hardware and the number type.
fn described(Compute { kind, precision }: Compute) -> String {
    let adapter = kind.adapter().map_or_else(String::new, |name| format!(" on {name}"));
    format!("{}{adapter}, {}", kind.name(), precision.name())
}

/// A note to print before training on a GPU: which one it is, and where matrices are factorised.
///
/// # Errors
/// [`Device`](cagey::Error::Device) if it is not available.
pub fn on_gpu(compute: Compute) -> Result<Option<String>> {
    let device = compute.device()?;
    if compute.kind.is_cpu() {
        return Ok(None);
    }
    let algebra = if compute.kind.has_f64(&device) {
        "matrices factorised there in f64".to_string()
    } else {
        match cagey::device::algebra() {
            Algebra::Host => "matrices factorised on the host in f64".into(),
            Algebra::Device => "matrices factorised there in f32".into(),
            _ => format!(
                "matrices up to order {} factorised on the host in f64, larger ones there in f32 (--algebra chooses)",
                Algebra::LARGEST_ON_HOST
            ),
        }
    };
    Ok(Some(format!("{}: {algebra}", described(compute))))
}
