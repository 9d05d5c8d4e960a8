//! Wrong error bars are reported, and right ones are not: a short form of the example `trust`.

#[path = "../examples/trust/told.rs"]
mod told;

use clap::ValueEnum;
use told::{Kind, look};

const DRAWS: u64 = 6;

#[test]
fn what_is_wrong_is_named_and_nothing_else_is() {
    for kind in Kind::value_variants() {
        let mut counts = [0; 4];
        for seed in 0..DRAWS {
            for (count, seen) in counts.iter_mut().zip(look(*kind, 400, 1000 + seed).unwrap()) {
                *count += u64::from(seen);
            }
        }
        let [right, nothing, right_left_out, nothing_left_out] = counts;
        match kind {
            Kind::Well | Kind::WellPrecise | Kind::WellForecast => {
                assert!(nothing >= DRAWS - 1 && nothing_left_out >= DRAWS - 1, "{kind:?} {counts:?}");
            }
            // The training rows do not contain what comes after them.
            Kind::Trend => assert!(right >= DRAWS - 1, "{kind:?} {counts:?}"),
            Kind::Copies => assert_eq!((right, nothing), (DRAWS, 0)),
            _ => assert!(right >= DRAWS - 1 && right_left_out >= DRAWS - 1, "{kind:?} {counts:?}"),
        }
    }
}
