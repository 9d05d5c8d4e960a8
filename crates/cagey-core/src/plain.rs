//! Text that a terminal only shows. Names of columns, labels, options and paths may hold sequences that would move its
//! cursor, change its settings or hide what was printed before.

use std::borrow::Cow;

/// Writes control characters, and marks that turn the direction of text, as `\u001b`, which JSON reads back as the same
/// text. Line ends and tabs stay.
#[doc(hidden)]
pub fn plain(text: &str) -> Cow<'_, str> {
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
