//! The figures' typeface: DejaVu Sans is part of the crate because a machine may have no fonts at all.

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};
use std::sync::Once;

/// A CSS font list: the bundled face under its own name, then faces of similar metrics for SVG viewers that lack it.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// The em of tick labels.
pub(super) const TICK_SIZE: f64 = 12.5;
/// The em of axis names and legends.
pub(super) const LABEL_SIZE: f64 = 13.5;
/// The em of headings.
pub(super) const TITLE_SIZE: f64 = 15.0;

/// The height of DejaVu's line, ascent to descent, in units of its em; the rasterizer takes sizes in this unit.
pub(super) const LINE_PER_EM: f64 = 1.164;

/// The typeface at `size`, in the drawing library's unit.
pub(super) fn font(size: f64, bold: bool) -> FontDesc<'static> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        // A failure leaves the family unknown, which drawing reports.
        let _ = register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FAMILY, FontStyle::Bold, dejavu::sans::bold());
    });
    FontDesc::new(FontFamily::Name(FAMILY), size, if bold { FontStyle::Bold } else { FontStyle::Normal })
}

/// The width of `content` at an em of `size` logical pixels.
pub(super) fn width(content: &str, size: f64, bold: bool) -> f64 {
    const REFERENCE: f64 = 100.0;
    match font(REFERENCE * LINE_PER_EM, bold).box_size(content) {
        Ok((width, _)) => f64::from(width) * size / REFERENCE,
        Err(_) => content.chars().count() as f64 * size * 0.6,
    }
}

/// `content`, cut with an ellipsis if it needs more than `room`.
pub(super) fn shortened(content: &str, size: f64, bold: bool, room: f64) -> String {
    if width(content, size, bold) <= room {
        return content.to_owned();
    }
    let mut short = content.to_owned();
    while short.pop().is_some() && width(&format!("{short}…"), size, bold) > room {}
    format!("{}…", short.trim_end())
}
