//! Starting values, checks and warnings that follow from targets and the support of a density.

use super::{Density, Row, Support};

/// The mean of targets.
pub(super) fn level(y: &[f64]) -> f64 {
    y.iter().sum::<f64>() / y.len().max(1) as f64
}

/// The variance of targets, 1 for constant ones.
pub(super) fn spread(y: &[f64]) -> f64 {
    let centre = level(y);
    let variance = y.iter().map(|y| (y - centre).powi(2)).sum::<f64>() / y.len().max(1) as f64;
    if variance > 0.0 { variance } else { 1.0 }
}

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

/// What is wrong with a target outside the support, and what to do about it.
pub(super) fn problem(support: Support, y: f64, name: &str) -> String {
    match (support, y) {
        (Support::Positive, 0.0) => format!(
            "is 0, but the {name} likelihood takes positive targets; move zeros to half the smallest value that can be \
             measured, or leave such rows out"
        ),
        (Support::Positive, _) => {
            format!("is negative, but the {name} likelihood takes positive targets; choose gaussian for such data")
        }
        (Support::Counts(Some(last)), y) if y > last => {
            format!("exceeds {last}, the largest count of the {name} likelihood")
        }
        (Support::Counts(_), y) if y < 0.0 => {
            "is negative, but counts are 0, 1, 2, …; choose the gaussian likelihood for real targets".into()
        }
        (Support::Counts(_), _) => "is no whole number, but counts are 0, 1, 2, …; give rates as counts with an \
                                    exposure column, or choose the gamma or gaussian likelihood"
            .into(),
        (Support::Classes(classes), y) => {
            let advice = match (classes, y) {
                (2, -1.0) => "code the classes -1 and 1 as 0 and 1",
                (2, _) => "for more classes choose the softmax likelihood, for counts poisson",
                _ => "code the classes in this way without gaps",
            };
            format!("is no class: the {name} likelihood takes 0 to {}; {advice}", classes - 1)
        }
        _ => format!("is outside the range of the {name} likelihood, which lies strictly between 0 and 1"),
    }
}

/// Warns of classes without rows, and of counts that are all 0.
pub(super) fn warnings(support: Support, y: &[f64]) -> Vec<String> {
    match support {
        Support::Counts(None) if y.iter().all(|y| *y == 0.0) => vec![format!(
            "all {} counts are 0: only an upper limit of the rate can be learned; check the target column",
            y.len()
        )],
        Support::Classes(classes) => {
            let missing = (0..classes).filter(|c| !y.contains(&(*c as f64))).map(|c| c.to_string());
            let missing: Vec<String> = missing.collect();
            if missing.len() + 1 == classes {
                return vec!["all targets are of one class: there is nothing to learn; check the target column".into()];
            }
            let text = format!(
                "no target is of class {}: nothing can be learned about it; check the target column or use fewer \
                 classes",
                missing.join(", ")
            );
            if missing.is_empty() { Vec::new() } else { vec![text] }
        }
        _ => Vec::new(),
    }
}
