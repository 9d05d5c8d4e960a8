//! Several processes on one machine.

use cagey::cli::ranks::{refuse_strangers, shared};

#[test]
fn one_of_several_processes_that_cannot_talk_is_refused() {
    let set = |name: &'static str, size: &'static str| move |asked: &str| (asked == name).then(|| size.to_string());
    for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"] {
        let said = refuse_strangers(set(name, "3")).unwrap_err().to_string();
        assert!(said.contains("3 processes") && said.contains(name), "{said}");
        assert!(refuse_strangers(set(name, "1")).is_ok());
    }
    assert!(refuse_strangers(|_| None).is_ok());
}

#[test]
fn one_process_or_one_a_machine_takes_what_it_may() {
    assert_eq!(shared(8, 1, 1, 8), None);
    assert_eq!(shared(8, 4, 1, 8), None);
}

#[test]
fn ranks_of_a_machine_share_its_cores() {
    assert_eq!(shared(8, 2, 2, 8), Some(4));
    assert_eq!(shared(8, 6, 3, 8), Some(2));
    // More ranks than cores have one thread each.
    assert_eq!(shared(2, 4, 4, 2), Some(1));
}

#[test]
fn cores_that_a_launcher_gave_are_this_ranks_own() {
    assert_eq!(shared(1, 4, 4, 64), Some(1));
    assert_eq!(shared(16, 2, 2, 64), Some(16));
}
