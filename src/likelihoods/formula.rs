//! Formulas that a GPU knows, by name.

#[cfg(feature = "gpu")]
use super::targets::Auxiliary;

/// The formula with which a GPU computes the expected log density of a row. Each takes some numbers of the
/// [density](super::Density).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Formula {
    /// Gaussian: the noise variance.
    Normal,
    /// Gaussian with the logarithm of the noise's factor as second latent function: the noise variance.
    VaryingNormal,
    /// Student-t: squared scale, degrees of freedom, log density at the centre and its slope in the degrees of freedom.
    Student,
    /// Labels 0 and 1 by the logistic function.
    Logistic,
    /// Labels 0 and 1 by the normal distribution function.
    Probit,
    /// Successes of trials by the logistic function.
    Binomial,
    /// Ordered classes: the cut points.
    Ordered,
    /// Counts with rate exp(f).
    Poisson,
    /// Counts with rate ln(1 + exp(f)).
    SoftplusPoisson,
    /// Overdispersed counts with mean exp(f): the dispersion.
    GammaPoisson,
    /// Gamma distribution with mean exp(f): the shape, the part of the log density that it determines, and the slope
    /// of that part.
    PositiveMean,
    /// Beta distribution with the logistic function as mean: the concentration φ, `ln Γ(φ) − (φ + 12)(ln(φ + 12) − 1) −
    /// ln 2π`, and the digamma function of φ.
    Share,
    /// So many unordered classes.
    Classes(usize),
}

impl Formula {
    /// The most classes whose sums fit the memory that the units of a GPU's cube share: 16 kB on any GPU.
    pub const MOST_CLASSES: usize = 30;

    /// Whether a GPU computes it.
    pub(super) fn fits_gpu(self) -> bool {
        !matches!(self, Self::Classes(classes) if classes > Self::MOST_CLASSES)
    }
}

#[cfg(feature = "gpu")]
impl Formula {
    /// The number of latent functions.
    pub(super) fn latents(self) -> usize {
        match self {
            Self::VaryingNormal => 2,
            Self::Classes(classes) => classes,
            _ => 1,
        }
    }

    /// The kind of its auxiliary numbers.
    pub(super) fn auxiliary(self) -> Auxiliary {
        match self {
            Self::Normal => Auxiliary::NoiseVariance,
            Self::Binomial => Auxiliary::Trials,
            Self::Poisson | Self::SoftplusPoisson | Self::GammaPoisson => Auxiliary::Exposure,
            _ => Auxiliary::None,
        }
    }

    /// Whether the expectation needs no quadrature.
    pub(super) fn is_closed(self) -> bool {
        matches!(self, Self::Normal | Self::VaryingNormal | Self::Poisson | Self::PositiveMean)
    }
}
