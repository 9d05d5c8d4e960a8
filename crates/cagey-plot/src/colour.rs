//! Colours that remain distinct for colour-blind readers and in grey print.

use plotters::style::RGBColor;

/// Text and frames of points.
pub(super) const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
/// Axis lines.
pub(super) const AXIS: RGBColor = RGBColor(0x8a, 0x90, 0x97);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xe9, 0xeb, 0xee);
/// Background, and the rim that sets marks apart.
pub(super) const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);
/// The mean and its bands.
pub(super) const BLUE: RGBColor = RGBColor(0x00, 0x5f, 0x9e);
/// Held-out data.
pub(super) const VERMILION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
/// Training data, faint beside the curves.
pub(super) const GREY: RGBColor = RGBColor(0x8c, 0x92, 0x99);
/// Opacity of the 95 % band, and of the 50 % band that lies on it.
pub(super) const BAND_OPACITY: (f64, f64) = (0.16, 0.26);

/// The colours of several lines, after Okabe and Ito (<https://jfly.uni-koeln.de/color/>), yellow left out.
pub(super) const LINES: [RGBColor; 6] = [
    BLUE,
    VERMILION,
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];

/// Equally spaced colours of matplotlib's viridis: perceptually uniform, dark to light.
pub(super) const VIRIDIS: [RGBColor; 9] = [
    RGBColor(0x44, 0x01, 0x54),
    RGBColor(0x47, 0x2c, 0x7a),
    RGBColor(0x3b, 0x51, 0x8b),
    RGBColor(0x2c, 0x71, 0x8e),
    RGBColor(0x21, 0x90, 0x8d),
    RGBColor(0x27, 0xad, 0x81),
    RGBColor(0x5c, 0xc8, 0x63),
    RGBColor(0xaa, 0xdc, 0x32),
    RGBColor(0xfd, 0xe7, 0x25),
];

/// Equally spaced colours of ColorBrewer's YlOrBr, light to dark: distinct from [`VIRIDIS`], and pale where little is
/// unknown.
pub(super) const OCHRE: [RGBColor; 9] = [
    RGBColor(0xff, 0xff, 0xe5),
    RGBColor(0xff, 0xf7, 0xbc),
    RGBColor(0xfe, 0xe3, 0x91),
    RGBColor(0xfe, 0xc4, 0x4f),
    RGBColor(0xfe, 0x99, 0x29),
    RGBColor(0xec, 0x70, 0x14),
    RGBColor(0xcc, 0x4c, 0x02),
    RGBColor(0x99, 0x34, 0x04),
    RGBColor(0x66, 0x25, 0x06),
];

/// The colour of `share` in [0, 1] on a scale of equally spaced `stops`.
pub(super) fn along(stops: &[RGBColor; 9], share: f64) -> RGBColor {
    let place = share.clamp(0.0, 1.0) * 8.0;
    let index = (place as usize).min(7);
    let mix = |a: u8, b: u8| (f64::from(a) + (place - index as f64) * (f64::from(b) - f64::from(a))).round() as u8;
    let (RGBColor(r0, g0, b0), RGBColor(r1, g1, b1)) = (stops[index], stops[index + 1]);
    RGBColor(mix(r0, r1), mix(g0, g1), mix(b0, b1))
}
