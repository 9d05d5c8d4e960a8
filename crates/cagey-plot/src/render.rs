//! Drawing a scene into an SVG or PNG file.
//!
//! The drawing library draws at whole pixels only. Shapes are therefore drawn [`FINE`] times as large. An SVG is scaled
//! back through its `viewBox`, a PNG by averaging, which also smooths its edges.

use crate::colour::INK;
use crate::scene::{Align, Pen, Point, Scene, Shape, Text};
use crate::text::{LINE_PER_EM, font};
use cagey_core::atomic::write_bytes;
use cagey_core::{Error, Result};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, ShapeStyle, TextStyle};

use std::path::Path;

/// Fine pixels per logical pixel, along each axis.
const FINE: u32 = 3;

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// The file formats, which differ in how they take lines and text.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    Svg,
    Png,
}

impl Format {
    /// The format that the extension of `path` names.
    fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => Err(Error::Usage(format!("figure `{}`: the name must end in .svg or .png", path.display()))),
        }
    }
}

/// Refuses a name whose ending is not a format of figures.
///
/// # Errors
/// [`Error::Usage`] for other endings than .svg and .png.
pub fn check_format(path: &Path) -> Result<()> {
    Format::of(path).map(drop)
}

/// What can be drawn.
pub(super) trait Draw {
    /// The drawing.
    fn scene(&self) -> Result<Scene>;
}

/// A figure that can be saved.
pub trait Figure {
    /// Writes the figure to `path`, which ends in `.svg` or `.png`.
    ///
    /// # Errors
    /// [`Error::Usage`] for another ending or an unusable size, [`Error::Shape`] for slices of different lengths,
    /// [`Error::Data`] when nothing is finite, no path or part is given, or a grid axis does not increase,
    /// [`Error::Io`] when the file cannot be written.
    fn save(&self, path: impl AsRef<Path>) -> Result<()>;
}

impl<F: Draw> Figure for F {
    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.scene()?.save(path.as_ref())
    }
}

impl Scene {
    /// Writes the figure to `path` in the format that its extension names.
    pub fn save(&self, path: &Path) -> Result<()> {
        let format = Format::of(path)?;
        // The content is complete before the file is touched: encoders that write to a file themselves hide errors at
        // its end.
        let bytes = match format {
            Format::Svg => self.svg(path)?,
            Format::Png => self.png(path)?,
        };
        write_bytes(path, &bytes)
    }

    fn svg(&self, path: &Path) -> Result<Vec<u8>> {
        let (width, height) = self.size;
        let mut svg = String::new();
        self.draw(&mut SVGBackend::with_string(&mut svg, self.fine_size()), Format::Svg)
            .map_err(|source| failed(path, source))?;
        let (fine_width, fine_height) = self.fine_size();
        let svg = svg.replacen(
            &format!(r#"width="{fine_width}" height="{fine_height}""#),
            &format!(r#"width="{width}" height="{height}" stroke-linejoin="round""#),
            1,
        );
        Ok(svg.into_bytes())
    }

    fn png(&self, path: &Path) -> Result<Vec<u8>> {
        let (width, height) = self.fine_size();
        let mut fine = vec![0; 3 * width as usize * height as usize];
        self.draw(&mut BitMapBackend::with_buffer(&mut fine, (width, height)), Format::Png)
            .map_err(|source| failed(path, source))?;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.size.0, self.size.1);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().map_err(|source| failed(path, source))?;
        let written = writer.write_image_data(&averaged(&fine, width as usize));
        written.and_then(|()| writer.finish()).map_err(|source| failed(path, source))?;
        Ok(bytes)
    }

    fn fine_size(&self) -> (u32, u32) {
        (self.size.0 * FINE, self.size.1 * FINE)
    }

    fn draw<B: DrawingBackend<ErrorType: 'static>>(&self, backend: &mut B, format: Format) -> Drawn {
        let (width, height) = self.fine_size();
        backend.draw_rect((0, 0), (width as i32, height as i32), &plotters::style::WHITE, true)?;
        for shape in &self.shapes {
            match shape {
                Shape::Line(points, pen) => match format {
                    Format::Svg => {
                        let stroke = pen.colour.stroke_width((pen.width * f64::from(FINE)).round() as u32);
                        backend.draw_path(points.iter().map(|&point| fine(point)), &stroke)?;
                    }
                    Format::Png => draw_strokes(backend, points, *pen)?,
                },
                Shape::Area(points, colour) => {
                    backend.fill_polygon(points.iter().map(|&point| fine(point)), colour)?;
                }
                Shape::Disc { centre, radius, colour } => {
                    let radius = (radius * f64::from(FINE)).round() as u32;
                    backend.draw_circle(fine(*centre), radius, &ShapeStyle::from(colour).filled(), true)?;
                }
                Shape::Text(text) => draw_text(backend, text, format)?,
            }
        }
        Ok(backend.present()?)
    }
}

/// Draws a line segment by segment with round joints: the bitmap backend's own wide lines tear at sharp turns.
fn draw_strokes<B: DrawingBackend<ErrorType: 'static>>(backend: &mut B, points: &[Point], pen: Pen) -> Drawn {
    let half = 0.5 * pen.width;
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        if x0 == x1 || y0 == y1 {
            let (wide, high) = if x0 == x1 { (half, 0.0) } else { (0.0, half) };
            let (low, far) = ((x0.min(x1) - wide, y0.min(y1) - high), (x0.max(x1) + wide, y0.max(y1) + high));
            backend.draw_rect(fine(low), fine(far), &pen.colour.filled(), true)?;
            continue;
        }
        // The polygon filler includes its border, hence half a fine pixel less on each side.
        let inset = (half - 0.5 / f64::from(FINE)) / (x1 - x0).hypot(y1 - y0);
        let (dx, dy) = (inset * (y1 - y0), inset * (x0 - x1));
        let corners = [(x0 + dx, y0 + dy), (x1 + dx, y1 + dy), (x1 - dx, y1 - dy), (x0 - dx, y0 - dy)];
        backend.fill_polygon(corners.map(fine), &pen.colour)?;
    }
    let radius = (half * f64::from(FINE) - 0.5).round() as u32;
    for &joint in points.iter().skip(1).take(points.len().saturating_sub(2)) {
        backend.draw_circle(fine(joint), radius, &pen.colour.filled(), true)?;
    }
    Ok(())
}

/// Draws text on its baseline. Each backend has its own unit of size and its own distance from anchor to baseline.
fn draw_text<B: DrawingBackend<ErrorType: 'static>>(backend: &mut B, text: &Text, format: Format) -> Drawn {
    let em = text.size * f64::from(FINE);
    let (size, rise) = match format {
        Format::Svg => (em * 1.24, text.size * 0.76),
        Format::Png => (em * LINE_PER_EM, text.size * LINE_PER_EM / 2.0),
    };
    let (turn, (x, y)) = match (text.upwards, text.at) {
        (false, (x, y)) => (FontTransform::None, (x, y - rise)),
        (true, (x, y)) => (FontTransform::Rotate270, (x - rise, y)),
    };
    let anchor = match text.align {
        Align::Start => HPos::Left,
        Align::Middle => HPos::Center,
        Align::End => HPos::Right,
    };
    let style = TextStyle::from(font(size, text.bold).transform(turn)).color(&INK);
    Ok(backend.draw_text(&text.content, &style.pos(Pos::new(anchor, VPos::Top)), fine((x, y)))?)
}

/// A place in fine pixels.
fn fine((x, y): Point) -> (i32, i32) {
    let scaled = |coordinate: f64| (coordinate * f64::from(FINE)).round() as i32;
    (scaled(x), scaled(y))
}

/// An RGB image `width` pixels wide, averaged over blocks of [`FINE`] by [`FINE`].
fn averaged(image: &[u8], width: usize) -> Vec<u8> {
    let block = FINE as usize;
    let mean = |rows: &[u8], column: usize, channel: usize| {
        let row_sum = |row: &[u8]| (0..block).map(|i| u32::from(row[3 * (block * column + i) + channel])).sum::<u32>();
        let sum: u32 = rows.chunks_exact(3 * width).map(row_sum).sum();
        ((sum + FINE * FINE / 2) / (FINE * FINE)) as u8
    };
    image
        .chunks_exact(3 * width * block)
        .flat_map(|rows| {
            (0..width / block).flat_map(move |column| [0, 1, 2].map(|channel| mean(rows, column, channel)))
        })
        .collect()
}

fn failed(path: &Path, source: impl std::fmt::Display) -> Error {
    let problem = format!("the figure cannot be drawn: {source}");
    Error::Io { path: path.display().to_string(), problem }
}
