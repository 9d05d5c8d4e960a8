//! Kernels as text.

use super::Kernel;
use crate::params::Parameter;

impl Kernel {
    /// The kernel's structure without its numbers, such as `periodic * rbf`.
    pub fn shape(&self) -> String {
        match self {
            Self::Leaf(leaf) => leaf.form.name().to_string(),
            Self::Sum(parts) => joined(parts, " + ", Self::shape),
            Self::Product(parts) => joined(parts, " * ", Self::shape),
            Self::Transformed(t) => format!("{}({})", t.transform.name(), t.kernel.shape()),
        }
    }
}

/// The text that [`parse`](super::text::parse) reads back, with every value and fixed parameter.
impl std::fmt::Display for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(self))
    }
}

fn text(kernel: &Kernel) -> String {
    let (name, parameters, mut arguments) = match kernel {
        Kernel::Sum(parts) => return joined(parts, " + ", text),
        Kernel::Product(parts) => return joined(parts, " * ", text),
        Kernel::Leaf(leaf) => {
            let options = leaf.form.options().into_iter().map(|(option, value)| format!("{option}={value}"));
            (leaf.form.name(), &leaf.parameters, options.collect::<Vec<_>>())
        }
        Kernel::Transformed(t) => {
            let dim = t.transform.with_dim(1).map(|_| format!("dim={}", t.transform.output_dim(0)));
            (t.transform.name(), &t.parameters, std::iter::once(text(&t.kernel)).chain(dim).collect())
        }
    };
    arguments.extend(parameters.iter().map(|p| format!("{}={}", p.name, numbers(&p.values()))));
    if let Kernel::Leaf(super::Leaf { dims: Some(dims), .. }) = kernel {
        arguments.push(format!("dims={dims:?}"));
    }
    arguments.extend(fixed(parameters));
    format!("{name}({})", arguments.join(", "))
}

/// A sum or a product of the texts that `of` makes of its parts.
fn joined(parts: &[Kernel], with: &str, of: impl Fn(&Kernel) -> String) -> String {
    let shown = |part: &Kernel| match part {
        Kernel::Sum(_) => format!("({})", of(part)),
        _ => of(part),
    };
    parts.iter().map(shown).collect::<Vec<_>>().join(with)
}

fn numbers(values: &[f64]) -> String {
    match values {
        [value] => format!("{value:?}"),
        _ => format!("{values:?}"),
    }
}

fn fixed(parameters: &[Parameter]) -> Option<String> {
    let names: Vec<&str> = parameters.iter().filter(|p| p.fixed).map(|p| p.name.as_str()).collect();
    match names.as_slice() {
        [] => None,
        [one] => Some(format!("fix={one}")),
        many => Some(format!("fix=[{}]", many.join(", "))),
    }
}
