//! The leader's view of the other ranks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, ThreadId};

use serde_json::{Value, json};

use super::ask::{self, Ask, From, Held, Hold, Reply, Said, block, garbled, places};
use super::{Exchange, Guard};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::blueprint::Blueprint;
use crate::models::minibatch::Rows;
use crate::models::parts::batches::Place;
use crate::models::parts::question::Own;
use crate::models::parts::{Crew, Data, OfParts, Question, Work, share};

/// Bytes of rows in one message to all ranks together. No message holds all rows.
const CHUNK: usize = 8 << 20;

/// Whether this process was asked to end, and its leader does not know yet.
static WAITING: AtomicBool = AtomicBool::new(false);
/// What the leader does when another rank was asked to end.
static HEARD: OnceLock<fn()> = OnceLock::new();

/// Tells the leader with the next answer that this process was asked to end.
pub fn pass_on_signal() {
    WAITING.store(true, Ordering::SeqCst);
}

/// Whether the leader does not know yet that this process was asked to end.
pub fn signal_waits() -> bool {
    WAITING.load(Ordering::SeqCst)
}

/// Whether the leader is to be told now that this process was asked to end.
pub(super) fn take_signal() -> bool {
    WAITING.swap(false, Ordering::SeqCst)
}

/// Does this whenever another rank was asked to end, if this process leads. Only the first call counts.
pub fn on_signal(act: fn()) {
    let _ = HEARD.set(act);
}

/// The ranks of a job, for the one that leads them.
#[derive(Debug)]
pub struct Ranks {
    exchange: Box<dyn Exchange>,
    /// The checksum of what the other ranks hold now, for the questions to come.
    held: Mutex<Option<u64>>,
    /// The thread that talks with them now.
    talking: Mutex<Option<ThreadId>>,
}

impl Ranks {
    /// Takes the leader's end.
    pub fn new(exchange: Box<dyn Exchange>) -> Self {
        Self { exchange, held: Mutex::default(), talking: Mutex::default() }
    }

    /// Ends all ranks if the leader panics.
    pub fn guard(&self) -> Guard<'_> {
        Guard::new(&*self.exchange)
    }

    /// Refuses ranks that were started with other arguments than these.
    ///
    /// # Errors
    /// The refusal of the first such rank.
    pub fn agree(&self, arguments: Vec<String>) -> Result<()> {
        self.talk()?.ask(&Ask::Arguments(arguments), &[], || Ok((Said::Done, Vec::new()))).map(drop)
    }

    /// Tells the other ranks to stop serving.
    ///
    /// # Errors
    /// [`Error::Device`] when a rank is gone.
    pub fn end(&self) -> Result<()> {
        self.talk()?.ranks.exchange.broadcast(ask::written(&Ask::End, &[])?)?;
        self.exchange.leave();
        Ok(())
    }

    /// Begins a conversation. Those of other threads wait until it is over; a second one of this thread would wait for
    /// ever.
    fn talk(&self) -> Result<Talk<'_>> {
        let held = match self.held.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                if *self.talking() == Some(thread::current().id()) {
                    return Err(Error::Device("the other ranks are asked while this one answers them".into()));
                }
                self.held.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        *self.talking() = Some(thread::current().id());
        Ok(Talk { ranks: self, held })
    }

    fn talking(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.talking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew for Ranks {
    fn size(&self) -> usize {
        self.exchange.size()
    }

    fn ask(&self, work: Work, question: &Question, numbers: &[Vec<f64>], own: Own) -> Result<Vec<Vec<f64>>> {
        let mut talk = self.talk()?;
        talk.hold(work)?;
        let (parameters, rows, scale) = match work {
            Work::Parts { of, .. } => (of.parameters(), Vec::new(), 1.0),
            Work::Batch { model, source, drawn, .. } => {
                let rows = match source {
                    Some(source) => vec![places(source.places(&drawn.numbers))],
                    None => block(&drawn.rows),
                };
                (model.parameters(), rows, drawn.scale)
            }
        };
        let fixed = parameters.iter().map(|(_, p)| p.fixed).collect();
        // The leader's values, bit for bit.
        let raw: Vec<f64> = parameters.iter().flat_map(|(_, p)| p.raw().to_vec()).collect();
        let numbers = [vec![raw], rows, numbers.to_vec()].concat();
        let answer = Ask::Answer { question: question.clone(), fixed, scale };
        let answers = talk.ask(&answer, &numbers, || Ok((Said::Done, own()?)))?;
        Ok(answers.into_iter().flat_map(|(_, numbers)| numbers).collect())
    }

    fn open(
        &self,
        paths: &[String],
        reading: &Value,
        own: &mut dyn FnMut() -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let (mut talk, size) = (self.talk()?, self.size());
        let asks = (1..size).map(|rank| {
            let reading = serde_json::from_value(reading.clone()).map_err(garbled)?;
            Ok((Ask::Open { paths: paths[share(paths.len(), rank, size)].to_vec(), reading }, Vec::new()))
        });
        talk.each(asks.collect::<Result<_>>()?)?;
        let answers = talk.ask(&Ask::Summarise, &[], || Ok((Said::Tables(own()?), Vec::new())))?;
        let summaries = answers.into_iter().map(|(said, _)| match said {
            Said::Tables(summaries) => Ok(summaries),
            Said::Done | Said::Failed { .. } => Err(garbled("an answer without summaries")),
        });
        Ok(summaries.collect::<Result<Vec<_>>>()?.concat())
    }
}

/// A conversation of the leader with the other ranks.
struct Talk<'a> {
    ranks: &'a Ranks,
    held: MutexGuard<'a, Option<u64>>,
}

impl Drop for Talk<'_> {
    fn drop(&mut self) {
        *self.ranks.talking() = None;
    }
}

type Message = (Said, Vec<Vec<f64>>);

impl Talk<'_> {
    /// Asks all ranks; `own` gives the leader's answer. Returns the answers by rank.
    fn ask(&self, ask: &Ask, numbers: &[Vec<f64>], own: impl FnOnce() -> Result<Message>) -> Result<Vec<Message>> {
        self.ranks.exchange.broadcast(ask::written(ask, numbers)?)?;
        self.collect(own())
    }

    /// Asks each other rank on its own. What they held before is no longer held.
    fn each(&mut self, asks: Vec<(Ask, Vec<Vec<f64>>)>) -> Result<()> {
        // Build all messages first: once a message is announced, it has to come.
        let messages = asks.iter().map(|(ask, numbers)| ask::written(ask, numbers));
        let messages = std::iter::once(Ok(Vec::new())).chain(messages).collect::<Result<_>>()?;
        *self.held = None;
        self.ranks.exchange.broadcast(ask::written(&Ask::Each, &[])?)?;
        self.ranks.exchange.scatter(messages)?;
        self.collect(Ok((Said::Done, Vec::new()))).map(drop)
    }

    /// The answers of all ranks. Fetches the others' answers even if the leader's own failed.
    fn collect(&self, own: Result<Message>) -> Result<Vec<Message>> {
        let mut answers = self.ranks.exchange.gather(Vec::new())?;
        let others = answers.split_off(1);
        let others = others.iter().enumerate().map(|(i, bytes)| answer(i + 1, bytes));
        std::iter::once(own).chain(others).collect()
    }

    /// Gives every other rank what it needs to answer, unless it has it already.
    fn hold(&mut self, work: Work) -> Result<()> {
        let (checksum, size) = (fingerprint(work), self.ranks.size());
        if *self.held == Some(checksum) {
            return Ok(());
        }
        match work {
            Work::Parts { of, data, compute } => {
                let rows: Vec<Vec<usize>> = (1..size).map(|rank| rows_of(of, rank, size)).collect();
                let hold = |rank: usize| parts_of(of, (rank, size), (&rows[rank - 1], data), compute);
                self.each((1..size).map(hold).collect::<Result<_>>()?)?;
                if let (Data::Memory(data), None) = (data, of.parts().shards()) {
                    self.send(data, &rows)?;
                }
            }
            Work::Batch { blueprint, source, compute, .. } => {
                let hold = |rank: usize| {
                    let source = source.map(|source| source.description());
                    let rows = Held::Batches { place: Place { rank, size }, source };
                    (Ask::Hold(Box::new(Hold { blueprint: blueprint.clone(), compute, rows })), Vec::new())
                };
                self.each((1..size).map(hold).collect())?;
            }
        }
        *self.held = Some(checksum);
        Ok(())
    }

    /// Sends each rank its rows, in chunks.
    fn send(&mut self, data: &Observations, rows: &[Vec<usize>]) -> Result<()> {
        let each = (CHUNK / size_of::<f64>() / (data.d + 2) / self.ranks.size()).max(1);
        let most = rows.iter().map(Vec::len).max().unwrap_or_default();
        for start in (0..most).step_by(each) {
            let chunk = |rows: &Vec<usize>| {
                let chunk = &rows[start.min(rows.len())..rows.len().min(start + each)];
                let chunk = if chunk.is_empty() { Vec::new() } else { block(&data.gather(chunk)?) };
                Ok((Ask::Rows, chunk))
            };
            self.each(rows.iter().map(chunk).collect::<Result<_>>()?)?;
        }
        Ok(())
    }
}

/// A rank's answer, or the error that it reports.
fn answer(rank: usize, bytes: &[u8]) -> Result<Message> {
    let (Reply { signalled, said }, numbers) = ask::read(bytes)?;
    if signalled && let Some(act) = HEARD.get() {
        act();
    }
    match said {
        Said::Failed { kind, problem } => Err(Error::Remote { rank, kind, problem }),
        Said::Done | Said::Tables(_) => Ok((said, numbers)),
    }
}

/// The rows that a rank needs, ascending: those of its parts and those that all ranks need.
fn rows_of(of: &dyn OfParts, rank: usize, size: usize) -> Vec<usize> {
    let parts = of.parts().rows();
    let mut rows = [&parts[share(parts.len(), rank, size)].concat()[..], of.common()].concat();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// The blueprint of a part with all parameter values set to 0: each question brings the values.
fn blank(of: &dyn OfParts, d: usize) -> Blueprint {
    let mut blueprint = of.blueprint(d);
    blueprint.parameters.iter_mut().for_each(|p| p.put_raw(&vec![0.0; p.len()]));
    blueprint
}

/// The message for a rank that has these rows: the model of its parts, and which row belongs to which part.
fn parts_of(
    of: &dyn OfParts,
    (rank, size): (usize, usize),
    (rows, data): (&[usize], Data),
    compute: Compute,
) -> Result<(Ask, Vec<Vec<f64>>)> {
    let (parts, blueprint) = (of.parts(), blank(of, data.d()));
    let own = share(parts.rows().len(), rank, size);
    let hold = |from: From| {
        let rows = Held::Parts { first: own.start, labels: parts.labels()[own.clone()].to_vec(), from };
        Ask::Hold(Box::new(Hold { blueprint, compute, rows }))
    };
    if let Some(shards) = parts.shards() {
        return Ok((hold(From::Tables(shards.description.clone())), Vec::new()));
    }
    let place = |row: &usize| {
        let found = rows.binary_search(row).map(|place| place as f64);
        found.map_err(|_| Error::Device(format!("rank {rank} is to compute with row {row}, which it does not get")))
    };
    let placed = |rows: &[usize]| rows.iter().map(place).collect::<Result<Vec<f64>>>();
    let own = &parts.rows()[own.clone()];
    let mut numbers = vec![places(own.iter().map(Vec::len)), placed(&own.concat())?, placed(of.common())?];
    let Data::Window(window) = data else { return Ok((hold(From::Leader(rows.len())), numbers)) };
    numbers.push(places(window.source.places(rows)));
    Ok((hold(From::File(window.source.description())), numbers))
}

/// A checksum of what the ranks hold, to notice changes.
fn fingerprint(work: Work) -> u64 {
    let (mut of_data, mut of_model) = (crc32fast::Hasher::new(), crc32fast::Hasher::new());
    match work {
        Work::Batch { blueprint, source, compute, .. } => {
            of_data.update(json!(source.map(|source| source.description())).to_string().as_bytes());
            of_model.update(json!((blueprint, compute)).to_string().as_bytes());
        }
        Work::Parts { of, data, compute } => {
            match data {
                Data::Memory(data) => {
                    for values in [&data.x, &data.y].into_iter().chain(&data.auxiliary) {
                        add(&mut of_data, values.iter().map(|value| value.to_bits()));
                    }
                }
                Data::Window(window) => {
                    of_data.update(window.source.description().to_string().as_bytes());
                    for rows in of.parts().rows() {
                        add(&mut of_data, window.source.places(rows).into_iter().map(|place| place as u64));
                    }
                }
            }
            let shards = of.parts().shards().map(|shards| &shards.description);
            of_model.update(json!((blank(of, data.d()), compute, shards)).to_string().as_bytes());
            for rows in of.parts().rows().iter().map(Vec::as_slice).chain([of.common()]) {
                add(&mut of_model, rows.iter().map(|row| *row as u64));
                of_model.update(b";");
            }
        }
    }
    u64::from(of_data.finalize()) << 32 | u64::from(of_model.finalize())
}

/// Adds words to a checksum, many at once for speed: the checksum is computed again for each question.
fn add(sum: &mut crc32fast::Hasher, words: impl Iterator<Item = u64>) {
    const BYTES: usize = 1 << 12;
    let mut bytes = Vec::with_capacity(BYTES);
    for word in words {
        bytes.extend(word.to_le_bytes());
        if bytes.len() == BYTES {
            sum.update(&bytes);
            bytes.clear();
        }
    }
    sum.update(&bytes);
}
