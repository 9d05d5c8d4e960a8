//! Where the dense algebra runs for a GPU without f64 arithmetic.

use std::sync::atomic::{AtomicU8, Ordering};

/// Where matrices are factorised and solved with when a GPU lacks f64. A GPU with f64 does its own algebra in f64.
///
/// If a matrix has fewer rows than there are right-hand sides, the solve stays on the device: the host computes only
/// the factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Algebra {
    /// On the host in f64 up to order 64, on the device in f32 above
    #[default]
    Auto,
    /// On the host in f64: every matrix crosses twice
    Host,
    /// On the device in f32
    Device,
}

impl Algebra {
    /// The largest order of a matrix that [`Auto`](Self::Auto) leaves to the host. Up to this order, a step takes as
    /// long either way on an H100, and the host is more accurate; from order 128 on, the card takes half of the time or
    /// less.
    pub const LARGEST_ON_HOST: usize = 64;

    /// Whether a matrix of order `n` stays on a device without f64.
    pub fn stays_on_device(self, n: usize) -> bool {
        match self {
            Self::Auto => n > Self::LARGEST_ON_HOST,
            Self::Host => false,
            Self::Device => true,
        }
    }
}

static CHOICE: AtomicU8 = AtomicU8::new(Algebra::Auto as u8);

/// The choice of this process.
pub fn algebra() -> Algebra {
    match CHOICE.load(Ordering::Relaxed) {
        choice if choice == Algebra::Host as u8 => Algebra::Host,
        choice if choice == Algebra::Device as u8 => Algebra::Device,
        _ => Algebra::Auto,
    }
}

/// Sets the choice for this process. Call it before the process computes anything.
pub fn set_algebra(choice: Algebra) {
    CHOICE.store(choice as u8, Ordering::Relaxed);
}
