//! Adam for parameters of which a step sees few: only those are touched, at a cost that does not know how many there
//! are.

use super::Adam;

/// Lazy Adam: moments of parameters that a step does not see keep their values, bias corrections count all steps.
///
/// Where every step sees all parameters it is [`Adam`].
#[derive(Clone, Debug)]
pub struct SparseAdam {
    settings: Adam,
    updates: usize,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl SparseAdam {
    /// An optimiser of `count` parameters; of the settings, `clip` has no part in it.
    pub fn new(settings: Adam, count: usize) -> Self {
        Self { settings, updates: 0, first: vec![0.0; count], second: vec![0.0; count] }
    }

    /// Moves the parameters at `active` (no index twice) against their `gradient`; `factor` multiplies the learning
    /// rate, `steps` is the length of the schedule.
    pub fn step(&mut self, values: &mut [f64], active: &[u32], gradient: &[f64], factor: f64, steps: usize) {
        let Adam { rate, beta1, beta2, epsilon, .. } = self.settings;
        let rate = factor * rate * self.settings.schedule.factor(self.updates, steps);
        self.updates += 1;
        let correction1 = 1.0 - beta1.powf(self.updates as f64);
        let correction2 = 1.0 - beta2.powf(self.updates as f64);
        for (&i, g) in active.iter().zip(gradient) {
            let (m, v) = (&mut self.first[i as usize], &mut self.second[i as usize]);
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            values[i as usize] -= rate * (*m / correction1) / ((*v / correction2).sqrt() + epsilon);
        }
    }
}
