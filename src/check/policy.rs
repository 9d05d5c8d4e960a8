//! Checks of a policy of IterGP.

use super::{Faults, compute, irregular};
use crate::device::Precision;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::{IterGpOptions, System, itergp};
use crate::solvers::policies::Policy;

const ROWS: usize = 12;
const ACTIONS: usize = 5;

/// Checks a policy on a small system: its actions are `[n, t]` in the scope's type and finite, two solves are equal,
/// more actions explain no less variance, and as many actions as rows solve the system.
///
/// # Errors
/// [`Error::Usage`](crate::Error::Usage) with the faults.
pub fn policy(policy: &dyn Policy) -> Result<()> {
    let mut faults = Faults::new(format!("the policy `{}`", policy.name()));
    let kernel = Kernel::parse("rbf(0.7)", 1)?;
    let scope = Scope::new(compute(Precision::F64))?;
    let x: Vec<f64> = (0..ROWS).map(|i| 0.4 * i as f64 + 0.05 * (i as f64).sin()).collect();
    let (y, noise) = (irregular(ROWS, 1.0), vec![0.1; ROWS]);
    let system = System::new(&kernel, &scope, scope.matrix(&x, ROWS, 1), scope.vector(&noise), scope.vector(&y))?;
    let solve = |budget: usize| {
        let solve = itergp(&system, policy, &IterGpOptions::budget(budget), None)?;
        let explained = solve.precision_times(&scope.matrix(&y, ROWS, 1))?;
        Ok((to_f64(solve.weights()?)?, to_f64(explained)?, solve.report.actions))
    };
    let both = faults.both(("a solve", solve(ACTIONS)), ("a solve", solve(ACTIONS)));
    let Some((one, other)) = both else { return faults.result() };
    faults.close("two solves differ", &one.0, &other.0, 0.0);
    faults.require((1..=ACTIONS).contains(&one.2), format!("{} actions, at most {ACTIONS} were asked for", one.2));
    let along = |found: &[f64]| found.iter().zip(&y).map(|(a, b)| a * b).sum::<f64>();
    if let Some(whole) = faults.value("a solve of all rows", solve(ROWS)) {
        faults.require(
            along(&whole.1) >= along(&one.1) * (1.0 - 1e-9),
            "more actions explain less variance than few: the actions do not span those of a shorter solve",
        );
        if whole.2 == ROWS {
            let gram = to_f64(kernel.gram(&scope, &scope.matrix(&x, ROWS, 1))?)?;
            let product: Vec<f64> = (0..ROWS)
                .map(|i| 0.1 * whole.0[i] + (0..ROWS).map(|j| gram[i * ROWS + j] * whole.0[j]).sum::<f64>())
                .collect();
            faults.close("as many actions as rows do not solve the system", &product, &y, 1e-6);
        }
    }
    faults.result()
}
