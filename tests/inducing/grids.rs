//! The grids of a combination: their number of points, and their coefficients.

use cagey::models::sparse_grid::grids::{COLUMNS, Grid, Grids, points};

#[test]
fn coefficients_of_the_technique_add_up_to_one() {
    for d in 1..=COLUMNS {
        for level in 1..=4 {
            let grids = Grids::new(level, d).unwrap();
            let sum: f64 = grids.all.iter().map(|grid| grid.technique).sum();
            assert_eq!(sum, 1.0, "{level} {d}");
            assert_eq!(grids.total(), points(level, d), "{level} {d}");
            // The finest grids hold all points of the coarser ones.
            let finest = grids.all.iter().filter(|grid| grid.levels.iter().sum::<usize>() == level + d - 1);
            let mut held: Vec<usize> = finest.flat_map(|grid| grid.members.clone()).collect();
            held.sort_unstable();
            held.dedup();
            assert_eq!(held.len(), grids.distinct(), "{level} {d}");
        }
    }
}

#[test]
fn a_sparse_grid_has_as_many_points_as_known() {
    // Σ over |l|₁ ≤ η + d − 1 of Π 2^{l − 1}: 1, 5, 17, 49, 129 for d = 2; 1, 7, 31, 111 for d = 3.
    let distinct = |level, d| Grids::new(level, d).unwrap().distinct();
    assert_eq!([1, 2, 3, 4, 5].map(|level| distinct(level, 2)), [1, 5, 17, 49, 129]);
    assert_eq!([1, 2, 3, 4].map(|level| distinct(level, 3)), [1, 7, 31, 111]);
    let grids = Grids::new(2, 2).unwrap();
    assert_eq!(grids.all.iter().map(Grid::name).collect::<Vec<_>>(), ["(1, 1)", "(1, 2)", "(2, 1)"]);
    assert_eq!(grids.points_of(&grids.all[1]), [0.5, 0.25, 0.5, 0.5, 0.5, 0.75]);
    assert_eq!(grids.points_of(&grids.all[2]), [0.25, 0.5, 0.5, 0.5, 0.75, 0.5]);
}

#[test]
fn what_is_too_large_is_refused() {
    for (level, d, word) in [(0, 2, "from 1 to"), (40, 2, "from 1 to 8"), (3, 6, "1 to 5"), (3, 0, "1 to 5")] {
        let problem = Grids::new(level, d).unwrap_err().to_string();
        assert!(problem.contains(word), "{problem}");
    }
}
