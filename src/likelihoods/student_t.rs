//! y = f(x) + σ t, where t has Student's distribution: outliers have little influence.

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::student_t::Student;
use cagey_base::likelihoods::{Row, Targets};

use super::{Likelihood, level, spread};
use crate::params::{Constraint, Parameter, Unit, shown};

/// Student-t noise.
///
/// The log density is not concave: its second derivative is positive beyond `|y − f| = σ√ν`.
#[derive(Debug, Clone)]
pub struct StudentT {
    /// σ², the squared scale; the variance is `σ² ν/(ν − 2)`.
    pub noise: Parameter,
    /// Degrees of freedom ν, above 1.
    pub df: Parameter,
}

impl StudentT {
    /// Makes noise with an initial squared scale in user units and initial degrees of freedom.
    pub fn new(noise: f64, df: f64) -> Self {
        Self {
            noise: Parameter::new("noise", Unit::Variance, Constraint::Positive { floor: 1e-6 }, &[noise]),
            df: Parameter::new("df", Unit::None, Constraint::Positive { floor: 1.0 }, &[df]),
        }
    }
}

crate::parameters!(StudentT { "noise": noise, "df": df });

impl Likelihood for StudentT {
    fn text(&self) -> String {
        format!("student-t({})", shown(self.df.values()[0]))
    }

    fn scaled(&self) -> bool {
        true
    }

    fn set_units(&mut self, target_sd: f64) {
        self.noise.put_scale(vec![target_sd * target_sd], 0.0);
    }

    fn check_row(&self, _row: Row) -> Result<(), String> {
        Ok(())
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        if !self.noise.given {
            self.noise.put_internal(&[0.1 * spread(targets.y)]);
        }
        vec![level(targets.y)]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Student { own: [self.noise.internal()[0], self.df.internal()[0]] })
    }
}
