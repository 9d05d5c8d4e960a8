use std::collections::HashSet;

use cagey_core::products::engine::schedule::Schedule;

#[test]
fn every_pair_once_and_no_block_twice_in_a_round() {
    for units in [1, 2, 3, 7, 40, 1000] {
        let triangle = Schedule::triangle(units, 1, units);
        let count = triangle.rows.len();
        assert_eq!(triangle.columns.iter().map(|block| block.len()).max(), Some(Schedule::most_columns(units)));
        let all: Vec<_> = triangle.rounds().iter().flatten().collect();
        assert_eq!(all.len(), count * (count + 1) / 2);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        for round in &triangle.rounds()[1..] {
            let blocks: Vec<_> = round.iter().flat_map(|&(a, b)| [a, b]).collect();
            assert_eq!(blocks.iter().collect::<HashSet<_>>().len(), blocks.len());
        }
        for other in [1, 5, 90] {
            let latin = Schedule::latin(units, other);
            let all: HashSet<_> = latin.rounds().iter().flatten().collect();
            assert_eq!(all.len(), latin.rows.len() * latin.columns.len());
            for round in latin.rounds() {
                assert_eq!(round.iter().map(|p| p.0).collect::<HashSet<_>>().len(), round.len());
                assert_eq!(round.iter().map(|p| p.1).collect::<HashSet<_>>().len(), round.len());
            }
        }
    }
}
