//! Models in a service: the cost of one row, and 10,000 requests from eight threads while the model is replaced.
//!
//! ```sh
//! cargo run --release --example service
//! taskset -c 0 cargo run --release --example service    # one core
//! ```

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use cagey::data::{Dataset, Schema};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::models::cagp::CagpOptions;
use cagey::models::exact::ExactOptions;
use cagey::models::options::ModelChoice;
use cagey::models::sgpr::SgprOptions;
use cagey::train::{Adam, Optimizer, TrainConfig};
use cagey::{ErrorKind, Result};

/// Input columns.
const D: usize = 4;
const REQUESTS: usize = 10_000;
const CLIENTS: usize = 8;

/// A number in 0..1, different for each `place`.
fn spread(place: usize) -> f64 {
    (place as f64 * 0.754_877_666_246_693).fract()
}

/// Rows of a smooth function with noise; `from` is the number of the first row.
fn rows(from: usize, n: usize) -> Result<Dataset> {
    let x: Vec<f64> = (from * D..(from + n) * D).map(|place| 4.0 * spread(place + place / D)).collect();
    let y =
        x.chunks(D).zip(from..).map(|(x, i)| x[0].sin() + x[1] * x[2].cos() - 0.3 * x[3] + 0.2 * (spread(7 * i) - 0.5));
    let y = y.collect();
    Dataset::new(["a", "b", "c", "d"], x)?.with_target("y", y)
}

/// A model after a few steps: its predictions cost as much as after many steps.
fn fit(model: impl Into<ModelChoice>, n: usize, steps: usize) -> Result<Fitted> {
    let data = rows(0, n)?;
    let settings = Settings { model: model.into(), store_factor: n <= 2000, ..Settings::default() };
    let config = TrainConfig::new(Optimizer::Adam(Adam::default()), steps);
    Fitted::fit(Schema::numeric(&data), &data, settings, &config, &Registry::default(), &mut [])
}

/// Whose processor time to measure.
#[derive(Clone, Copy)]
enum Whose {
    Thread,
    Process,
}

/// The processor time so far.
#[cfg(unix)]
fn processor(whose: Whose) -> Duration {
    let clock = match whose {
        Whose::Thread => libc::CLOCK_THREAD_CPUTIME_ID,
        Whose::Process => libc::CLOCK_PROCESS_CPUTIME_ID,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock writes to the place that it is given, and to nothing else.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Not measured on this system.
#[cfg(not(unix))]
fn processor(_whose: Whose) -> Duration {
    Duration::ZERO
}

/// Prints the seconds and the processor time of one call.
fn measure(what: &str, calls: usize, mut call: impl FnMut(usize) -> Result<()>) -> Result<()> {
    for i in 0..calls.div_ceil(10) {
        call(i)?;
    }
    let (start, before) = (Instant::now(), processor(Whose::Process));
    for i in 0..calls {
        call(i)?;
    }
    let milliseconds = |time: Duration| 1e3 * time.as_secs_f64() / calls as f64;
    let busy = processor(Whose::Process) - before;
    println!("{what:<44} {:>9.4} ms {:>9.4} ms", milliseconds(start.elapsed()), milliseconds(busy));
    Ok(())
}

/// One row of a request.
fn row(i: usize) -> [f64; D] {
    std::array::from_fn(|c| 4.0 * spread(1_000_003 + i * D + c))
}

/// Prints what one row costs each of the models.
fn latency(exact: &Fitted) -> Result<()> {
    println!("{:<44} {:>12} {:>12}", "one row", "time", "processor");
    let sgpr = fit(SgprOptions::default().inducing(512), 10_000, 2)?;
    let cagp = fit(CagpOptions::default().actions(256), 10_000, 2)?;
    let models =
        [("exact, n = 2,000", exact), ("sgpr, n = 10,000, m = 512", &sgpr), ("cagp, n = 10,000, i = 256", &cagp)];
    for (name, model) in models {
        measure(&format!("{name}: mean"), 1000, |i| model.predict_mean(&row(i)).map(drop))?;
        measure(&format!("{name}: mean and variance"), 300, |i| model.predict_rows(&row(i)).map(drop))?;
    }
    for count in [10, 1000] {
        let calls = 3000 / count;
        let some = |i: usize| (0..count).flat_map(|k| row(i * count + k)).collect::<Vec<_>>();
        measure(&format!("{}: {count} rows", models[2].0), calls, |i| cagp.predict_rows(&some(i)).map(drop))?;
    }
    for (name, model) in [("exact, n = 2,000", exact), ("sgpr, n = 10,000, m = 512", &sgpr)] {
        let mut grown = model.clone();
        measure(&format!("{name}: update by a row"), 50, |i| {
            grown = grown.update(&rows(20_000 + i, 1)?)?;
            Ok(())
        })?;
    }
    let (with, registry) = (exact.to_bytes()?, Registry::default());
    let mut without = exact.clone();
    without.settings.store_factor = false;
    let without = without.to_bytes()?;
    for (what, bytes) in [("with its factor", &with), ("without", &without)] {
        measure(&format!("exact, n = 2,000: load, {what}"), 5, |_| {
            Fitted::from_bytes(bytes, &registry, None).map(drop)
        })?;
    }
    Ok(())
}

/// Answers requests from several threads while another thread replaces the model, and prints how long requests took.
fn serve(models: &[Vec<u8>]) -> Result<()> {
    let registry = Registry::default();
    let serving = RwLock::new(Arc::new(Fitted::from_bytes(&models[0], &registry, None)?));
    let (next, done, replaced) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let start = Instant::now();
    let client = || -> Result<(Vec<Duration>, Duration)> {
        let before = processor(Whose::Thread);
        let mut taken = Vec::new();
        loop {
            let request = next.fetch_add(1, Ordering::Relaxed);
            if request >= REQUESTS {
                return Ok((taken, processor(Whose::Thread) - before));
            }
            let asked = Instant::now();
            // The model that was there when a request began answers it, even if it is replaced meanwhile.
            let model =
                serving.read().map(|model| Arc::clone(&model)).unwrap_or_else(|gone| Arc::clone(&gone.into_inner()));
            let mut x = row(request);
            if request % 100 == 0 {
                // The kind of the error says how to answer a bad request.
                x[0] = f64::NAN;
                assert!(model.predict_rows(&x).is_err_and(|error| error.kind() == ErrorKind::Request));
            } else {
                model.predict_rows(&x)?;
            }
            taken.push(asked.elapsed());
        }
    };
    let mut all = Vec::with_capacity(REQUESTS);
    let mut busy = Duration::ZERO;
    thread::scope(|scope| -> Result<()> {
        let reload = scope.spawn(|| -> Result<()> {
            for model in models.iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let fresh = Arc::new(Fitted::from_bytes(model, &registry, None)?);
                *serving.write().unwrap_or_else(|gone| gone.into_inner()) = fresh;
                replaced.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        });
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let answers: Vec<_> = clients.into_iter().map(|client| client.join().expect("no client panics")).collect();
        done.store(true, Ordering::Relaxed);
        reload.join().expect("no reload panics")?;
        for answer in answers {
            let (taken, time) = answer?;
            all.extend(taken);
            busy += time;
        }
        Ok(())
    })?;
    all.sort_unstable();
    let quantile = |p: f64| 1e3 * all[(p * (all.len() - 1) as f64) as usize].as_secs_f64();
    println!(
        "\n{} requests from {CLIENTS} threads in {:.2} s, the model replaced {} times: p50 {:.3} ms, p99 {:.3} ms, \
         processor {:.3} ms each",
        all.len(),
        start.elapsed().as_secs_f64(),
        replaced.load(Ordering::Relaxed),
        quantile(0.5),
        quantile(0.99),
        1e3 * busy.as_secs_f64() / all.len() as f64
    );
    Ok(())
}

fn main() -> Result<()> {
    println!("{} processors", thread::available_parallelism().map_or(1, usize::from));
    let exact = fit(ExactOptions::default(), 2000, 5)?;
    latency(&exact)?;
    let small = fit(ExactOptions::default(), 1500, 5)?;
    serve(&[exact.to_bytes()?, small.to_bytes()?])
}
