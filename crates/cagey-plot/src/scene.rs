//! A figure as a list of shapes in logical pixels, independent of the file it ends up in.

use crate::text;
use plotters::style::{RGBAColor, RGBColor};

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
    pub colour: RGBColor,
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
    /// An empty figure.
    pub fn new(size: (u32, u32)) -> Self {
        Self { size, shapes: Vec::new() }
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
        let pieces = if pen.dashed { dashes(&points, 6.0, 4.0) } else { vec![points] };
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

    /// Adds a disc with a thin rim in `rim`.
    pub fn disc(&mut self, centre: Point, radius: f64, colour: RGBColor, rim: RGBColor) {
        self.shapes.push(Shape::Disc { centre, radius: radius + 0.7, colour: rim });
        self.shapes.push(Shape::Disc { centre, radius, colour });
    }

    /// Adds plain text.
    pub fn text(&mut self, content: &str, at: Point, size: f64, colour: RGBColor, align: Align) {
        let content = content.to_owned();
        self.shapes.push(Shape::Text(Text { content, at, size, colour, align, bold: false, upwards: false }));
    }

    /// Adds a heading, shortened to `width`.
    pub fn heading(&mut self, content: &str, at: Point, size: f64, colour: RGBColor, width: f64) {
        let content = text::shortened(content, size, true, width);
        self.shapes.push(Shape::Text(Text {
            content,
            at,
            size,
            colour,
            align: Align::Start,
            bold: true,
            upwards: false,
        }));
    }

    /// Adds text that reads from bottom to top and is centred at `at`.
    pub fn upwards(&mut self, content: &str, at: Point, size: f64, colour: RGBColor) {
        let (content, align) = (content.to_owned(), Align::Middle);
        self.shapes.push(Shape::Text(Text { content, at, size, colour, align, bold: false, upwards: true }));
    }
}

/// Cuts a line into dashes of length `on` with gaps of length `off`.
fn dashes(points: &[Point], on: f64, off: f64) -> Vec<Vec<Point>> {
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
