//! A rank that does not lead: it reads rows, holds what is computed from them, and answers the leader's questions.

use super::ask::{self, Ask, From, Held, Hold, Message, Reply, Said, done, garbled, named};
use super::parts::Parts;
use super::question::Question;
use super::ranks::take_signal;
use super::rows::{Data, FileRows};
use super::tables::{Opened, Reading, joined, own_rows};
use super::{Exchange, batches};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::blueprint::Blueprint;
use crate::models::experts::{Conditioned, Experts};
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::options::Context;
use crate::models::posterior::SavedPosterior;
use crate::models::registry::Registry;

/// Does what the leader asks until it sends the last message. `arguments` are those with which this process was
/// started.
///
/// # Errors
/// [`Error::Device`] when the leader is gone.
pub fn serve(exchange: &dyn Exchange, registry: &Registry, arguments: &[String]) -> Result<()> {
    let place = (exchange.rank(), exchange.size());
    let mut rank = Rank { registry, arguments, place, opened: Vec::new(), work: None };
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
            Ask::Open { paths, reading } => rank.open(&paths, &reading),
            Ask::Hold(hold) => rank.hold(*hold, numbers),
            Ask::Rows => rank.take(numbers),
            Ask::Answer { question, fixed, scale } => rank.answer(&question, (numbers, &fixed), scale),
        };
        let (said, numbers) = answer
            .unwrap_or_else(|error| (Said::Failed { kind: error.kind(), problem: error.to_string() }, Vec::new()));
        exchange.gather(ask::written(&Reply { signalled: take_signal(), said }, &numbers)?)?;
    }
}

/// What a rank holds.
#[derive(Debug)]
struct Rank<'a> {
    registry: &'a Registry,
    arguments: &'a [String],
    /// Its number, and the number of ranks.
    place: (usize, usize),
    opened: Vec<Opened>,
    work: Option<Assigned>,
}

/// The model and the rows that it works on.
#[derive(Debug)]
struct Assigned {
    blueprint: Blueprint,
    model: Box<dyn GpModel>,
    compute: Compute,
    parts: Parts,
    /// The rows that all ranks need.
    common: Vec<usize>,
    /// The rows that have arrived so far, and how many there will be.
    rows: (Observations, usize),
    /// The conditioned experts, and the parameters that they were conditioned with.
    conditioned: Option<(Vec<f64>, Conditioned)>,
    /// If each question is about a batch, where its rows are read.
    batches: Option<Batches>,
}

#[derive(Debug)]
struct Batches {
    source: Option<FileRows>,
    /// The places of the rows that were read last. Several questions may be about one batch.
    known: Vec<usize>,
}

impl Rank<'_> {
    fn agree(&self, leaders: &[String]) -> Result<Message> {
        if self.arguments == leaders {
            return done();
        }
        Err(Error::Usage(format!(
            "its arguments are `{}`, but those of rank 0 are `{}`: start all ranks with the same",
            self.arguments.join(" "),
            leaders.join(" ")
        )))
    }

    fn open(&mut self, paths: &[String], reading: &Reading) -> Result<Message> {
        self.opened.clear();
        self.opened = paths.iter().map(|path| Opened::read(path, reading)).collect::<Result<_>>()?;
        let summaries = self.opened.iter().map(|table| table.summary(reading)).collect::<Result<_>>()?;
        Ok((Said::Tables(summaries), Vec::new()))
    }

    /// Takes a model, and the rows if this rank reads them itself.
    fn hold(&mut self, Hold { blueprint, compute, rows }: Hold, numbers: Vec<Vec<f64>>) -> Result<Message> {
        self.work = None;
        let none = Observations::none(blueprint.columns);
        let model = blueprint.clone().model(self.registry, Context::new(&none, &[], 0), &SavedPosterior::default())?;
        let (parts, common, conditioned) = (Parts::default(), Vec::new(), None);
        let mut work =
            Assigned { blueprint, model, compute, parts, common, rows: (none, 0), conditioned, batches: None };
        match rows {
            Held::Batches { source } => {
                work.batches = Some(Batches { source: source.map(FileRows::open).transpose()?, known: Vec::new() });
            }
            Held::Parts { first, labels, from } => {
                let mut lists = numbers.into_iter();
                let mut next = || named(&lists.next().unwrap_or_default());
                let (mut counts, mut own, common) = (next(), next(), next());
                match from {
                    From::Leader(count) => work.rows.1 = count,
                    From::File(description) => work.hold_all(FileRows::open(description)?.collected(&next())?),
                    From::Tables(paths, seen) => {
                        let tables = own_rows(&paths, &seen, &mut self.opened)?;
                        counts = tables.iter().map(Observations::n).collect();
                        let Some(rows) = joined(tables)? else {
                            let problem = "there are more ranks than shards: start at most one for each";
                            return Err(Error::Usage(problem.into()));
                        };
                        own = (0..rows.n()).collect();
                        work.hold_all(rows);
                    }
                }
                let mut own = own.into_iter();
                let rows = counts.into_iter().map(|count| own.by_ref().take(count).collect()).collect();
                (work.parts, work.common) = (Parts::new(rows, labels, first), common);
            }
        }
        self.work = Some(work);
        done()
    }

    /// Takes more rows.
    fn take(&mut self, block: Vec<Vec<f64>>) -> Result<Message> {
        let Some(Assigned { rows: (rows, _), batches: None, .. }) = &mut self.work else {
            return Err(garbled("rows for no part"));
        };
        if !block.is_empty() {
            rows.append(ask::rows(block)?)?;
        }
        done()
    }

    /// Answers about what it holds.
    fn answer(
        &mut self,
        question: &Question,
        (numbers, fixed): (Vec<Vec<f64>>, &[bool]),
        scale: f64,
    ) -> Result<Message> {
        let Some(work) = &mut self.work else {
            return Err(garbled("a question about a model that this rank does not have"));
        };
        let mut numbers = numbers.into_iter();
        let raw = numbers.next().unwrap_or_default();
        set(&mut *work.model, &raw, fixed)?;
        let mut numbers = numbers.collect();
        if work.batches.is_some() {
            work.draw(std::mem::take(&mut numbers), self.place)?;
        }
        let (rows, count) = &work.rows;
        if rows.n() != *count {
            return Err(garbled(format!("{} of {count} rows have arrived", rows.n())));
        }
        let answers = match question {
            Question::Predict { augmented } => work.experts(raw, self.registry)?.answers(*augmented, &numbers)?,
            _ => work.parts.own_answers(&*work.model, (Data::Memory(rows), work.compute), question, &numbers, scale)?,
        };
        Ok((Said::Done, answers))
    }
}

impl Assigned {
    fn hold_all(&mut self, rows: Observations) {
        let count = rows.n();
        self.rows = (rows, count);
    }

    /// Takes a batch: its rows, or the places of its rows, of which this rank reads those of its parts.
    fn draw(&mut self, mut lists: Vec<Vec<f64>>, place: (usize, usize)) -> Result<()> {
        let Some(Batches { source: Some(source), known }) = &mut self.batches else {
            let rows = ask::rows(lists)?;
            self.parts = batches::of_rank(rows.n(), place, true).0;
            self.hold_all(rows);
            return Ok(());
        };
        let places = named(&lists.pop().unwrap_or_default());
        let (parts, first) = batches::of_rank(places.len(), place, false);
        let wanted = &places[first..first + parts.count()];
        if known.as_slice() != wanted {
            let rows = source.gather(wanted)?;
            *known = wanted.to_vec();
            self.hold_all(rows);
        }
        self.parts = parts;
        Ok(())
    }

    /// The experts, conditioned with these parameters.
    fn experts(&mut self, raw: Vec<f64>, registry: &Registry) -> Result<&Conditioned> {
        let conditioned = match self.conditioned.take() {
            Some((known, conditioned)) if known == raw => conditioned,
            _ => {
                let parameters = self.model.parameters().into_iter().map(|(_, p)| p.clone()).collect();
                let blueprint = Blueprint { parameters, ..self.blueprint.clone() };
                let experts = Experts::rebuilt(blueprint, registry, self.parts.clone(), self.common.clone())?;
                Conditioned::new(experts, self.compute, self.rows.0.clone())?
            }
        };
        Ok(&self.conditioned.insert((raw, conditioned)).1)
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
