//! A monthly series: which structure it has, and the two years after it, with intervals.
//!
//! ```sh
//! cargo run --release --example forecast
//! ```

use std::f64::consts::TAU;

use cagey::data::Dataset;
use cagey::device::Precision;
use cagey::fitted::Fit;

/// Passengers of an invented line in a month counted from January 2010: growth, a season that grows too, and chance.
fn passengers(month: usize) -> f64 {
    let t = month as f64;
    let season = (TAU * t / 12.0).sin() + 0.4 * (2.0 * TAU * t / 12.0).cos();
    let chance = ((month * month) % 17) as f64 / 17.0 - 0.5;
    (5.0 + 0.008 * t + 0.15 * season + 0.06 * chance).exp()
}

fn main() -> cagey::Result<()> {
    let (seen, horizon) = (96, 24);
    let year = |month: usize| 2010.0 + month as f64 / 12.0;
    let data = Dataset::new(["year"], (0..seen).map(year).collect())?
        .with_target("passengers", (0..seen).map(passengers).collect())?;
    let model = Fit::new(&data).kernel("auto").compute(cagey_examples::asked(Precision::F64)).run()?;
    println!("weight  structure");
    for member in model.members().iter().take(5) {
        println!("{:6.2}  {}", member.weight, member.name());
    }

    let ahead = model.ahead(horizon)?;
    let predictions = model.predict(&ahead.rows)?;
    println!("\n    year    mean  95 % interval    truth");
    let (mut squares, mut held) = (0.0, 0);
    for (i, prediction) in predictions.iter().enumerate() {
        let (mean, truth) = (prediction.mean(), passengers(seen + i));
        let [low, high] = [0.025, 0.975].map(|p| prediction.quantile(p));
        squares += (mean - truth).powi(2);
        held += usize::from((low..high).contains(&truth));
        if i % 3 == 0 {
            println!("{:8.2}  {mean:6.1}  {low:6.1} to {high:6.1}  {truth:6.1}", year(seen + i));
        }
    }
    println!("\nRMSE {:.1}; {held} of {horizon} months lie within", (squares / horizon as f64).sqrt());
    Ok(())
}
