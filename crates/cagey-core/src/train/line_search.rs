//! A strong-Wolfe line search by bracketing and safeguarded cubic interpolation (Nocedal and Wright 2006, algorithms
//! 3.5 and 3.6 in one loop). It treats points outside the domain of the objective as infinitely high.

use super::point::{Move, Point, Probe, Refusal, dot, shifted};

/// Sufficient decrease `φ(a) ≤ φ(0) + C1 a φ′(0)`.
const C1: f64 = 1e-4;
/// Curvature `|φ′(a)| ≤ C2 |φ′(0)|`.
const C2: f64 = 0.9;
/// Relative differences of the loss below this are rounding errors. There, only the slope decides whether the loss
/// decreases (the approximate Wolfe condition of Hager and Zhang 2005, equation 4.1).
const ROUNDING: f64 = 1e-10;
/// The fraction of the way back from a point outside the domain that the next trial takes.
const RETREAT: f64 = 0.25;

/// A trial point at step length `a`; `φ` is infinite outside the domain.
struct Trial {
    a: f64,
    loss: f64,
    slope: f64,
    point: Option<Point>,
}

/// The result of a search along a direction.
pub(crate) enum Search {
    /// A point with a lower loss. It satisfies the strong Wolfe conditions unless the evaluations ran out.
    Found(Move),
    /// No lower point; with the last message if the objective failed at every trial point.
    Nothing(Option<String>),
    /// The time limit is reached.
    OutOfTime,
}

/// Searches along `direction` from `from`, first at step length `first`, with at most `evaluations` evaluations.
pub(crate) fn search(from: &Point, direction: &[f64], first: f64, evaluations: usize, probe: &mut Probe) -> Search {
    let slope = dot(&from.gradient, direction);
    let decreases = |trial: &Trial| {
        let exactly = trial.loss <= from.loss + C1 * trial.a * slope;
        let nearly = trial.loss <= from.loss + ROUNDING * from.loss.abs() && trial.slope <= (2.0 * C1 - 1.0) * slope;
        exactly || nearly
    };
    // `low` is the end of the bracket with the lower loss, `high` the other end, unknown while the loss still
    // decreases.
    let mut low = Trial { a: 0.0, loss: from.loss, slope, point: None };
    let mut high: Option<Trial> = None;
    let mut problem = None;
    let (mut always_outside, mut a) = (true, first);
    for count in 0..evaluations {
        let x = shifted(&from.x, a, direction);
        if x == from.x {
            break;
        }
        let trial = match probe(&x) {
            Ok(found) => {
                let slope = dot(&found.gradient, direction);
                Trial { a, loss: found.loss, slope, point: Some(Point::new(x, found)) }
            }
            Err(Refusal::OutOfTime) => return Search::OutOfTime,
            Err(Refusal::Outside(error)) => {
                problem = Some(error.to_string());
                Trial { a, loss: f64::INFINITY, slope: f64::NAN, point: None }
            }
        };
        always_outside &= trial.point.is_none();
        let lower = decreases(&trial);
        if lower && trial.slope.abs() <= C2 * slope.abs() {
            return moved(trial).unwrap_or(Search::Nothing(problem));
        }
        if !lower || trial.loss > low.loss {
            high = Some(trial);
        } else {
            let towards_high = high.as_ref().map_or(1.0, |high| high.a - low.a);
            let before = std::mem::replace(&mut low, trial);
            if low.slope * towards_high >= 0.0 {
                high = Some(before);
            }
        }
        a = match &high {
            // The loss still decreases.
            None => 4.0 * low.a,
            Some(high) => interpolated(&low, high, count),
        };
        if a == low.a || !a.is_finite() {
            break;
        }
    }
    let low_enough = low.loss < from.loss;
    match moved(low) {
        Some(found) if low_enough => found,
        _ => Search::Nothing(problem.filter(|_| always_outside)),
    }
}

fn moved(trial: Trial) -> Option<Search> {
    let rate = trial.a;
    trial.point.map(|to| Search::Found(Move { to, rate }))
}

/// A step length inside the bracket: the minimiser of the cubic through both ends, with a distance from them. Every
/// third time it is the middle, so that the bracket always shrinks.
fn interpolated(low: &Trial, high: &Trial, count: usize) -> f64 {
    let width = high.a - low.a;
    let fraction = if high.loss.is_infinite() {
        RETREAT
    } else if count % 3 == 2 {
        0.5
    } else {
        // On t in [0, 1] with φ(0) = 0: slopes p, q and value `rise` at 1 (Nocedal and Wright, equation 3.59).
        let (p, q, rise) = (low.slope * width, high.slope * width, high.loss - low.loss);
        let d1 = p + q - 3.0 * rise;
        let d2 = (d1 * d1 - p * q).sqrt();
        let t = 1.0 - (q + d2 - d1) / (q - p + 2.0 * d2);
        if t.is_finite() { t.clamp(0.1, 0.9) } else { 0.5 }
    };
    low.a + fraction * width
}
