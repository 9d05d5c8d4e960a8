use cagey_core::plain::plain;

#[test]
fn only_what_acts_is_written_in_another_way() {
    for same in ["", "a\tb\n", "température `µ` – 5 € 表", "\u{a0}"] {
        assert_eq!(plain(same), same);
    }
    assert_eq!(plain("a\u{1b}[2Jb\r\u{9b}31m\u{7f}\u{202e}"), "a\\u001b[2Jb\\u000d\\u009b31m\\u007f\\u202e");
    let label = "x\u{1b}]0;title\u{7}\u{9b}A";
    // Already JSON writes the others in this way.
    let json = serde_json::to_string(label).unwrap();
    assert_eq!(serde_json::from_str::<String>(&plain(&json)).unwrap(), label);
}
