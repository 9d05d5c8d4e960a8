//! `cagey devices`

use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use cagey::Result;
use cagey::device::{Algebra, Compute, DeviceKind, Precision, set_algebra};
use cagey::kernels::Kernel;
use cagey::linalg::cholesky;
use cagey::products::Covariance;
use cagey::scope::{Scope, scalar};
use clap::Args;

use super::{report, settings};

/// List the devices of this build and machine, and measure them: for each number type, a second of covariance products
/// and a Cholesky factorisation
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cagey devices
  cagey devices --no-rates
  cagey fit data.csv --device auto -o model.cagey")]
pub struct Devices {
    /// Measure nothing
    #[arg(long)]
    no_rates: bool,
}

impl Devices {
    /// Tries each kind of device.
    pub fn run(self) -> Result<()> {
        // Measures what the device itself can do.
        set_algebra(Algebra::Device);
        let default = Compute::default().kind;
        let mut rows = Vec::new();
        for kind in DeviceKind::ALL {
            let offers = |precision| Compute { kind, precision }.device();
            let state = match (offers(Precision::F32), offers(Precision::F64)) {
                (Ok(_), Ok(_)) => "f32, f64".to_string(),
                (Ok(_), Err(_)) => "f32".to_string(),
                (Err(error), _) => settings::error(&error),
            };
            let adapter = kind.adapter().map(|name| format!(" on {name}")).unwrap_or_default();
            let memory = kind.memory().map(|bytes| format!(", {:.1} GB", bytes as f64 / 1e9)).unwrap_or_default();
            let mark = if kind == default { " (default)" } else { "" };
            rows.push((kind.name().to_string(), state + &adapter + &memory + mark));
            for precision in [Precision::F32, Precision::F64] {
                if !self.no_rates && offers(precision).is_ok() {
                    rows.push((format!("  {}", precision.name()), rates(Compute { kind, precision })?));
                }
            }
        }
        report::print(&report::table(&rows))
    }
}

/// Input columns of the products that are measured.
const COLUMNS: usize = 8;
/// Order of the matrix that is factorised.
const ORDER: usize = 2048;
/// Rows of the largest product.
const MOST: usize = 1 << 18;

/// Measures how fast a device is.
fn rates(compute: Compute) -> Result<String> {
    let scope = Scope::new(compute)?;
    let kernel = Kernel::parse("matern32", COLUMNS)?;
    let inputs = |n: usize| {
        let numbers: Vec<f64> = (0..n * COLUMNS).map(|i| (i as f64 * 0.618_033_988_75).fract() * 3.0).collect();
        scope.matrix(&numbers, n, COLUMNS)
    };
    let product = |x: &Tensor<2>| {
        let ones = Tensor::ones([x.dims()[0], 1], (scope.device(), scope.dtype()));
        scalar(Covariance::new(&kernel, &scope, x).times(&ones)?.sum())
    };
    let (begin, mut n, mut pairs) = (Instant::now(), 1024, 0.0f64);
    // The first product of each size may compile.
    while begin.elapsed() < Duration::from_secs(1) || pairs == 0.0 {
        let x = inputs(n);
        product(&x)?;
        let start = Instant::now();
        product(&x)?;
        let seconds = start.elapsed().as_secs_f64();
        pairs = pairs.max((n * n) as f64 / seconds);
        n = if seconds < 0.1 { (2 * n).min(MOST) } else { n };
    }
    let x = inputs(ORDER);
    let eye = Tensor::<2>::eye(ORDER, scope.device()).cast(scope.dtype());
    let matrix = Covariance::new(&kernel, &scope, &x).matrix()? + eye;
    let factorised = || scalar(cholesky(matrix.clone(), "K")?.sum());
    factorised()?;
    let start = Instant::now();
    factorised()?;
    let operations = (ORDER as f64).powi(3) / 3.0 / start.elapsed().as_secs_f64();
    Ok(format!("{:.3} G pairs/s in products, {:.1} GF/s in a Cholesky factorisation", pairs / 1e9, operations / 1e9))
}
