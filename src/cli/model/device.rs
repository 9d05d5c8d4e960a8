//! Where a command computes.

use std::str::FromStr;

use cagey::Result;
use cagey::device::{Algebra, Compute, DeviceKind, Precision, limit_memory, set_algebra};
use clap::Args;

use crate::cli::report;
use crate::values;

/// Options of the device.
#[derive(Debug, Clone, Args)]
pub struct DeviceOptions {
    /// Device: flex (CPU), ndarray (CPU), wgpu or cuda (GPU), or auto: the first GPU that works, else the CPU; see
    /// `cagey devices`
    #[arg(long, value_name = "NAME")]
    device: Option<Choice>,
    /// Number type: f32 or f64; f64 on the CPU and f32 on GPUs by default
    #[arg(long)]
    dtype: Option<Precision>,
    /// Where matrices are factorised and solved with, for GPUs without f64
    #[arg(long, value_enum, default_value_t)]
    algebra: Algebra,
    /// Memory of the GPU to plan with, such as 8GB; what it reports by default
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
        let unknown = |_| format!("unknown device `{text}`; use auto, flex, ndarray, wgpu or cuda");
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Kind).map_err(unknown) }
    }
}

impl DeviceOptions {
    /// The device and number type, with the choices that hold for the whole process made.
    pub fn choose(&self) -> Compute {
        set_algebra(self.algebra);
        self.device_memory.into_iter().for_each(limit_memory);
        match self.device {
            Some(Choice::Kind(kind)) => Compute::new(kind, self.dtype),
            Some(Choice::Auto) => Compute::automatic(self.dtype),
            None => Compute::new(Compute::default().kind, self.dtype),
        }
    }

    /// Says which device was taken, where that was left open.
    pub fn announce(&self, compute: Compute) {
        if matches!(self.device, Some(Choice::Auto)) {
            report::say(&format!("--device auto: {}", described(compute)));
        }
    }
}

/// A device as its kind, the name of the hardware and the number type.
fn described(Compute { kind, precision }: Compute) -> String {
    let adapter = kind.adapter().map_or_else(String::new, |name| format!(" on {name}"));
    format!("{}{adapter}, {}", kind.name(), precision.name())
}

/// What is to be known before a training on a GPU: which it is, and where it factorises.
///
/// # Errors
/// [`Device`](cagey::Error::Device) when it is not there.
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
