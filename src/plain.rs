//! Text that a terminal only shows. Names of columns, labels, options and paths may hold sequences that would move its
//! cursor, change its settings or hide what was printed before.

use std::borrow::Cow;

/// Writes control characters, and marks that turn the direction of text, as `\u001b`, which JSON reads back as the same
/// text. Line ends and tabs stay.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { shown += &format!("\\u{:04x}", c as u32) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Whether a terminal does something else with a character than show it.
fn acts(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n' && c != '\t') || turns
}

#[cfg(test)]
mod tests {
    use super::plain;

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
}
