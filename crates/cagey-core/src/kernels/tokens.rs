//! The tokens of kernel text, and errors that point at them.

use std::cell::Cell;
use std::ops::Range;

use crate::error::{Error, Result};

/// A token of kernel text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Name(String),
    /// A name in quotes; it may contain any other character.
    Quoted(String),
    Symbol(char),
}

/// How many characters of the text an error shows on either side of the problem.
const AROUND: usize = 60;

/// An error that points at a place in the text.
pub(super) fn error(text: &str, span: Range<usize>, problem: impl Into<String>) -> Error {
    let count = |range: Range<usize>| text.get(range).map_or(0, |t| t.chars().count());
    let (before, width) = (count(0..span.start), count(span).max(1));
    // Of a long text, show only the part around the error.
    let first = before.saturating_sub(AROUND);
    let shown = text.chars().skip(first).take(before - first + width.min(AROUND) + AROUND);
    // A control character would break the alignment of the pointer.
    let shown: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
    let cut = |there: bool| if there { "…" } else { "" };
    let (start, end) = (cut(first > 0), cut(first + shown.chars().count() < text.chars().count()));
    let shown = format!("{start}{shown}{end}");
    let offset = before - first + start.chars().count();
    let pointer = format!("{}{}", " ".repeat(offset), "^".repeat(width.min(AROUND)));
    Error::KernelText { problem: problem.into(), text: shown, pointer }
}

/// Splits a text into tokens, with their positions.
///
/// # Errors
/// [`Error::KernelText`] for an invalid character or number.
pub(super) fn tokenize(text: &str) -> Result<Vec<(Token, Range<usize>)>> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some(&(start, c)) = rest.peek() {
        let mut take = |accept: &dyn Fn(char, char) -> bool| {
            let (mut end, mut last) = (start, ' ');
            while let Some(&(i, c)) = rest.peek() {
                if !accept(last, c) {
                    break;
                }
                (end, last) = (i + c.len_utf8(), c);
                rest.next();
            }
            start..end
        };
        if c.is_whitespace() {
            rest.next();
        } else if c.is_ascii_digit() || matches!(c, '.' | '-') {
            let span = take(&|last, c| {
                c.is_ascii_alphanumeric() || c == '.' || (matches!(c, '+' | '-') && matches!(last, 'e' | 'E' | ' '))
            });
            let number = text[span.clone()].parse::<f64>().ok().filter(|v| v.is_finite());
            let number = number.ok_or_else(|| error(text, span.clone(), "not a finite number"))?;
            tokens.push((Token::Number(number), span));
        } else if c.is_ascii_alphabetic() {
            let span = take(&|_, c| c.is_ascii_alphanumeric() || c == '_');
            tokens.push((Token::Name(text[span.clone()].to_string()), span));
        } else if c == '"' {
            let quotes = Cell::new(0);
            let span = take(&|_, c| {
                quotes.set(quotes.get() + u8::from(c == '"' || quotes.get() == 2));
                quotes.get() < 3
            });
            if quotes.get() < 2 {
                return Err(error(text, span, "the quote is not closed"));
            }
            tokens.push((Token::Quoted(text[start + 1..span.end - 1].to_string()), span));
        } else if "+*()[],=".contains(c) {
            rest.next();
            tokens.push((Token::Symbol(c), start..start + 1));
        } else {
            return Err(error(text, start..start + c.len_utf8(), format!("unexpected character `{c}`")));
        }
    }
    Ok(tokens)
}
