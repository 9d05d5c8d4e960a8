//! Kernels from text.
//!
//! ```text
#![doc = include_str!("grammar.txt")]
//! ```
//!
//! A positional number or list sets the form's first parameter. `ard` (positional or as a value) gives one entry per
//! active input column. `dims=[0, 2]` chooses the columns by 0-based number; columns with names can also be chosen by
//! name: `dims=["age", height]`. `fix=period` or `fix=[period, variance]` keeps values constant in training. A number
//! as a factor multiplies the variance of the kernel beside it. An input transform takes a kernel as its first
//! argument, and `dim=`. Numbers are in the units of the data. Values that are not given are chosen from the data
//! before training. Example: `matern32(ard) + 2.0 * periodic(period=1.0, dims=[0], fix=period) * rbf(50)`.

mod calls;

use std::ops::Range;

use super::Kernel;
use super::registry::Registry;
use super::tokens::{Token, error, tokenize};

/// The grammar of kernel expressions, as `--help` shows it.
pub const GRAMMAR: &str = include_str!("grammar.txt");
use crate::error::{Error, Result};
use crate::params::keeping_internal;

enum Value {
    Numbers(Vec<f64>),
    Names(Vec<String>),
    Kernel(Kernel),
}

struct Argument {
    name: Option<String>,
    span: Range<usize>,
    value: Value,
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    depth: usize,
    registry: &'a Registry,
    /// Names of the input columns, if they have names.
    columns: &'a [String],
}

/// How deep brackets may be nested: far more than anyone needs, far less than the stack can hold.
const DEEPEST: usize = 100;

/// The text of a kernel over `d` columns, to be read back. It does not depend on the units in which the kernel shows
/// its numbers.
pub fn form(kernel: &Kernel, d: usize) -> String {
    let mut kernel = kernel.clone();
    keeping_internal(&mut kernel, |kernel| kernel.set_units(&vec![1.0; d], 1.0));
    kernel.to_string()
}

/// Reads a kernel for inputs of `d` columns.
///
/// # Errors
/// [`Error::KernelText`], which points at the place and suggests the nearest valid name for a wrong one.
pub fn parse(text: &str, d: usize, registry: &Registry) -> Result<Kernel> {
    read(text, d, registry, &[])
}

/// Reads a kernel for named input columns. `dims` may use the names: `dims=["age", height]`. The name of a one-hot
/// encoded column of categories stands for all of its inputs.
///
/// # Errors
/// As [`parse`].
pub fn parse_named(text: &str, columns: &[String], registry: &Registry) -> Result<Kernel> {
    read(text, columns.len(), registry, columns)
}

fn read(text: &str, d: usize, registry: &Registry, columns: &[String]) -> Result<Kernel> {
    let mut parser = Parser { text, tokens: tokenize(text)?, at: 0, depth: 0, registry, columns };
    let kernel = parser.kernel(d)?;
    match parser.tokens.get(parser.at) {
        None => Ok(kernel),
        Some((_, span)) => Err(parser.error(span.clone(), "expected `+`, `*` or the end")),
    }
}

impl Parser<'_> {
    fn error(&self, span: Range<usize>, problem: impl Into<String>) -> Error {
        error(self.text, span, problem)
    }

    fn next_is(&self, symbol: char) -> bool {
        self.tokens.get(self.at).is_some_and(|(t, _)| *t == Token::Symbol(symbol))
    }

    fn accept(&mut self, symbol: char) -> bool {
        let yes = self.next_is(symbol);
        self.at += usize::from(yes);
        yes
    }

    fn here(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(self.text.len()..self.text.len(), |(_, span)| span.clone())
    }

    fn expect(&mut self, symbol: char) -> Result<()> {
        if self.accept(symbol) { Ok(()) } else { Err(self.error(self.here(), format!("expected `{symbol}`"))) }
    }

    /// Every recursion of the grammar passes through here.
    fn kernel(&mut self, d: usize) -> Result<Kernel> {
        if self.depth == DEEPEST {
            return Err(self.error(self.here(), format!("brackets are nested deeper than {DEEPEST}; write it flatter")));
        }
        self.depth += 1;
        let kernel = self.sum(d);
        self.depth -= 1;
        kernel
    }

    fn sum(&mut self, d: usize) -> Result<Kernel> {
        let mut terms = vec![self.product(d)?];
        while self.accept('+') {
            terms.push(self.product(d)?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Kernel::sum(terms) })
    }

    fn product(&mut self, d: usize) -> Result<Kernel> {
        let (mut scale, mut factors, start) = (None, Vec::new(), self.here());
        loop {
            match self.tokens.get(self.at).cloned() {
                Some((Token::Number(number), span)) => {
                    let product = scale.unwrap_or(1.0) * number;
                    if !(product > 0.0 && product.is_finite()) {
                        return Err(self.error(span, "factors must be positive, and their product finite"));
                    }
                    scale = Some(product);
                    self.at += 1;
                }
                Some((Token::Symbol('('), _)) => {
                    self.at += 1;
                    factors.push(self.kernel(d)?);
                    self.expect(')')?;
                }
                Some((Token::Name(name), span)) => {
                    self.at += 1;
                    factors.push(self.call(&name, span, d)?);
                }
                _ => return Err(self.error(self.here(), "expected a kernel such as `rbf` or `matern32(ard)`")),
            }
            if !self.accept('*') {
                break;
            }
        }
        let kernel = match factors.len() {
            0 => return Err(self.error(start, "a number alone is not a kernel; write `constant(variance=…)`")),
            1 => factors.remove(0),
            _ => Kernel::product(factors),
        };
        Ok(scale.map_or(kernel.clone(), |s| kernel.scaled(s)))
    }

    fn arguments(&mut self, d: usize) -> Result<Vec<Argument>> {
        let mut arguments = Vec::new();
        if !self.accept('(') {
            return Ok(arguments);
        }
        while !self.accept(')') {
            if !arguments.is_empty() && !self.accept(',') {
                return Err(self.error(self.here(), "expected `,` or `)`"));
            }
            let start = self.here().start;
            let name = match (self.tokens.get(self.at), self.tokens.get(self.at + 1)) {
                (Some((Token::Name(name), _)), Some((Token::Symbol('='), _))) => Some(name.clone()),
                _ => None,
            };
            self.at += if name.is_some() { 2 } else { 0 };
            let value = self.value(d)?;
            let span = start..self.tokens[self.at - 1].1.end;
            if let Some(name) = name.as_ref().filter(|_| arguments.iter().any(|a: &Argument| a.name == name)) {
                return Err(self.error(span, format!("`{name}` is given twice")));
            }
            arguments.push(Argument { name, span, value });
        }
        Ok(arguments)
    }

    fn value(&mut self, d: usize) -> Result<Value> {
        let ends =
            |token: Option<&(Token, Range<usize>)>| matches!(token, None | Some((Token::Symbol(',' | ')' | ']'), _)));
        match self.tokens.get(self.at).cloned() {
            Some((Token::Number(number), _)) if ends(self.tokens.get(self.at + 1)) => {
                self.at += 1;
                Ok(Value::Numbers(vec![number]))
            }
            Some((Token::Name(name), _))
                if ends(self.tokens.get(self.at + 1)) && self.registry.form(&name).is_none() =>
            {
                self.at += 1;
                Ok(Value::Names(vec![name]))
            }
            Some((Token::Quoted(name), _)) => {
                self.at += 1;
                Ok(Value::Names(vec![name]))
            }
            Some((Token::Symbol('['), _)) => {
                self.at += 1;
                self.list()
            }
            None => Err(self.error(self.here(), "expected a value and `)`")),
            _ => Ok(Value::Kernel(self.kernel(d)?)),
        }
    }

    fn list(&mut self) -> Result<Value> {
        let (mut numbers, mut names) = (Vec::new(), Vec::new());
        while !self.accept(']') {
            if numbers.len() + names.len() > 0 && !self.accept(',') {
                return Err(self.error(self.here(), "expected `,` or `]`"));
            }
            let span = self.here();
            match self.tokens.get(self.at).cloned() {
                Some((Token::Number(number), _)) if names.is_empty() => numbers.push(number),
                Some((Token::Name(name) | Token::Quoted(name), _)) if numbers.is_empty() => names.push(name),
                _ => return Err(self.error(span, "expected a list of numbers or of names, and `]`")),
            }
            self.at += 1;
        }
        Ok(if names.is_empty() { Value::Numbers(numbers) } else { Value::Names(names) })
    }
}
