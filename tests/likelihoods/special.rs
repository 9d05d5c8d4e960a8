//! Special functions against those of other programs.

use cagey::arithmetic::special::scaled_erfc;
use errorfunctions::RealErrorFunctions;

#[test]
fn the_scaled_error_function_keeps_its_digits() {
    for k in 0..4000 {
        let x = 0.0137 * f64::from(k);
        let (found, want) = (scaled_erfc(x), x.erfcx());
        assert!((found / want - 1.0).abs() < 5e-15, "{x}: {found} against {want}");
    }
    assert_eq!(scaled_erfc(0.0), 1.0);
}
