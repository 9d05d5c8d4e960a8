//! Failures that must not happen: NaN without a message, memory that grows with the steps, a library that decides for
//! the whole process. This program has an allocator of its own, as any that uses the library may.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use cagey::Error;
use cagey::data::{ReadOptions, read_training};
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::kernels::Kernel;
use cagey::models::cagp::{Actions, Cagp};
use cagey::models::exact::ExactGp;
use cagey::models::posterior::Posterior;
use cagey::models::{Model, Observations, fit};
use cagey::params::Parameters;
use cagey::products;
use cagey::scope::{Scope, to_f64};
use cagey::train::TrainConfig;

/// The system's allocator, which counts what it gives.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
static GIVEN: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        GIVEN.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn a_program_has_its_own_allocator_and_survives_a_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let rows: String = (0..30).map(|i| format!("{i},{}\n", (0.3 * f64::from(i)).sin())).collect();
    std::fs::write(&path, format!("x,y\n{rows}")).unwrap();
    let (schema, data) = read_training(&path, &ReadOptions::default()).unwrap();
    let before = GIVEN.load(Ordering::Relaxed);
    let config = TrainConfig { steps: 5, ..TrainConfig::default() };
    let fitted = Fitted::fit(schema, &data, Settings::default(), &config, &Registry::default(), &mut []).unwrap();
    assert!(fitted.summary.loss.is_finite());
    assert!(GIVEN.load(Ordering::Relaxed) > before);
    // No machine has so much memory. A program may ask and go on.
    assert!(Vec::<u8>::new().try_reserve_exact(1 << 60).is_err());
}

fn data(n: usize, d: usize, copies: usize) -> Observations {
    let row = |i: usize, k: usize| ((i * 7919 + k * 104_729) % 1000) as f64 / 250.0 - 2.0;
    let one: Vec<f64> = (0..n).flat_map(|i| (0..d).map(move |k| row(i, k))).collect();
    let x = one.repeat(copies);
    let y = x.chunks(d).map(|r| r[0].sin()).collect();
    Observations::new(x, d, y, None).unwrap()
}

/// Checks for a finite loss and gradient, or the error that names the matrix.
fn check(what: &str, model: &impl Model, compute: Compute, data: &Observations) {
    match fit::evaluate(model, compute, &data.batch(&Scope::new(compute).unwrap())) {
        Ok(evaluation) => {
            assert!(evaluation.loss.is_finite(), "{what}");
            assert!(evaluation.gradient.iter().all(|g| g.is_finite()), "{what}");
        }
        Err(Error::NotPositiveDefinite { finite, .. }) => assert!(finite, "{what}"),
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn ill_conditioned_models_are_finite_or_named() {
    let forms =
        ["rbf", "matern12", "matern32(ard)", "matern52", "rq", "periodic", "linear", "polynomial", "white + rbf"];
    for precision in [Precision::F64, Precision::F32] {
        let compute = Compute { kind: DeviceKind::Flex, precision };
        for copies in [1, 3] {
            let data = data(20, 2, copies);
            for text in forms {
                for (stretch, noise) in [(1.0, 1e-8), (1e3, 1e-8), (1e3, 0.1), (1e-3, 1e-8)] {
                    let mut kernel = Kernel::parse(text, 2).unwrap();
                    for (_, p) in kernel.parameters_mut().into_iter().filter(|(path, _)| path.ends_with("lengthscale"))
                    {
                        let values: Vec<f64> = p.values().iter().map(|v| v * stretch).collect();
                        p.set(&values).unwrap();
                    }
                    let what = format!("{text} × {stretch}, noise {noise}, {copies} copies, {}", precision.name());
                    let mut exact = ExactGp::new(kernel.clone());
                    exact.likelihood.noise.set(&[noise]).unwrap();
                    check(&what, &exact, compute, &data);
                    let mut cagp = Cagp::new(kernel, Actions::random(data.n(), 7, 1).unwrap());
                    cagp.find_mut("likelihood.noise").unwrap()[0].set(&[noise]).unwrap();
                    check(&what, &cagp, compute, &data);
                }
            }
        }
    }
}

#[test]
fn large_shapes_of_the_rational_quadratic_are_nearly_rbf() {
    for precision in [Precision::F64, Precision::F32] {
        let scope = Scope::new(Compute { kind: DeviceKind::Flex, precision }).unwrap();
        let x = scope.matrix(&[0.0, 0.3, 1.0, 2.5], 4, 1);
        let of = |text: &str, fused: bool| {
            let kernel = Kernel::parse(text, 1).unwrap();
            let gram =
                if fused { products::Covariance::new(&kernel, &scope, &x).matrix() } else { kernel.gram(&scope, &x) };
            to_f64(gram.unwrap()).unwrap()
        };
        for fused in [true, false] {
            let (near, limit) = (of("rq(alpha=1e8)", fused), of("rbf", fused));
            assert!(near.iter().zip(&limit).all(|(a, b)| (a - b).abs() < 1e-6), "{near:?} {limit:?}");
        }
    }
}

#[test]
fn samples_of_smooth_posteriors_in_single_precision() {
    let compute = Compute { kind: DeviceKind::Flex, precision: Precision::F32 };
    let x: Vec<f64> = (0..600).map(|i| f64::from(i) / 100.0).collect();
    let y = x.iter().map(|x| x.sin()).collect();
    let observations = Observations::new(x, 1, y, None).unwrap();
    let mut exact = ExactGp::new(Kernel::parse("rbf", 1).unwrap());
    exact.likelihood.noise.set(&[0.01]).unwrap();
    let posterior = exact.posterior(compute, observations).unwrap();
    let points: Vec<f64> = (0..200).map(|i| 0.03 * f64::from(i)).collect();
    let paths = posterior.sample(&points, 3, 0).unwrap();
    assert!(paths.iter().flatten().zip(points.iter().cycle()).all(|(f, x)| (f - x.sin()).abs() < 0.2));
}

/// Resident memory of this process in bytes, if the system reports it.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

#[test]
fn memory_is_flat_over_a_thousand_steps() {
    let data = data(60, 3, 1);
    let compute = Compute::default();
    let exact = ExactGp::new(Kernel::parse("matern32(ard) + periodic * rq", 3).unwrap());
    let cagp = Cagp::new(exact.prior.kernel.clone(), Actions::random(60, 8, 1).unwrap());
    let steps = |count: usize| {
        for _ in 0..count {
            fit::evaluate(&exact, compute, &data.batch(&Scope::new(compute).unwrap())).unwrap();
            fit::evaluate(&cagp, compute, &data.batch(&Scope::new(compute).unwrap())).unwrap();
        }
    };
    steps(100);
    let before = resident();
    steps(1000);
    if let (Some(before), Some(after)) = (before, resident()) {
        // A leak of one covariance per step would be 29 MB.
        assert!(after < before + (8 << 20), "grew from {before} to {after} bytes");
    }
}
