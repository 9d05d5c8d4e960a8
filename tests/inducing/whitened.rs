//! The triangle that predicts many rows of a variational posterior, and its rounding.

use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::linalg::Factor;
use cagey::models::posterior::Posterior;
use cagey::models::prior::Prior;
use cagey::models::sparse::whitened::{ROUNDING, Root, WhitenedPosterior};

#[test]
fn values_that_vary_less_than_a_priori_are_contracted() {
    let diagonal = |value: f64| (0..25).map(|e| if e % 6 == 0 { value } else { 0.0 }).collect::<Vec<f64>>();
    let compute = Compute { kind: DeviceKind::Flex, precision: Precision::F64 };
    for (sd, contracted) in [(0.5, true), (1.0, true), (1.5, false)] {
        let prior = Prior::from(Kernel::parse("rbf", 1).unwrap());
        let (z, root) = (vec![0.0, 1.0, 2.0, 3.0, 4.0], Root::Lower(diagonal(sd)));
        let posterior = WhitenedPosterior::new(prior, compute, (z, 1), diagonal(1.0), vec![0.1; 5], root);
        assert_eq!(posterior.contracts(5).is_some(), contracted, "{sd}");
        assert!(posterior.contracts(4).is_none(), "few rows do not pay for it");
    }
}
#[test]
fn many_rows_of_a_single_precision_model_lose_little_of_their_variance() {
    let kernel = Kernel::parse("rbf", 1).unwrap();
    // Years: covariances are rounded, not distances.
    let x: Vec<f64> = (0..60).map(|i| 2000.0 + f64::from(i) / 8.0).collect();
    // Some values are known so well that variances near them are below what f32 resolves, others are not.
    for (spacing, sd) in [(1.0, 0.3), (0.125, 0.3), (1.0, 1e-4)] {
        let m = 8;
        let z: Vec<f64> = (0..m).map(|i| 2000.0 + spacing * f64::from(i)).collect();
        let covariance = z.iter().flat_map(|a| z.iter().map(move |b| (-0.5 * (a - b) * (a - b)).exp()));
        let lower = Factor::new(covariance.collect(), "K").unwrap().lower();
        let spread = (0..m * m).map(|e| if e % (m + 1) == 0 { sd } else { 0.0 }).collect::<Vec<f64>>();
        let whitened: Vec<f64> = (0..m).map(|i| f64::from(i).sin()).collect();
        let [coarse, fine] = [Precision::F32, Precision::F64].map(|precision| {
            let compute = Compute { kind: DeviceKind::Flex, precision };
            let (z, root) = ((z.clone(), 1), Root::Lower(spread.clone()));
            let prior = Prior::from(kernel.clone());
            let posterior = WhitenedPosterior::new(prior, compute, z, lower.clone(), whitened.clone(), root);
            let single = posterior.contracts(x.len()).unwrap() == Precision::F32;
            assert_eq!(single, precision == Precision::F32 && spacing == 1.0);
            posterior.predict(&x).unwrap()
        });
        for (coarse, fine) in coarse.mean.iter().zip(&fine.mean) {
            assert!((coarse - fine).abs() < 1e-6, "{spacing} {sd}: {coarse} {fine}");
        }
        for (coarse, fine) in coarse.variance.iter().zip(&fine.variance) {
            assert!((coarse - fine).abs() < ROUNDING * fine, "{spacing} {sd}: {coarse} {fine}");
        }
    }
}
