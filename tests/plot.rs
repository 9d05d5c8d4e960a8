//! Figures contain what they were given, in either format, or an error says why they cannot be drawn.

use cagey::Error;
use cagey::plot::{
    Against, Calibration, Component, Components, Curve, Decision, Fields, Figure, Frame, Layer, LearningCurve, Pane,
    Panels, PartPoints, Parts, Points, Posterior1d, Posterior2d, Reliability, Row, Run, Samples, Series,
};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

type Save<'a> = Box<dyn Fn(&Path) -> cagey::Result<()> + 'a>;

/// Data for every figure.
struct Data {
    curve: Curve,
    trend: Curve,
    season: Curve,
    x: Vec<f64>,
    y: Vec<f64>,
    paths: Vec<Vec<f64>>,
    losses: [Vec<f64>; 3],
    seconds: Vec<f64>,
    grid: Vec<f64>,
    mean: Vec<f64>,
    sd: Vec<f64>,
    places: [Vec<f64>; 2],
    nominal: Vec<f64>,
    observed: Vec<f64>,
    pit: Vec<f64>,
}

/// Numbers in [0, 1) that look random.
fn noise(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count).map(|_| next()).collect()
}

/// Numbers that look standard normal.
fn normal(seed: u64, count: usize) -> Vec<f64> {
    noise(seed, 12 * count).chunks(12).map(|chunk| chunk.iter().sum::<f64>() - 6.0).collect()
}

fn data() -> Data {
    let months: Vec<f64> = (0..360).map(|i| 1990.0 + f64::from(i) / 12.0).collect();
    let trend = |t: f64| 355.0 + 1.5 * (t - 1990.0) + 0.02 * (t - 1990.0).powi(2);
    let season = |t: f64| 3.0 * (std::f64::consts::TAU * t).sin() + (2.0 * std::f64::consts::TAU * t).cos();
    let spread = |t: f64| 0.4 + if t > 2010.0 { 0.25 * (t - 2010.0).powf(1.5) } else { 0.0 };
    let curve = |f: &dyn Fn(f64) -> f64, scale: f64| {
        let mean: Vec<_> = months.iter().map(|&t| f(t)).collect();
        Curve::gaussian(&months, &mean, &months.iter().map(|&t| scale * spread(t)).collect::<Vec<_>>())
    };
    let y: Vec<_> = months.iter().zip(normal(1, 360)).map(|(&t, e)| trend(t) + season(t) + 0.8 * e).collect();
    let decay = |rate: f64, floor: f64, seed: u64| -> Vec<f64> {
        normal(seed, 400).iter().enumerate().map(|(i, e)| floor + 900.0 / (1.0 + rate * i as f64) + 6.0 * e).collect()
    };
    let total = |t: f64| trend(t) + season(t);
    let wiggles = |seed: u64| {
        let phase = normal(seed, 4);
        move |t: f64| (0..4).map(|k| 0.6 * phase[k] * ((k + 1) as f64 * 0.5 * t + 9.0 * phase[k]).sin()).sum::<f64>()
    };
    let grid: Vec<f64> = (0..48).map(|i| -3.0 + f64::from(i) / 8.0).collect();
    let cells = || grid.iter().flat_map(|&v| grid.iter().map(move |&u| (u, v)));
    let nominal: Vec<_> = (1..20).map(|i| f64::from(i) / 20.0).collect();
    Data {
        trend: curve(&trend, 0.8),
        season: curve(&season, 0.4),
        curve: curve(&total, 1.0),
        x: months.clone(),
        y,
        paths: (0..5)
            .map(|seed| {
                let wiggle = wiggles(seed + 40);
                months.iter().map(|&t| total(t) + spread(t) * wiggle(t)).collect()
            })
            .collect(),
        losses: [decay(0.2, 120.0, 2), decay(0.05, 80.0, 3), decay(0.5, 200.0, 4)],
        seconds: (1..=400).map(|i| 0.031 * f64::from(i)).collect(),
        mean: cells().map(|(u, v)| (u * u + v * v).sqrt().cos() * 2.0 + 0.3 * u).collect(),
        sd: cells().map(|(u, v)| 0.1 + 0.08 * (u - 0.5).powi(2) + 0.05 * (v + 1.0).powi(2)).collect(),
        grid,
        places: [noise(5, 60), noise(6, 60)].map(|unit| unit.iter().map(|u| 5.5 * u - 2.75).collect()),
        observed: nominal
            .iter()
            .zip(noise(7, 19))
            .map(|(p, e)| (p - 0.25 * p * (1.0 - p) + 0.03 * (e - 0.5)).min(1.0))
            .collect(),
        nominal,
        pit: noise(8, 400)
            .into_iter()
            .map(|u| if u < 0.5 { 0.5 * (2.0 * u).powf(1.3) } else { 1.0 - 0.5 * (2.0 - 2.0 * u).powf(1.3) })
            .collect(),
    }
}

/// Every figure: its name, labels its text must hold, and how to save it.
fn figures(data: &Data) -> Vec<(&'static str, Vec<&'static str>, Save<'_>)> {
    let frame = Frame { title: "CO₂ & <growth>", x: "year", y: "CO₂ [ppm]", ..Frame::default() };
    let split = 240;
    let (training, held_out) =
        (Points { x: &data.x[..split], y: &data.y[..split] }, Points { x: &data.x[split..], y: &data.y[split..] });
    let mark = Some((2010.0, "forecast from 2010"));
    let runs = [("matheron", 0), ("cholesky", 1), ("inducing points", 2)];
    let runs = move || runs.map(|(name, i)| Run { name, loss: &data.losses[i], seconds: &data.seconds });
    let named = |title| Frame { title, ..Frame::default() };
    vec![
        (
            "posterior1d",
            vec![
                "CO₂ &amp; &lt;growth&gt;",
                "year",
                "CO₂ [ppm]",
                "forecast from 2010",
                "training data",
                "held-out data",
                "95 % band",
                "2000",
            ],
            Box::new(move |path| Posterior1d { curve: &data.curve, training, held_out, mark, frame }.save(path)),
        ),
        (
            "components",
            vec!["sum of all", "trend", "season", "year", "forecast from 2010"],
            Box::new(move |path| {
                let parts = [
                    Component { title: "trend", curve: &data.trend },
                    Component { title: "season", curve: &data.season },
                ];
                let total = Component { title: "sum of all", curve: &data.curve };
                Components { total, parts: &parts, training, held_out, mark, frame }.save(path)
            }),
        ),
        (
            "posterior2d",
            vec!["Mean", "Standard deviation", "training data", "longitude", "latitude", "−2"],
            Box::new(move |path| {
                let training = Points { x: &data.places[0], y: &data.places[1] };
                let frame = Frame { x: "longitude", y: "latitude", ..named("Posterior of the field") };
                Posterior2d {
                    x: &data.grid,
                    y: &data.grid,
                    mean: &data.mean,
                    sd: &data.sd,
                    training,
                    held_out: training,
                    frame,
                }
                .save(path)
            }),
        ),
        (
            "decision",
            vec!["Probability", "latent function", "spam", "probability 0.5", "longitude", "latitude", "0.8"],
            Box::new(move |path| {
                let points = Points { x: &data.places[0], y: &data.places[1] };
                let classes = [("mail", Points::default()), ("spam", points)];
                let probability: Vec<f64> = data.mean.iter().map(|m| 1.0 / (1.0 + (-m).exp())).collect();
                let frame = Frame { x: "longitude", y: "latitude", ..named("Spam against mail") };
                let (x, y) = (&data.grid, &data.grid);
                Decision { x, y, probability: &probability, sd: &data.sd, of: None, classes, frame }.save(path)
            }),
        ),
        (
            "fields",
            vec!["Actions", "learned", "eigenvectors", "largest magnitude"],
            Box::new(move |path| {
                let points = Points { x: &data.places[0], y: &data.places[1] };
                let vectors = [normal(11, 60), normal(12, 60), vec![0.0; 60]];
                let rows = [("learned", &vectors[..2]), ("eigenvectors", &vectors[..])];
                let rows = rows.map(|(name, vectors)| Row { name, vectors });
                Fields { points, rows: &rows, frame: named("Actions") }.save(path)
            }),
        ),
        (
            "panels",
            vec!["Two panels", "above", "below", "kept", "all", "year"],
            Box::new(move |path| {
                let (x, y) = (data.x.clone(), data.y.clone());
                let band = data.curve.band95.clone();
                let series = |name: &str, layers| Series { name: name.into(), layers };
                let kept =
                    series("kept", vec![Layer::Band(data.curve.x.clone(), band), Layer::Line(x.clone(), y.clone())]);
                let all = series("all", vec![Layer::Points(x.clone(), y.clone())]);
                let panes = [
                    Pane { title: "above".into(), series: vec![kept.clone(), series("", vec![Layer::Line(x, y)])] },
                    Pane { title: "below".into(), series: vec![all, kept] },
                ];
                let frame = Frame { x: "year", ..named("Two panels") };
                Panels { panes: &panes, logarithmic: false, frame }.save(path)
            }),
        ),
        (
            "reliability",
            vec!["confidence", "accuracy", "perfect calibration", "95 % of calibrated models", "n = 100", "share"],
            Box::new(move |path| Reliability { bins: &BINS, frame: named("Confidence and accuracy") }.save(path)),
        ),
        (
            "calibration",
            vec!["nominal level", "observed coverage", "F(y)", "density", "perfect calibration", "n = 400"],
            Box::new(move |path| {
                let frame = named("Calibration on held-out data");
                Calibration { nominal: &data.nominal, observed: &data.observed, pit: &data.pit, frame }.save(path)
            }),
        ),
        (
            "learning_curve",
            vec!["iteration", "loss", "matheron", "inducing points", "400"],
            Box::new(move |path| {
                LearningCurve { runs: &runs(), frame: named("Training"), ..Default::default() }.save(path)
            }),
        ),
        (
            "learning_curve_log",
            vec!["iteration", "10", "100"],
            Box::new(move |path| LearningCurve { runs: &runs(), logarithmic: true, ..Default::default() }.save(path)),
        ),
        (
            "learning_curve_seconds",
            vec!["seconds", "cholesky"],
            Box::new(move |path| {
                LearningCurve { runs: &runs(), against: Against::Seconds, ..Default::default() }.save(path)
            }),
        ),
        (
            "samples",
            vec!["sample paths", "95 % band", "mean", "year"],
            Box::new(move |path| {
                let training = Points { x: &data.x[..60], y: &data.y[..60] };
                Samples { curve: &data.curve, paths: &data.paths, training, frame }.save(path)
            }),
        ),
    ]
}

const BINS: [(f64, f64, usize); 3] = [(0.3, 0.2, 10), (0.65, 0.7, 30), (0.96, 0.9, 60)];

/// A folder for the figures; if `CAGEY_FIGURES` names one, it is kept for the reader.
fn folder() -> (PathBuf, Option<tempfile::TempDir>) {
    match std::env::var_os("CAGEY_FIGURES") {
        Some(kept) => (kept.into(), None),
        None => {
            let folder = tempfile::tempdir().unwrap();
            (folder.path().to_path_buf(), Some(folder))
        }
    }
}

/// Width, height and RGB bytes of a PNG with eight bits a channel.
fn decode_png(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut packed) = (8, Vec::new());
    while at < bytes.len() {
        let length = word(at);
        if &bytes[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&bytes[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let (width, height) = (word(16), word(20));
    let mut rows = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut rows).unwrap();
    let stride = 3 * width;
    assert_eq!(rows.len(), height * (stride + 1));
    let mut image = vec![0_u8; height * stride];
    for (y, row) in rows.chunks(stride + 1).enumerate() {
        for x in 0..stride {
            let pixel = |back: usize, up: usize| {
                if x < back || y < up { 0 } else { i32::from(image[(y - up) * stride + x - back]) }
            };
            let (a, b, c) = (pixel(3, 0), pixel(0, 1), pixel(3, 1));
            let p = a + b - c;
            let paeth = [a, b, c].into_iter().min_by_key(|v| (p - v).abs()).unwrap();
            let predicted = [0, a, b, (a + b) / 2, paeth][usize::from(row[0])];
            image[y * stride + x] = row[x + 1].wrapping_add(predicted as u8);
        }
    }
    (width, height, image)
}

#[test]
fn svg_figures_hold_their_labels() {
    let data = data();
    let (folder, _guard) = folder();
    for (name, labels, save) in figures(&data) {
        let path = folder.join(format!("{name}.svg"));
        save(&path).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        assert!(
            svg.starts_with("<svg width=\"1000\" ") && svg.contains("viewBox=\"0 0 3000 "),
            "{name}: {}",
            &svg[..90]
        );
        assert!(svg.trim_end().ends_with("</svg>"), "{name}");
        let texts: Vec<_> = svg.lines().collect();
        for label in labels {
            assert!(texts.iter().any(|line| line.contains(label)), "{name} lacks `{label}`");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
}

#[test]
fn png_figures_have_the_size_asked_for_and_show_something() {
    let data = data();
    let (folder, _guard) = folder();
    for (name, _, save) in figures(&data) {
        let path = folder.join(format!("{name}.png"));
        save(&path).unwrap();
        let (width, height, image) = decode_png(&fs::read(&path).unwrap());
        assert!(width == 1000 && height >= 500, "{name}: {width} x {height}");
        let dark = image.chunks(3).filter(|rgb| rgb.iter().all(|&channel| channel < 100)).count();
        assert!(dark > 500, "{name}: text and axes are missing ({dark} dark pixels)");
        let mut colours: Vec<_> = image.chunks(3).collect();
        colours.sort_unstable();
        colours.dedup();
        assert!(colours.len() > 100, "{name}: {} colours", colours.len());
        let border = image.chunks(3 * width).flat_map(|row| [&row[..12], &row[row.len() - 12..]]).flatten();
        assert!(border.copied().all(|channel| channel == 255), "{name}: something is clipped at the border");
    }
}

#[test]
fn the_size_is_the_frames() {
    let folder = tempfile::tempdir().unwrap();
    let curve = Curve::gaussian(&[0.0, 1.0], &[0.0, 1.0], &[1.0, 1.0]);
    let figure =
        |size| Posterior1d { frame: Frame { size: Some(size), ..Frame::default() }, ..Posterior1d::new(&curve) };
    let path = folder.path().join("Small.PNG");
    figure((320, 240)).save(&path).unwrap();
    let (width, height, _) = decode_png(&fs::read(&path).unwrap());
    assert_eq!((width, height), (320, 240));
    for size in [(0, 300), (300, 100), (100_000, 300), (u32::MAX, u32::MAX)] {
        assert!(matches!(figure(size).save(&path), Err(Error::Usage(problem)) if problem.contains("size")));
    }
}

#[test]
fn other_endings_are_refused_and_both_formats_named() {
    let data = data();
    for (name, _, save) in figures(&data) {
        for path in ["figure.pdf", "figure", ".svg"] {
            let failed = save(Path::new(path));
            let told =
                matches!(&failed, Err(Error::Usage(problem)) if problem.contains(".svg") && problem.contains(".png"));
            assert!(told, "{name}: {failed:?}");
        }
    }
}

#[test]
fn unwritable_places_are_named_and_leave_nothing() {
    let curve = Curve::gaussian(&[0.0, 1.0], &[0.0, 1.0], &[1.0, 1.0]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "not a folder").unwrap();
    let directory = folder.path().join("directory.png");
    fs::create_dir(&directory).unwrap();
    for path in [file.join("a.svg"), folder.path().join("none").join("a.png"), directory] {
        let failed = Posterior1d::new(&curve).save(&path);
        assert!(matches!(&failed, Err(Error::Io { path: named, .. }) if Path::new(named) == path), "{failed:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_failed_figure_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figure.svg");
    fs::write(&path, "before").unwrap();
    let empty = Curve::default();
    assert!(Posterior1d::new(&empty).save(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"before");
}

#[test]
fn nothing_to_draw_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figure.svg");
    let nan = [f64::NAN; 3];
    let (empty, gaps) = (Curve::default(), Curve::gaussian(&[0.0, 1.0, 2.0], &nan, &nan));
    let good = Curve::gaussian(&[0.0, 1.0], &[0.0, 1.0], &[1.0, 1.0]);
    let (points, frame) = (Points::default(), Frame::default());
    let total = Component { title: "sum", curve: &good };
    let refused = [
        Posterior1d::new(&empty).save(&path),
        Posterior1d::new(&gaps).save(&path),
        Samples { curve: &good, paths: &[], training: points, frame }.save(&path),
        Components { total, parts: &[], training: points, held_out: points, mark: None, frame }.save(&path),
        Posterior2d::default().save(&path),
        Posterior2d { x: &[0.0], y: &[0.0], mean: &[1.0], sd: &[f64::NAN], ..Default::default() }.save(&path),
        Posterior2d { x: &[1.0, 0.0], y: &[0.0], mean: &[1.0; 2], sd: &[1.0; 2], ..Default::default() }.save(&path),
        Decision::default().save(&path),
        Reliability::default().save(&path),
        Calibration::default().save(&path),
        Calibration { nominal: &[0.5], observed: &[0.5], pit: &[1.5], frame }.save(&path),
        LearningCurve::default().save(&path),
        Panels::default().save(&path),
        Panels { panes: &[Pane { title: "a".into(), series: Vec::new() }], ..Default::default() }.save(&path),
        LearningCurve { runs: &[Run { name: "a", loss: &nan, seconds: &[] }], ..Default::default() }.save(&path),
    ];
    for (index, failed) in refused.iter().enumerate() {
        assert!(
            matches!(failed, Err(Error::Data(problem)) if problem.starts_with("figure")),
            "case {index}: {failed:?}"
        );
    }
    assert!(!path.exists());
}

#[test]
fn ticks_of_learning_curves_are_plain_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("curve.svg");
    let drawn = |loss: &[f64]| {
        let run = Run { name: "a", loss, seconds: &[] };
        LearningCurve { runs: &[run], ..Default::default() }.save(&path).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        svg.lines().map(str::trim).filter(|line| !line.starts_with('<')).map(String::from).collect::<Vec<_>>()
    };
    let labels = drawn(&[0.396_125, 0.396_112, 0.396_101]);
    assert!(labels.iter().any(|label| label.starts_with("0.39611")), "{labels:?}");
    assert!(!labels.iter().any(|label| label.contains("×10")), "{labels:?}");
    assert!(labels.contains(&"2".to_string()) && !labels.contains(&"1.5".to_string()), "{labels:?}");
    assert!(drawn(&[4e7, 1e7]).iter().any(|label| label.contains("×10")));
}

#[test]
fn lengths_must_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figure.svg");
    let good = Curve::gaussian(&[0.0, 1.0], &[0.0, 1.0], &[1.0, 1.0]);
    let short = Curve::gaussian(&[0.0, 1.0], &[0.0, 1.0], &[1.0]);
    let frame = Frame::default();
    let uneven = Points { x: &[1.0], y: &[] };
    let runs = [Run { name: "a", loss: &[1.0, 2.0], seconds: &[1.0] }];
    let refused = [
        Posterior1d::new(&short).save(&path),
        Posterior1d { training: uneven, ..Posterior1d::new(&good) }.save(&path),
        Samples { curve: &good, paths: &[vec![0.0]], training: Points::default(), frame }.save(&path),
        Posterior2d { x: &[0.0, 1.0], y: &[0.0], mean: &[1.0], sd: &[1.0; 2], ..Default::default() }.save(&path),
        Calibration { nominal: &[0.5], observed: &[], pit: &[0.5], frame }.save(&path),
        LearningCurve { runs: &runs, against: Against::Seconds, ..Default::default() }.save(&path),
        Panels {
            panes: &[Pane {
                title: "a".into(),
                series: vec![Series { name: "b".into(), layers: vec![Layer::Line(vec![0.0, 1.0], vec![0.0])] }],
            }],
            ..Default::default()
        }
        .save(&path),
    ];
    for (index, failed) in refused.iter().enumerate() {
        assert!(matches!(failed, Err(Error::Shape { .. })), "case {index}: {failed:?}");
    }
}

#[test]
fn odd_values_are_drawn_or_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let heights: [&[f64]; 8] = [
        &[3.0, 3.0, 3.0],
        &[0.0, 0.0, 0.0],
        &[f64::NAN, 1.0, f64::INFINITY],
        &[-1e300, 0.0, 1e300],
        &[f64::MIN, f64::MAX, 1.0],
        &[1e-320, 0.0, 5e-324],
        &[1e9, 1e9 + 1e-3, 1e9 + 2e-3],
        &[1e-12, 5e-12, -3e-12],
    ];
    for (index, y) in heights.into_iter().enumerate() {
        for x in [y, &[2.0, 0.0, 1.0]] {
            let curve = Curve::gaussian(x, y, &[0.0; 3]);
            let training = Points { x, y };
            for extension in ["svg", "png"] {
                let path = folder.path().join(format!("{index}.{extension}"));
                Posterior1d { training, mark: Some((x[2], "here")), ..Posterior1d::new(&curve) }.save(&path).unwrap();
            }
            let svg = fs::read_to_string(folder.path().join(format!("{index}.svg"))).unwrap();
            assert!(!svg.contains("NaN"), "case {index}");
            assert!(svg.matches("<text").count() >= 5, "case {index}: ticks are missing");
        }
        let runs = [Run { name: "run", loss: y, seconds: y }];
        for (against, logarithmic) in [(Against::Iteration, true), (Against::Iteration, false)] {
            let figure = LearningCurve { runs: &runs, against, logarithmic, frame: Frame::default() };
            figure.save(folder.path().join("loss.svg")).unwrap();
        }
    }
}

#[test]
fn coverages_that_are_no_shares_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, nominal: &[f64], observed: &[f64], pit: &[f64]| {
        let path = folder.path().join(name);
        Calibration { nominal, observed, pit, frame: Frame::default() }.save(&path).unwrap();
        fs::read(path).unwrap()
    };
    let plain = save("a.svg", &[0.5, 0.9], &[0.4, 0.8], &[0.1, 0.5]);
    let odd = save("b.svg", &[0.9, 1e200, 0.5, 0.6], &[0.8, 0.5, 0.4, f64::NAN], &[0.1, -1e9, 0.5, f64::INFINITY]);
    assert_eq!(plain, odd);
}

#[test]
fn long_names_and_many_panels_stay_inside() {
    let (folder, _guard) = folder();
    let data = data();
    let long = "a name that goes on and on, well beyond what anybody would want to read in a figure";
    let part = Component { title: long, curve: &data.season };
    let parts = [part; 7];
    let frame = Frame { title: &long.repeat(3), x: &long.repeat(3), y: &long.repeat(3), ..Frame::default() };
    let points = Points::default();
    let curve = Curve::gaussian(&[-1e-7, 2e-7], &[-1.234e9, -1.235e9], &[1e3, 1e3]);
    let runs: Vec<_> = (0..14).map(|_| Run { name: &long[..30], loss: &data.losses[0], seconds: &[] }).collect();
    let paths = ["stress-a.png", "stress-b.png", "stress-c.png"].map(|name| folder.join(name));
    Components { total: part, parts: &parts, training: points, held_out: points, mark: Some((1990.0, long)), frame }
        .save(&paths[0])
        .unwrap();
    Posterior1d { frame, mark: Some((2e-7, long)), ..Posterior1d::new(&curve) }.save(&paths[1]).unwrap();
    LearningCurve { runs: &runs, frame, ..Default::default() }.save(&paths[2]).unwrap();
    for path in paths {
        let (width, _, image) = decode_png(&fs::read(&path).unwrap());
        let border = image.chunks(3 * width).flat_map(|row| [&row[..12], &row[row.len() - 12..]]).flatten();
        assert!(border.copied().all(|channel| channel == 255), "{}: something is clipped", path.display());
    }
}

#[test]
fn the_order_of_the_curve_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, x: &[f64], mean: &[f64], path: Vec<f64>| {
        let curve = Curve::gaussian(x, mean, &[0.3; 4]);
        let file = folder.path().join(name);
        Samples { curve: &curve, paths: &[path], training: Points::default(), frame: Frame::default() }
            .save(&file)
            .unwrap();
        fs::read(file).unwrap()
    };
    let sorted = save("a.svg", &[0.0, 1.0, 2.0, 3.0], &[5.0, 6.0, 8.0, 7.0], vec![1.0, 2.0, 3.0, 4.0]);
    let shuffled = save("b.svg", &[2.0, 0.0, 3.0, 1.0], &[8.0, 5.0, 7.0, 6.0], vec![3.0, 1.0, 4.0, 2.0]);
    assert_eq!(sorted, shuffled);
}

#[test]
fn the_boundary_lies_where_the_probability_is_a_half() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figure.svg");
    // A probability that rises from 0.2 at x = 0 to 0.6 at x = 1 is a half at x = 0.75.
    let (x, y) = ([0.0, 1.0], [0.0, 1.0, 2.0]);
    let (probability, sd) = ([0.2, 0.6, 0.2, 0.6, 0.2, 0.6], [1.0; 6]);
    let figure = |probability| Decision { x: &x, y: &y, probability, sd: &sd, ..Decision::default() };
    figure(&probability).save(&path).unwrap();
    let svg = fs::read_to_string(&path).unwrap();
    // Cells extend half a step beyond their centres: x from −0.5 to 1.5, y from −0.5 to 2.5.
    let places = |line: &str| -> Vec<(f64, f64)> {
        let points = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok()).unwrap();
        let pair = |point: &str| (number(point.split(',').next()), number(point.split(',').nth(1)));
        points.split_whitespace().map(pair).collect()
    };
    let drawn = |pen: &str| -> Vec<Vec<(f64, f64)>> {
        svg.lines().filter(|line| line.contains("<polyline") && line.contains(pen)).map(places).collect()
    };
    let halo = drawn("stroke=\"#FFFFFF\"");
    assert_eq!(halo.len(), 4, "two pieces in each of two panels");
    let axes = drawn("stroke=\"#8A9097\"");
    let across: Vec<_> = axes.iter().filter(|line| line[0].1 == line[1].1 && line[1].0 - line[0].0 > 300.0).collect();
    assert!(across.len() == 2, "{axes:?}");
    for piece in &halo {
        let axis = across.iter().find(|axis| axis[0].0 < piece[0].0 && piece[0].0 < axis[1].0).unwrap();
        for point in piece {
            let place = (point.0 - axis[0].0) / (axis[1].0 - axis[0].0);
            assert!((place - 1.25 / 2.0).abs() < 0.01, "{point:?} on {axis:?}");
        }
    }
    let problem = figure(&probability[..5]).save(&path);
    assert!(matches!(problem, Err(Error::Shape { .. })), "{problem:?}");
}

#[test]
fn parts_are_drawn_with_their_coefficients() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parts.svg");
    let x = [0.25, 0.5, 0.75];
    let part = |coefficient| PartPoints { points: Points { x: &x, y: &x }, coefficient, technique: 1.0 };
    Parts { parts: &[part(0.4), part(-0.7)], ..Parts::default() }.save(&path).unwrap();
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.contains("Inducing inputs") && svg.contains("Coefficients"));
    assert!(matches!(Parts::default().save(&path), Err(Error::Data(_))));
    let short = PartPoints { points: Points { x: &x, y: &x[..2] }, ..PartPoints::default() };
    assert!(matches!(Parts { parts: &[short], ..Parts::default() }.save(&path), Err(Error::Shape { .. })));
}
