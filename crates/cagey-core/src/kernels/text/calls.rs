//! Calls in kernel text: a form or a transform with its arguments.

use std::ops::Range;

use super::super::tokens::Token;
use super::super::{Kernel, Leaf, Transformed};
use super::{Argument, Parser, Value};
use crate::error::Result;
use crate::suggest::hint;

impl Parser<'_> {
    pub(super) fn call(&mut self, name: &str, span: Range<usize>, d: usize) -> Result<Kernel> {
        if self.registry.transform(name).is_some() {
            return self.transform_call(name, span, d);
        }
        let Some(mut form) = self.registry.form(name) else {
            let hint = hint(name, &self.registry.names(), "there are");
            return Err(self.error(span, format!("unknown kernel `{name}`; {hint}")));
        };
        let arguments = self.arguments(d)?;
        let mut dims = None;
        for argument in &arguments {
            match (argument.name.as_deref(), &argument.value) {
                (Some("dims"), Value::Numbers(numbers)) => dims = Some(self.dims(numbers, &argument.span, d)?),
                (Some("dims"), Value::Names(names)) => {
                    dims = Some(self.dims(&self.places(names, &argument.span)?, &argument.span, d)?);
                }
                (Some(option), Value::Numbers(numbers)) if form.options().iter().any(|(o, _)| *o == option) => {
                    let error = |problem: String| self.error(argument.span.clone(), problem);
                    let &[value] = numbers.as_slice() else {
                        return Err(error(format!("`{option}` takes one number")));
                    };
                    if value < 1.0 || value.fract() != 0.0 {
                        return Err(error(format!("`{option}` must be a whole number of at least 1")));
                    }
                    let with = form.with_option(option, value as usize);
                    form = with.ok_or_else(|| error(format!("`{option}` of `{name}` is too large")))?;
                }
                _ => {}
            }
        }
        let active = dims.as_ref().map_or(d, Vec::len);
        let mut leaf = Leaf { parameters: form.parameters(active), form, dims };
        for argument in &arguments {
            self.apply(&mut leaf, argument, active)?;
        }
        Ok(Kernel::Leaf(leaf))
    }

    /// The positions of the columns with these names.
    fn places(&self, names: &[String], span: &Range<usize>) -> Result<Vec<f64>> {
        let mut found = Vec::new();
        for name in names {
            let exact = |column: &String| column == name;
            let category =
                |column: &String| column.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('='));
            let of = |is: &dyn Fn(&String) -> bool| {
                let places = self.columns.iter().enumerate().filter(|(_, column)| is(column));
                places.map(|(place, _)| place as f64).collect::<Vec<_>>()
            };
            let places = if self.columns.iter().any(exact) { of(&exact) } else { of(&category) };
            if places.is_empty() {
                let problem = match self.columns {
                    [] => "columns have no names here: give dims as 0-based numbers".to_string(),
                    columns => format!("no input column `{name}`; {}", hint(name, columns, "there are")),
                };
                return Err(self.error(span.clone(), problem));
            }
            found.extend(places);
        }
        Ok(found)
    }

    fn dims(&self, numbers: &[f64], span: &Range<usize>, d: usize) -> Result<Vec<usize>> {
        let valid = |c: f64| c >= 0.0 && c.fract() == 0.0 && (c as usize) < d;
        if numbers.is_empty() || !numbers.iter().all(|&c| valid(c)) {
            let problem = match d {
                1 => "dims are 0-based input columns; here there is one, dims=[0]".to_string(),
                _ => format!("dims are 0-based input columns, here 0 to {}", d.saturating_sub(1)),
            };
            return Err(self.error(span.clone(), problem));
        }
        let dims: Vec<usize> = numbers.iter().map(|&c| c as usize).collect();
        match (0..dims.len()).find(|&i| dims[..i].contains(&dims[i])) {
            Some(i) => Err(self.error(span.clone(), format!("dims holds column {} twice", dims[i]))),
            None => Ok(dims),
        }
    }

    fn apply(&self, leaf: &mut Leaf, argument: &Argument, active: usize) -> Result<()> {
        let names: Vec<String> = leaf.parameters.iter().map(|p| p.name.clone()).collect();
        let error = |problem: String| self.error(argument.span.clone(), problem);
        let unknown = |name: &str| {
            let options: Vec<&str> = leaf.form.options().into_iter().map(|(o, _)| o).collect();
            let valid: Vec<&str> = names.iter().map(String::as_str).chain(options).chain(["dims", "fix"]).collect();
            error(format!("`{}` has no `{name}`; {}", leaf.form.name(), hint(name, &valid, "there are")))
        };
        let ard = leaf.form.ard().iter().map(ToString::to_string).collect::<Vec<_>>();
        let spread = |leaf: &mut Leaf, which: &str| {
            for p in leaf.parameters.iter_mut().filter(|p| p.name == which && p.len() == 1) {
                let value = p.values()[0];
                p.resize(&vec![value; active]);
            }
        };
        match (argument.name.as_deref(), &argument.value) {
            (Some("dims"), Value::Numbers(_) | Value::Names(_)) => Ok(()),
            (Some(option), Value::Numbers(_)) if leaf.form.options().iter().any(|(o, _)| *o == option) => Ok(()),
            (Some("fix"), Value::Names(fixed)) => {
                for name in fixed {
                    let Some(i) = names.iter().position(|n| n == name) else { return Err(unknown(name)) };
                    leaf.parameters[i].fixed = true;
                }
                Ok(())
            }
            (Some("fix"), _) => Err(error(format!("`fix` takes names of parameters: {}", names.join(", ")))),
            (name, Value::Names(words)) if words.len() == 1 && words[0] == "ard" => {
                let which = name.or(ard.first().map(String::as_str)).unwrap_or_default().to_string();
                if !ard.contains(&which) {
                    return Err(error(format!("`{}` has no parameter per column here", leaf.form.name())));
                }
                spread(leaf, &which);
                Ok(())
            }
            (name, Value::Numbers(numbers)) => {
                let name = name.unwrap_or(names[0].as_str());
                let Some(i) = names.iter().position(|n| n == name) else { return Err(unknown(name)) };
                let parameter = &mut leaf.parameters[i];
                if parameter.given {
                    return Err(error(format!("`{name}` is given twice; write several numbers as a list")));
                }
                let most = if ard.iter().any(|a| a == name) { active.max(parameter.len()) } else { parameter.len() };
                if ![1, parameter.len(), most].contains(&numbers.len()) {
                    let want = if most == 1 { "1 number".to_string() } else { format!("1 or {most} numbers") };
                    return Err(error(format!("`{name}` takes {want}, got {}", numbers.len())));
                }
                if numbers.iter().any(|v| *v <= 0.0) && parameter.constraint() != crate::params::Constraint::Real {
                    return Err(error(format!("`{name}` must be positive")));
                }
                let count = numbers.len().max(parameter.len());
                let values: Vec<f64> = (0..count).map(|k| numbers[k % numbers.len()]).collect();
                parameter.resize(&values);
                parameter.given = true;
                Ok(())
            }
            (Some(name), _) => Err(if names.iter().any(|n| n == name) || name == "dims" {
                error(format!("`{name}` takes a number or a list of numbers"))
            } else {
                unknown(name)
            }),
            (None, _) => Err(error("expected a number, `ard` or name=value".into())),
        }
    }

    fn transform_call(&mut self, name: &str, span: Range<usize>, d: usize) -> Result<Kernel> {
        // The inner kernel's number of columns depends on `dim=`, which may come after the kernel. So look ahead first,
        // then read.
        let start = self.at;
        let registered = self.registry.transform(name);
        let mut transform = registered.ok_or_else(|| self.error(span.clone(), "unknown transform"))?;
        let mut depth = 0usize;
        for i in start..self.tokens.len() {
            match &self.tokens[i].0 {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') if depth > 1 => depth -= 1,
                Token::Symbol(')') => break,
                Token::Name(option) if depth == 1 && option == "dim" => {
                    if let Some((Token::Number(value), at)) = self.tokens.get(i + 2) {
                        let valid = *value >= 1.0 && value.fract() == 0.0;
                        transform = valid.then(|| transform.with_dim(*value as usize)).flatten().ok_or_else(|| {
                            self.error(at.clone(), format!("`{name}` cannot make this number of columns"))
                        })?;
                    }
                }
                _ if depth == 0 => break,
                _ => {}
            }
        }
        let inner = transform.output_dim(d);
        let mut parameters = transform.parameters(d);
        let mut kernel = None;
        // The output columns of a transform have no names.
        let columns = std::mem::take(&mut self.columns);
        let arguments = self.arguments(inner)?;
        self.columns = columns;
        for argument in arguments {
            match (argument.name.as_deref(), argument.value) {
                (None, Value::Kernel(k)) if kernel.is_none() => kernel = Some(k),
                (Some("dim"), Value::Numbers(_)) => {}
                (Some(name), Value::Numbers(numbers)) => {
                    let known: Vec<String> = parameters.iter().map(|p| p.name.clone()).collect();
                    let Some(parameter) = parameters.iter_mut().find(|p| p.name == name) else {
                        let known: Vec<&str> = known.iter().map(String::as_str).chain(["dim", "fix"]).collect();
                        let hint = hint(name, &known, "there are");
                        let problem = format!("`{}` has no `{name}`; {hint}", transform.name());
                        return Err(self.error(argument.span, problem));
                    };
                    if parameter.len() != numbers.len() {
                        let problem = format!("`{name}` needs a list of {}, got {}", parameter.len(), numbers.len());
                        return Err(self.error(argument.span, problem));
                    }
                    parameter.put(&numbers);
                    parameter.given = true;
                }
                (Some("fix"), Value::Names(names)) => {
                    for name in &names {
                        let parameter = parameters.iter_mut().find(|p| p.name == *name);
                        let unknown = || self.error(argument.span.clone(), format!("no parameter `{name}` to fix"));
                        parameter.ok_or_else(unknown)?.fixed = true;
                    }
                }
                _ => return Err(self.error(argument.span, "expected a kernel, dim=… or weights=[…]")),
            }
        }
        let kernel = kernel.ok_or_else(|| self.error(span, format!("`{name}` needs a kernel: `{name}(rbf)`")))?;
        Ok(Kernel::Transformed(Transformed { transform, parameters, kernel: Box::new(kernel) }))
    }
}
