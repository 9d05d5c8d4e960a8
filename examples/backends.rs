//! Runs one training on every device and in every precision that this build and this machine offer.
//!
//! ```sh
//! cargo run --release --example backends
//! cargo run --release --example backends --features wgpu
//! ```

use std::time::Instant;

use cagey::Result;
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::models::exact::ExactGp;
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::train::TrainConfig;

/// 300 points of a damped wave and a slope, with noise.
fn data() -> Result<Observations> {
    let n = 300;
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..n {
        // Two additive recurrences spread the points evenly.
        let (a, b) = ((i as f64 * 0.754_877_666).fract(), (i as f64 * 0.569_840_291).fract());
        let noise = (i as f64 * 0.618_033_989).fract() - 0.5;
        x.extend([4.0 * a, 4.0 * b]);
        y.push((3.0 * a).sin() * (-b).exp() + 0.5 * b + 0.1 * noise);
    }
    Observations::new(x, 2, y, None)
}

/// Returns the trained model's loss, its first lengthscale and the seconds of training.
fn train(compute: Compute, data: &Observations) -> Result<(f64, f64, f64)> {
    let start = Instant::now();
    let mut model = ExactGp::new(Kernel::parse("matern52(ard)", 2)?);
    let outcome = fit::fit(&mut model, compute, data, &TrainConfig::default(), &mut [])?;
    let lengthscale = model.prior.kernel.parameters()[0].1.values()[0];
    Ok((outcome.total_loss(), lengthscale, start.elapsed().as_secs_f64()))
}

fn main() -> Result<()> {
    let data = data()?;
    println!("device   dtype         loss   lengthscale   seconds");
    for kind in DeviceKind::ALL {
        for precision in [Precision::F64, Precision::F32] {
            let compute = Compute { kind, precision };
            print!("{:<8} {:<5}", kind.name(), precision.name());
            match compute.device() {
                Ok(_) => {
                    let (loss, lengthscale, seconds) = train(compute, &data)?;
                    println!(" {loss:>12.4} {lengthscale:>13.4} {seconds:>9.2}");
                }
                Err(reason) => println!(" {reason}"),
            }
        }
    }
    Ok(())
}
