//! Starting values and checks that follow from a density.

use super::Row;
use super::{Density, Support};
use super::{class_problem, count_problem, positive_problem};

/// Rows that are enough for a level.
const ROWS: usize = 1000;

/// The constant latent functions `[L]` under which targets are most likely, by Newton's method from 0 with steps in
/// each function that shrink until they lead up.
pub(super) fn constant(density: &dyn Density, rows: impl Iterator<Item = Row> + Clone) -> Vec<f64> {
    let (latents, stride) = (density.latents(), rows.clone().count().div_ceil(ROWS).max(1));
    let rows: Vec<Row> = rows.step_by(stride).collect();
    let total = |f: &[f64]| rows.iter().map(|row| density.log_density(*row, f)).sum::<f64>();
    let mut f = vec![0.0; latents];
    let mut value = total(&f);
    for _ in 0..50 {
        let (mut gradient, mut curvature) = (vec![0.0; latents], vec![0.0; latents]);
        let (mut first, mut second, mut d) = (vec![0.0; latents], vec![0.0; latents * latents], vec![0.0; latents]);
        for row in &rows {
            density.derivatives(*row, &f, &mut first, &mut second);
            density.curvature(*row, &f, &mut d);
            gradient.iter_mut().zip(&first).for_each(|(sum, g)| *sum += g);
            curvature.iter_mut().zip(&d).for_each(|(sum, d)| *sum += d);
        }
        let mut step: Vec<f64> = gradient.iter().zip(&curvature).map(|(g, d)| g / d.max(1e-6)).collect();
        let mut moved = false;
        for _ in 0..40 {
            let next: Vec<f64> = f.iter().zip(&step).map(|(f, step)| f + step).collect();
            let there = total(&next);
            if there > value {
                (f, value, moved) = (next, there, true);
                break;
            }
            step.iter_mut().for_each(|step| *step *= 0.5);
        }
        if !moved || step.iter().all(|step| step.abs() < 1e-6) {
            break;
        }
    }
    f
}

/// What is wrong with a target outside the support.
pub(super) fn problem(support: Support, y: f64, name: &str) -> Result<(), String> {
    match support {
        Support::Positive => positive_problem(y, name),
        Support::Counts(Some(last)) if y > last => {
            Err(format!("exceeds {last}, the largest count of the {name} likelihood"))
        }
        Support::Counts(_) => count_problem(y),
        Support::Classes(classes) => class_problem(y, classes, name),
        _ => Err(format!("is outside the range of the {name} likelihood, which lies strictly between 0 and 1")),
    }
}
