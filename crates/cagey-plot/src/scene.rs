//! A figure as a list of shapes in logical pixels, independent of the file it ends up in.

use crate::colour::PAPER;
use crate::text::{self, LABEL_SIZE};
use cagey_core::{Error, Result};
use plotters::style::{RGBAColor, RGBColor};

/// The smallest and the largest permitted width and height.
const SMALLEST: u32 = 200;
pub(super) const LARGEST: u32 = 4000;
/// The lengths of a dash and of the gap after it.
const DASH: (f64, f64) = (6.0, 4.0);

/// A place in logical pixels from the upper left corner.
pub(super) type Point = (f64, f64);

/// How a line is drawn.
#[derive(Clone, Copy)]
pub(super) struct Pen {
    pub colour: RGBColor,
    pub width: f64,
    pub dashed: bool,
}

impl Pen {
    /// A solid pen.
    pub fn solid(colour: RGBColor, width: f64) -> Self {
        Self { colour, width, dashed: false }
    }

    /// A dashed pen.
    pub fn dashed(colour: RGBColor, width: f64) -> Self {
        Self { colour, width, dashed: true }
    }
}

/// The anchor of a text: start, middle or end.
#[derive(Clone, Copy)]
pub(super) enum Align {
    Start,
    Middle,
    End,
}

/// One line of text; `at` lies on its baseline.
pub(super) struct Text {
    pub content: String,
    pub at: Point,
    pub size: f64,
    pub align: Align,
    pub bold: bool,
    pub upwards: bool,
}

/// What a figure is made of; later shapes cover earlier ones.
pub(super) enum Shape {
    Line(Vec<Point>, Pen),
    Area(Vec<Point>, RGBAColor),
    Disc { centre: Point, radius: f64, colour: RGBColor },
    Text(Text),
}

/// The shapes of one figure.
pub(super) struct Scene {
    pub size: (u32, u32),
    pub shapes: Vec<Shape>,
}

impl Scene {
    /// An empty figure; an error for sizes that are too small to read or too large for memory.
    pub fn new(size: (u32, u32)) -> Result<Self> {
        let ((width, height), permitted) = (size, SMALLEST..=LARGEST);
        if permitted.contains(&width) && permitted.contains(&height) {
            return Ok(Self { size, shapes: Vec::new() });
        }
        let problem = format!("width and height must be {SMALLEST} to {LARGEST} pixels");
        Err(Error::Usage(format!("figure size {width} x {height}: {problem}")))
    }

    /// The width in logical pixels.
    pub fn width(&self) -> f64 {
        f64::from(self.size.0)
    }

    /// The height in logical pixels.
    pub fn height(&self) -> f64 {
        f64::from(self.size.1)
    }

    /// Adds a line through `points`.
    pub fn line(&mut self, points: Vec<Point>, pen: Pen) {
        let pieces = if pen.dashed { dashes(&points) } else { vec![points] };
        self.shapes.extend(pieces.into_iter().filter(|piece| piece.len() > 1).map(|piece| Shape::Line(piece, pen)));
    }

    /// Adds a filled polygon.
    pub fn area(&mut self, points: Vec<Point>, colour: impl Into<RGBAColor>) {
        self.shapes.push(Shape::Area(points, colour.into()));
    }

    /// Adds a filled rectangle with opposite corners `a` and `b`.
    pub fn rect(&mut self, a: Point, b: Point, colour: impl Into<RGBAColor>) {
        self.area(vec![a, (b.0, a.1), b, (a.0, b.1)], colour);
    }

    /// Adds a disc with a thin rim.
    pub fn disc(&mut self, centre: Point, radius: f64, colour: RGBColor) {
        self.shapes.push(Shape::Disc { centre, radius: radius + 0.7, colour: PAPER });
        self.shapes.push(Shape::Disc { centre, radius, colour });
    }

    /// Adds plain text.
    pub fn text(&mut self, content: &str, at: Point, size: f64, align: Align) {
        self.shapes.push(Shape::Text(Text { content: content.into(), at, size, align, bold: false, upwards: false }));
    }

    /// Adds a heading, shortened to `width`.
    pub fn heading(&mut self, content: &str, at: Point, size: f64, width: f64) {
        let content = text::shortened(content, size, true, width);
        self.shapes.push(Shape::Text(Text { content, at, size, align: Align::Start, bold: true, upwards: false }));
    }

    /// Adds a label that reads from bottom to top and is centred at `at`.
    pub fn upwards(&mut self, content: &str, at: Point) {
        let (content, size, align) = (content.into(), LABEL_SIZE, Align::Middle);
        self.shapes.push(Shape::Text(Text { content, at, size, align, bold: false, upwards: true }));
    }
}

/// Cuts a line into dashes.
fn dashes(points: &[Point]) -> Vec<Vec<Point>> {
    let (on, off) = DASH;
    let mut pieces = vec![points.first().copied().into_iter().collect::<Vec<_>>()];
    let (mut drawing, mut left) = (true, on);
    for pair in points.windows(2) {
        let ((mut x, mut y), (to_x, to_y)) = (pair[0], pair[1]);
        loop {
            let length = (to_x - x).hypot(to_y - y);
            let reached = length <= left;
            let share = if reached { 1.0 } else { left / length };
            (x, y) = (x + share * (to_x - x), y + share * (to_y - y));
            if let (true, Some(piece)) = (drawing, pieces.last_mut()) {
                piece.push((x, y));
            }
            if reached {
                left -= length;
                break;
            }
            drawing = !drawing;
            left = if drawing { on } else { off };
            if drawing {
                pieces.push(vec![(x, y)]);
            }
        }
    }
    pieces
}
