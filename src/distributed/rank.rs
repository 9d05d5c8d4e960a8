//! A rank that does not lead: it reads rows, holds what is computed from them, and answers the leader's questions.

use super::Exchange;
use super::ask::{self, Ask, From, Held, Hold, Reply, Said, garbled, named};
use super::file::FileRows;
use super::ranks::take_signal;
use super::tables::{Opened, Reading, own_rows};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::blueprint::Blueprint;
use crate::models::experts;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::options::Context;
use crate::models::parts::batches::Place;
use crate::models::parts::rows::collected;
use crate::models::parts::{Data, Parts, Question};
use crate::models::posterior::SavedPosterior;
use crate::models::registry::Registry;

/// Does what the leader asks until it sends the last message. `arguments` are those with which this process was
/// started.
///
/// # Errors
/// [`Error::Device`] when the leader is gone.
pub fn serve(exchange: &dyn Exchange, registry: &Registry, arguments: &[String]) -> Result<()> {
    let mut rank = Rank { registry, arguments, opened: None, model: None, work: None };
    loop {
        let (mut ask, mut numbers) = ask::read(&exchange.broadcast(Vec::new())?)?;
        if matches!(ask, Ask::Each) {
            (ask, numbers) = ask::read(&exchange.scatter(Vec::new())?)?;
        }
        let answer = match ask {
            Ask::End => {
                exchange.leave();
                return Ok(());
            }
            Ask::Each => Err(garbled("what each rank is asked is missing")),
            Ask::Arguments(arguments) => rank.agree(&arguments),
            Ask::Open { paths, reading } => rank.open(&paths, reading),
            Ask::Summarise => rank.summaries(),
            Ask::Hold(hold) => rank.hold(*hold, numbers),
            Ask::Rows => rank.take(numbers),
            Ask::Answer { question, fixed, scale } => rank.answer(&question, (numbers, &fixed), scale),
        };
        let (said, numbers) = answer
            .unwrap_or_else(|error| (Said::Failed { kind: error.kind(), problem: error.to_string() }, Vec::new()));
        exchange.gather(ask::written(&Reply { signalled: take_signal(), said }, &numbers)?)?;
    }
}

type Answer = Result<(Said, Vec<Vec<f64>>)>;

fn done() -> Answer {
    Ok((Said::Done, Vec::new()))
}

/// What a rank holds.
#[derive(Debug)]
struct Rank<'a> {
    registry: &'a Registry,
    arguments: &'a [String],
    opened: Option<(Reading, Vec<Opened>)>,
    model: Option<(Blueprint, Box<dyn GpModel>, Compute)>,
    work: Option<Assigned>,
}

/// The rows that it works on.
#[derive(Debug)]
// A rank has one.
#[allow(clippy::large_enum_variant)]
enum Assigned {
    Parts {
        parts: Parts,
        common: Vec<usize>,
        /// The rows that have arrived so far, and how many there will be.
        rows: (Observations, usize),
        /// The conditioned experts, and the parameters that they were conditioned with.
        conditioned: Option<(Vec<f64>, experts::Member)>,
    },
    Batches {
        place: Place,
        source: Option<FileRows>,
        /// The rows that it read last, and their places. Several questions may be about one batch.
        known: Option<(Vec<usize>, Observations)>,
    },
}

impl Rank<'_> {
    fn agree(&self, leaders: &[String]) -> Answer {
        if self.arguments == leaders {
            return done();
        }
        Err(Error::Usage(format!(
            "its arguments are `{}`, but those of rank 0 are `{}`: start all ranks with the same",
            self.arguments.join(" "),
            leaders.join(" ")
        )))
    }

    fn open(&mut self, paths: &[String], reading: Reading) -> Answer {
        self.opened = None;
        let tables = paths.iter().map(|path| Opened::read(path, &reading)).collect::<Result<_>>()?;
        self.opened = Some((reading, tables));
        done()
    }

    fn summaries(&self) -> Answer {
        let Some((reading, tables)) = &self.opened else { return Err(garbled("this rank has read no tables")) };
        let summaries = tables.iter().map(|table| table.summary(reading)).collect::<Result<_>>()?;
        Ok((Said::Tables(summaries), Vec::new()))
    }

    /// Takes a model, and the rows if this rank reads them itself.
    fn hold(&mut self, Hold { blueprint, compute, rows }: Hold, numbers: Vec<Vec<f64>>) -> Answer {
        (self.model, self.work) = (None, None);
        let d = blueprint.columns;
        let none = Observations::none(d);
        self.work = Some(match rows {
            Held::Batches { place, source } => {
                Assigned::Batches { place, source: source.map(FileRows::open).transpose()?, known: None }
            }
            Held::Parts { first, labels, from } => {
                let mut lists = numbers.into_iter();
                let mut next = || named(&lists.next().unwrap_or_default());
                let (mut counts, mut own, mut common) = (next(), next(), next());
                let rows = match from {
                    From::Leader(count) => (none.clone(), count),
                    From::File(description) => {
                        let rows = collected(&FileRows::open(description)?, d, &next())?;
                        let count = rows.n();
                        (rows, count)
                    }
                    From::Tables(description) => {
                        let tables = own_rows(description, first..first + labels.len(), &mut self.opened)?;
                        (counts, common) = (tables.iter().map(Observations::n).collect(), Vec::new());
                        let Some(rows) = super::tables::joined(tables)? else {
                            let problem = "there are more ranks than shards: start at most one for each";
                            return Err(Error::Usage(problem.into()));
                        };
                        own = (0..rows.n()).collect();
                        let count = rows.n();
                        (rows, count)
                    }
                };
                let mut own = own.into_iter();
                let parts = counts.into_iter().map(|count| own.by_ref().take(count).collect()).collect();
                Assigned::Parts { parts: Parts::new(parts, labels, first), common, rows, conditioned: None }
            }
        });
        let model = blueprint.clone().model(self.registry, Context::new(&none, &[], 0), &SavedPosterior::default())?;
        self.model = Some((blueprint, model, compute));
        done()
    }

    /// Takes more rows.
    fn take(&mut self, block: Vec<Vec<f64>>) -> Answer {
        let Some(Assigned::Parts { rows: (rows, _), .. }) = &mut self.work else {
            return Err(garbled("rows for no part"));
        };
        if !block.is_empty() {
            rows.append(ask::rows(block)?)?;
        }
        done()
    }

    /// Answers about what it holds.
    fn answer(&mut self, question: &Question, (numbers, fixed): (Vec<Vec<f64>>, &[bool]), scale: f64) -> Answer {
        let (Some((blueprint, model, compute)), Some(work)) = (&mut self.model, &mut self.work) else {
            return Err(garbled("a question about a model that this rank does not have"));
        };
        let mut numbers = numbers.into_iter();
        let raw = numbers.next().unwrap_or_default();
        set(&mut **model, &raw, fixed)?;
        let compute = *compute;
        let answers = match work {
            Assigned::Parts { rows: (rows, count), .. } if rows.n() != *count => {
                return Err(garbled(format!("{} of {count} rows have arrived", rows.n())));
            }
            Assigned::Parts { parts, common, rows: (rows, _), conditioned } => {
                let numbers: Vec<Vec<f64>> = numbers.collect();
                if let Question::Predict { augmented } = question {
                    if conditioned.as_ref().is_none_or(|(known, _)| *known != raw) {
                        *conditioned = None;
                        let parameters = model.parameters().into_iter().map(|(_, p)| p.clone()).collect();
                        let blueprint = Blueprint { parameters, ..blueprint.clone() };
                        let parts = (parts.clone(), common.clone());
                        let member = experts::Member::new(blueprint, self.registry, parts, (rows.clone(), compute))?;
                        *conditioned = Some((raw, member));
                    }
                    let answers = conditioned.as_ref().map(|(_, member)| member.answers(*augmented, &numbers));
                    answers.transpose()?.unwrap_or_default()
                } else {
                    parts.own_answers(&**model, (Data::Memory(rows), compute), question, &numbers)?
                }
            }
            Assigned::Batches { place, source, known } => {
                let (rows, first, n) = match source {
                    Some(source) => {
                        let places = named(&numbers.next().unwrap_or_default());
                        let own = place.rows(places.len());
                        let wanted = &places[own.clone()];
                        if known.as_ref().is_none_or(|(known, _)| known != wanted) {
                            *known = Some((wanted.to_vec(), source.gather(wanted)?));
                        }
                        (known.as_ref().map(|(_, rows)| rows.clone()), own.start, places.len())
                    }
                    None => {
                        let rows = ask::rows(numbers.collect())?;
                        let n = rows.n();
                        (Some(rows), 0, n)
                    }
                };
                let rows = rows.unwrap_or_else(|| Observations::none(blueprint.columns));
                place.answers(&**model, compute, question, (&rows, first), (n, scale))?
            }
        };
        Ok((Said::Done, answers))
    }
}

/// Gives a model the leader's parameters.
fn set(model: &mut dyn GpModel, raw: &[f64], fixed: &[bool]) -> Result<()> {
    let mut rest = raw;
    for ((path, parameter), fixed) in model.parameters_mut().into_iter().zip(fixed) {
        let Some((own, others)) = rest.split_at_checked(parameter.len()) else {
            return Err(Error::shape(path, parameter.len().to_string(), rest.len().to_string()));
        };
        parameter.put_raw(own);
        (parameter.fixed, rest) = (*fixed, others);
    }
    Ok(())
}
