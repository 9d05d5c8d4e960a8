//! Kernel text: printed text can be read back, and errors point to the place.

use cagey::Error;
use cagey::kernels::Kernel;
use cagey::params::Parameters;
use proptest::prelude::*;

/// Number of input columns of the kernels here.
const D: usize = 4;

fn value() -> impl Strategy<Value = f64> {
    (1.0..10.0f64, -6..6i32).prop_map(|(mantissa, exponent)| mantissa * 10f64.powi(exponent))
}

fn dims(d: usize) -> impl Strategy<Value = Option<Vec<usize>>> {
    proptest::option::of(proptest::sample::subsequence((0..d).collect::<Vec<_>>(), 1..=d).prop_shuffle())
}

/// A call of a form, each argument present or not.
fn leaf(d: usize) -> impl Strategy<Value = String> {
    const FORMS: [(&str, &str, &str, bool); 9] = [
        ("rbf", "lengthscale", "variance", true),
        ("matern12", "lengthscale", "variance", true),
        ("matern32", "lengthscale", "variance", true),
        ("matern52", "lengthscale", "variance", true),
        ("rq", "lengthscale", "variance", true),
        ("periodic", "period", "variance", false),
        ("linear", "variance", "variance", false),
        ("constant", "variance", "variance", false),
        ("white", "variance", "variance", false),
    ];
    let numbers = (value(), value(), proptest::collection::vec(value(), d));
    (0..FORMS.len(), dims(d), numbers, any::<[bool; 5]>()).prop_map(
        move |(form, dims, (first, second, each), [with_first, with_second, ard, list, fix])| {
            let (name, parameter, other, takes_ard) = FORMS[form];
            let active = dims.as_ref().map_or(d, Vec::len);
            let mut arguments = Vec::new();
            match (takes_ard && ard, list) {
                (true, true) => arguments.push(format!("{parameter}={:?}", &each[..active])),
                (true, false) => arguments.push("ard".to_string()),
                (false, _) if with_first => arguments.push(format!("{parameter}={first:?}")),
                _ => {}
            }
            if with_second && other != parameter {
                arguments.push(format!("{other}={second:?}"));
            }
            arguments.extend(dims.map(|dims| format!("dims={dims:?}")));
            if fix {
                arguments.push(if list { format!("fix=[{other}]") } else { format!("fix={parameter}") });
            }
            if arguments.is_empty() { name.to_string() } else { format!("{name}({})", arguments.join(", ")) }
        },
    )
}

fn expression(d: usize) -> BoxedStrategy<String> {
    let simple = prop_oneof![
        6 => leaf(d),
        1 => (1..4usize).prop_map(|q| format!("spectral_mixture(components={q})")),
        1 => (1..3usize).prop_map(|order| format!("wiener(order={order}, lengthscale=2.5)")),
        1 => (1..4usize).prop_map(|p| format!("polynomial(power={p}, offset=0.5)")),
        1 => (1..3usize, leaf(1)).prop_map(|(dim, inner)| {
            let inner = if dim == 1 { inner } else { "rbf(ard)".to_string() };
            format!("projection({inner}, dim={dim}, fix=weights)")
        }),
    ];
    simple
        .prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" + "))),
                proptest::collection::vec(inner.clone(), 2..4).prop_map(|parts| parts.join(" * ")),
                (value(), inner).prop_map(|(scale, kernel)| format!("{scale:?} * {kernel}")),
            ]
        })
        .boxed()
}

fn parse(text: &str) -> Kernel {
    Kernel::parse(text, D).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

proptest! {
    #[test]
    fn printed_kernels_are_read_back(text in expression(D)) {
        let kernel = parse(&text);
        let printed = kernel.to_string();
        let again = parse(&printed);
        prop_assert_eq!(again.to_string(), &printed[..]);
        prop_assert_eq!(again.shape(), kernel.shape());
        let (ours, theirs) = (kernel.parameters(), again.parameters());
        prop_assert_eq!(ours.len(), theirs.len());
        for ((path, a), (other, b)) in ours.into_iter().zip(theirs) {
            prop_assert_eq!((&path, a.fixed, a.len(), a.unit), (&other, b.fixed, b.len(), b.unit));
            prop_assert_eq!(a.constraint(), b.constraint());
            for (x, y) in a.values().iter().zip(b.values()) {
                prop_assert!((x - y).abs() <= 1e-12 * x.abs(), "{} of {}: {} and {}", path, printed, x, y);
            }
        }
    }

    #[test]
    fn no_text_panics(text in r"[a-z0-9_ ()\[\],.=*+$é\-]{0,40}") {
        let _ = Kernel::parse(&text, D);
    }

    #[test]
    fn nearly_right_text_is_refused_in_one_place(text in expression(D), at in 0.0..1.0f64, junk in "[$?;]") {
        let at = (at * text.len() as f64) as usize;
        let broken = format!("{}{junk}{}", &text[..at], &text[at..]);
        match Kernel::parse(&broken, D) {
            Err(Error::KernelText { text, pointer, .. }) => {
                // The pointer marks the junk itself, or the number that the junk breaks.
                let (first, last) = (pointer.find('^').unwrap(), pointer.chars().count());
                let marked = text.chars().take(last + 1).skip(first).any(|c| junk.contains(c));
                prop_assert!(marked, "{}\n{}", text, pointer);
            }
            other => prop_assert!(false, "{}: {:?}", broken, other.map(|kernel| kernel.to_string())),
        }
    }
}

#[test]
fn values_dims_and_scales_mean_what_they_say() {
    let of = |text: &str, path: &str| {
        let kernel = parse(text);
        let parameters = kernel.parameters();
        parameters.iter().find(|(p, _)| p == path).unwrap_or_else(|| panic!("{path} in {text}")).1.values()
    };
    let close = |a: Vec<f64>, b: &[f64]| {
        assert!(a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12 * b), "{a:?} {b:?}");
    };
    close(of("rbf(2)", "rbf.lengthscale"), &[2.0]);
    close(of("rbf([2, 3, 4, 5])", "rbf.lengthscale"), &[2.0, 3.0, 4.0, 5.0]);
    close(of("rbf(lengthscale=[2, 3], dims=[3, 1])", "rbf.lengthscale"), &[2.0, 3.0]);
    close(of("2 * 3 * rbf(variance=4)", "rbf.variance"), &[24.0]);
    close(of("rbf * 3 * matern32(variance=2)", "rbf.variance"), &[3.0]);
    close(of("5 * (rbf + white)", "constant.variance"), &[5.0]);
    assert_eq!(of("rbf(ard, dims=[1, 2])", "rbf.lengthscale").len(), 2);
    assert_eq!(of("rbf + rbf(7)", "rbf2.lengthscale").len(), 1);
}

#[test]
fn errors_point_at_the_place() {
    for (text, part, word) in [
        ("rbff", "rbff", "did you mean `rbf`"),
        ("rbf + Matern(ard)", "Matern", "did you mean `matern"),
        ("rbf + * white", "*", "expected a kernel"),
        ("(rbf + white", "", "expected `)`"),
        ("rbf) + white", ")", "the end"),
        ("rbf white", "white", "expected `+`"),
        ("rbf(ard", "", "`)`"),
        ("rbf(lenghtscale=1)", "lenghtscale=1", "did you mean `lengthscale`"),
        ("rbf(lengthscale=1e999)", "1e999", "finite"),
        ("rbf(lengthscale=-1)", "lengthscale=-1", "positive"),
        ("rbf(1, 2)", "2", "twice"),
        ("rbf(dims=[4])", "dims=[4]", "0 to 3"),
        ("rbf(dims=[1, 1])", "dims=[1, 1]", "column 1 twice"),
        ("rbf(lengthscale=[1, 2])", "lengthscale=[1, 2]", "1 or 4 numbers, got 2"),
        ("rbf(fix=lenght)", "fix=lenght", "did you mean `lengthscale`"),
        ("rbf(fix=1)", "fix=1", "names of parameters"),
        ("white + 0 * rbf", "0", "positive"),
        ("rbf + 3", "3", "number alone"),
        ("rbf $ white", "$", "unexpected"),
        ("rbf + é", "é", "unexpected"),
        ("polynomial(power=99)", "power=99", "large"),
        ("spectral_mixture(components=1.5)", "components=1.5", "whole"),
        ("projection(dim=2)", "projection", "needs a kernel"),
        ("projection(rbf, dim=0)", "0", "columns"),
        ("projection(rbf, white)", "white", "expected"),
        ("projection(rbf, dim=2, weights=[1, 2])", "weights=[1, 2]", "8"),
        ("", "", "expected a kernel"),
    ] {
        let Err(Error::KernelText { problem, text: shown, pointer }) = Kernel::parse(text, D) else {
            panic!("`{text}` is no error of kernel text")
        };
        assert!(problem.contains(word), "`{text}`: {problem}");
        assert_eq!(shown, text);
        let start = pointer.find('^').unwrap();
        let expected = if part.is_empty() { text.len() } else { text.rfind(part).unwrap() };
        let marked: String = shown.chars().skip(start).take(pointer.len() - start).collect();
        assert_eq!((start, marked.as_str()), (expected, part), "{problem}\n{shown}\n{pointer}");
    }
}

#[test]
fn depth_is_limited_and_long_text_is_shown_in_part() {
    let nested = |open: &str, depth: usize| format!("{}rbf{}", open.repeat(depth), ")".repeat(depth));
    for open in ["(", "projection(", "white + 2 * (", "rbf(lengthscale="] {
        let error = Kernel::parse(&nested(open, 10_000), D).unwrap_err().to_string();
        assert!(error.contains("nested deeper") && error.len() < 1000, "{error}");
    }
    parse(&nested("(", 90));
    let long = vec!["rbf"; 300].join(" + ") + " + rbff";
    let Err(Error::KernelText { text, pointer, .. }) = Kernel::parse(&long, D) else { panic!() };
    assert!(text.starts_with('…') && text.ends_with("rbff"), "{text}");
    assert_eq!(text.chars().count(), pointer.chars().count(), "{text}\n{pointer}");
}
