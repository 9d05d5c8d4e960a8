//! Vectors of numbers: one abstraction over the vector widths and instruction sets of CPUs, chosen at run time.
//!
//! All fused code is written once, against [`Lanes`]. [`Number::vectorised`] picks the implementation. Code that uses
//! its instructions runs inside [`Lanes::enter`], and everything that it calls is inlined there.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod functions;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{Error, Result};
use crate::linalg::real::Real;

pub use functions::Chains;

/// A number type with vectors.
pub trait Number: Real {
    /// Coefficients of 2ʳ on |r| ≤ ½, highest power first; the last is 1, so that e⁰ is 1.
    const EXP2: &'static [Self];
    /// Coefficients of sin(r)/r in r² on |r| ≤ π/2, highest power first.
    const SINE: &'static [Self];
    /// Coefficients of atanh(t)/t in t² on |t| ≤ 0.172, highest power first.
    const ATANH: &'static [Self];
    /// 1.5 · 2^(bits of the mantissa). A number added to it is rounded to an integer, which is then in its low bits.
    const MAGIC: Self;
    /// For x below minus this number, eˣ counts as e to the power of minus this number.
    const EXP_RANGE: Self;
    /// The part of π that this type rounds away.
    const PI_REST: f64;
    /// The leading bits of ln 2, few enough that small multiples are exact; and the rest.
    const LN2: [f64; 2];

    /// Runs the work with the best vectors of this machine, within [`limit`].
    fn vectorised<W: Work<Self>>(work: W) -> W::Output;
}

/// Work on vectors of any kind.
pub trait Work<T: Number> {
    /// The result.
    type Output;
    /// Runs the work.
    fn run<L: Lanes<Element = T>>(self) -> Self::Output;
}

/// A vector of [`N`](Lanes::N) numbers.
///
/// The operations of an instruction set may only be called where it is available: inside [`enter`](Lanes::enter), on
/// the implementation that [`Number::vectorised`] chose.
pub trait Lanes: Copy + Send + Sync + 'static {
    /// The type of one number.
    type Element: Number;
    /// The number of lanes.
    const N: usize;
    /// Whether there are 32 registers, not 16.
    const MANY_REGISTERS: bool;

    /// Runs code with the instruction set enabled; the closure must be `#[inline(always)]`.
    fn enter<R>(work: impl FnOnce() -> R) -> R;
    /// The same number in all lanes.
    fn splat(value: Self::Element) -> Self;
    /// The first N numbers of a slice.
    fn load(from: &[Self::Element]) -> Self;
    /// Writes N numbers to the front of a slice.
    fn store(self, to: &mut [Self::Element]);
    /// self + other.
    fn add(self, other: Self) -> Self;
    /// self − other.
    fn sub(self, other: Self) -> Self;
    /// self · other.
    fn mul(self, other: Self) -> Self;
    /// self / other.
    fn div(self, other: Self) -> Self;
    /// self · factor + term.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// self · factor − term.
    fn mul_sub(self, factor: Self, term: Self) -> Self;
    /// term − self · factor.
    fn neg_mul_add(self, factor: Self, term: Self) -> Self;
    /// The larger of the two, lane by lane; NaN in self stays NaN.
    fn max(self, other: Self) -> Self;
    /// The smaller of the two, likewise.
    fn min(self, other: Self) -> Self;
    /// self where `at` is below a bound, else 0.
    fn below(self, at: Self, bound: Self) -> Self;
    /// |self|.
    fn abs(self) -> Self;
    /// √self, for positive normal numbers.
    fn sqrt(self) -> Self;
    /// self · 2ⁿ by addition to the exponent; n is in the low bits of [`MAGIC`](Number::MAGIC) + n.
    fn times_power(self, magic_n: Self) -> Self;
    /// (m, e) with self = m 2ᵉ and m in [√½, √2), for positive normal numbers.
    fn split(self) -> (Self, Self);

    /// The nearest integer, for |self| < 2²².
    #[inline(always)]
    fn round(self) -> Self {
        let magic = Self::splat(Self::Element::MAGIC);
        self.add(magic).sub(magic)
    }

    /// Zero in all lanes.
    #[inline(always)]
    fn zero() -> Self {
        Self::splat(Self::Element::of(0.0))
    }

    /// The sum of the lanes.
    #[inline(always)]
    fn sum(self) -> Self::Element {
        let mut lanes = [Self::Element::of(0.0); 16];
        self.store(&mut lanes);
        let mut width = Self::N;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
        }
        lanes[0]
    }
}

/// Sets of vector instructions, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Instructions {
    /// The instructions that the compiler may assume (NEON on AArch64, SSE2 on x86-64).
    Portable,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 (F, DQ).
    Avx512,
}

impl FromStr for Instructions {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "portable" => Ok(Self::Portable),
            "avx2" => Ok(Self::Avx2),
            "avx512" => Ok(Self::Avx512),
            _ => Err(Error::Usage(format!("unknown instructions `{text}`; use portable, avx2 or avx512"))),
        }
    }
}

static LIMIT: AtomicU8 = AtomicU8::new(Instructions::Avx512 as u8);

/// Forbids wider vector instructions than these in the whole process, to compare them or to get the same digits on
/// different machines.
pub fn limit(instructions: Instructions) {
    LIMIT.store(instructions as u8, Ordering::Relaxed);
}

/// The vector instructions in use: the widest that this machine has, within [`limit`].
pub fn instructions() -> Instructions {
    #[cfg(target_arch = "x86_64")]
    {
        let allowed = LIMIT.load(Ordering::Relaxed);
        if allowed >= Instructions::Avx512 as u8
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
        {
            return Instructions::Avx512;
        }
        if allowed >= Instructions::Avx2 as u8 && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Instructions::Avx2;
        }
    }
    Instructions::Portable
}

impl Number for f32 {
    #[expect(clippy::approx_constant, reason = "a fitted coefficient, close to ln 2 but not it")]
    const EXP2: &'static [Self] = &[0.001_326_472_2, 0.009_671_556, 0.055_507_343, 0.240_222_41, 0.693_147, 1.0];
    const SINE: &'static [Self] = &[2.604_920_7e-6, -1.980_893_7e-4, 8.333_049e-3, -0.166_666_58, 1.0];
    const ATANH: &'static [Self] = &[1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0];
    const MAGIC: Self = 12_582_912.0;
    const EXP_RANGE: Self = 87.0;
    const PI_REST: f64 = std::f64::consts::PI - std::f32::consts::PI as f64;
    const LN2: [f64; 2] = [0.693_359_375, -2.121_944_400_546_905_8e-4];

    fn vectorised<W: Work<Self>>(work: W) -> W::Output {
        match instructions() {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => work.run::<avx512::F32x16>(),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => work.run::<avx2::F32x8>(),
            _ => work.run::<portable::Portable<f32, 8>>(),
        }
    }
}

impl Number for f64 {
    const EXP2: &'static [Self] = &[
        7.038_200_814_561_949e-9,
        1.020_832_966_419_394e-7,
        1.321_565_352_603_182_9e-6,
        1.525_265_939_618_709_7e-5,
        1.540_352_999_427_527_5e-4,
        1.333_355_822_584_873_5e-3,
        9.618_129_107_983_197e-3,
        5.550_410_866_448_155e-2,
        0.240_226_506_959_091,
        0.693_147_180_559_949_2,
        1.0,
    ];
    const SINE: &'static [Self] = &[
        2.721_462_224_407_809e-15,
        -7.643_016_120_795_302e-13,
        1.605_894_048_761_126_6e-10,
        -2.505_210_688_298_592e-8,
        2.755_731_921_114_858e-6,
        -1.984_126_984_120_820_8e-4,
        8.333_333_333_333_185e-3,
        -0.166_666_666_666_666_66,
        1.0,
    ];
    const ATANH: &'static [Self] = &[
        1.0 / 23.0,
        1.0 / 21.0,
        1.0 / 19.0,
        1.0 / 17.0,
        1.0 / 15.0,
        1.0 / 13.0,
        1.0 / 11.0,
        1.0 / 9.0,
        1.0 / 7.0,
        1.0 / 5.0,
        1.0 / 3.0,
        1.0,
    ];
    const MAGIC: Self = 6_755_399_441_055_744.0;
    const EXP_RANGE: Self = 708.0;
    const PI_REST: f64 = 1.224_646_799_147_353_2e-16;
    const LN2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];

    fn vectorised<W: Work<Self>>(work: W) -> W::Output {
        match instructions() {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => work.run::<avx512::F64x8>(),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => work.run::<avx2::F64x4>(),
            _ => work.run::<portable::Portable<f64, 4>>(),
        }
    }
}
