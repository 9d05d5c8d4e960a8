//! Kernels as text.

use std::fmt::Write;

use super::Kernel;
use crate::params::Parameter;

/// Prints a kernel so that [`parse`](super::text::parse) reads it back, with every value and fixed parameter.
pub(super) fn print(kernel: &Kernel, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    match kernel {
        Kernel::Leaf(leaf) => {
            let mut arguments: Vec<String> = leaf.form.options().iter().map(|(o, v)| format!("{o}={v}")).collect();
            arguments.extend(leaf.parameters.iter().map(|p| format!("{}={}", p.name, numbers(&p.values()))));
            if let Some(dims) = &leaf.dims {
                arguments.push(format!("dims={dims:?}"));
            }
            arguments.extend(fixed(&leaf.parameters));
            write!(f, "{}({})", leaf.form.name(), arguments.join(", "))
        }
        Kernel::Sum(parts) => {
            for (i, part) in parts.iter().enumerate() {
                f.write_str(if i == 0 { "" } else { " + " })?;
                print(part, f)?;
            }
            Ok(())
        }
        Kernel::Product(parts) => {
            for (i, part) in parts.iter().enumerate() {
                f.write_str(if i == 0 { "" } else { " * " })?;
                if matches!(part, Kernel::Sum(_)) {
                    f.write_char('(')?;
                    print(part, f)?;
                    f.write_char(')')?;
                } else {
                    print(part, f)?;
                }
            }
            Ok(())
        }
        Kernel::Transformed(t) => {
            write!(f, "{}(", t.transform.name())?;
            print(&t.kernel, f)?;
            if t.transform.with_dim(1).is_some() {
                write!(f, ", dim={}", t.transform.output_dim(0))?;
            }
            for p in &t.parameters {
                write!(f, ", {}={}", p.name, numbers(&p.values()))?;
            }
            if let Some(part) = fixed(&t.parameters) {
                write!(f, ", {part}")?;
            }
            f.write_char(')')
        }
    }
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
