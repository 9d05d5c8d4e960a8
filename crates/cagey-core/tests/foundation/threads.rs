use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use cagey_core::threads::{apart, for_each, join, map};

/// Runs `work` outside of any pool and in pools of several sizes.
fn everywhere(work: impl Fn() + Sync) {
    work();
    for count in [1, 2, 5] {
        ThreadPoolBuilder::new().num_threads(count).build().unwrap().install(&work);
    }
}

fn sum(numbers: &[u64]) -> u64 {
    match numbers {
        [] => 0,
        [one] => *one,
        several => {
            let (left, right) = several.split_at(several.len() / 2);
            let (left, right) = join(|| sum(left), || sum(right));
            left + right
        }
    }
}

#[test]
fn joins_within_joins_give_both_results() {
    let numbers: Vec<u64> = (0..1000).collect();
    everywhere(|| assert_eq!(sum(&numbers), 499_500));
}

#[test]
fn a_panic_of_either_part_reaches_the_caller() {
    everywhere(|| {
        for which in [0, 1] {
            let part = |index: usize| assert_ne!(index, which);
            assert!(catch_unwind(AssertUnwindSafe(|| join(|| part(0), || part(1)))).is_err());
        }
    });
}

#[test]
fn pieces_apart_are_in_order_each_on_a_pool_of_one_thread() {
    everywhere(|| {
        let alone = |piece: usize| {
            assert_eq!(rayon::current_num_threads(), 1);
            Ok(piece * piece)
        };
        assert_eq!(apart(7, alone).unwrap(), [0, 1, 4, 9, 16, 25, 36]);
        assert_eq!(apart(0, alone).unwrap(), [0; 0]);
        let refuse =
            |piece: usize| if piece > 2 { Err(cagey_core::Error::Data(format!("{piece}"))) } else { Ok(piece) };
        assert_eq!(apart(9, refuse).unwrap_err().to_string(), cagey_core::Error::Data("3".into()).to_string());
        let panics = || apart(3, |piece| if piece == 1 { panic!("one") } else { Ok(()) });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    });
}

#[test]
fn every_item_once_and_results_in_order() {
    everywhere(|| {
        for len in [0, 1, 2, 7, 1000] {
            let mut counts = vec![0; len];
            for_each(counts.par_iter_mut(), |count| *count += 1);
            assert_eq!(counts, vec![1; len]);
            for least in [1, 300] {
                let squares = map((0..len).into_par_iter().with_min_len(least), |i| (i * i).to_string());
                assert_eq!(squares, (0..len).map(|i| (i * i).to_string()).collect::<Vec<_>>());
            }
        }
    });
}
