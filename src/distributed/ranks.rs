//! The leader's view of the other ranks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, ThreadId};

use serde_json::json;

use super::ask::{self, Ask, From, Held, Hold, Message, Reply, Said, block, done, garbled, places};
use super::parts::{Parts, share};
use super::question::Question;
use super::rows::{Data, FileRows};
use super::tables::{Reading, Summary};
use super::whole::{Work, WorkRows};
use super::{Exchange, Guard};
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::minibatch::Rows;

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
        self.talk()?.ask(&Ask::Arguments(arguments), &[], done).map(drop)
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

    /// The number of processes, this one included.
    pub fn size(&self) -> usize {
        self.exchange.size()
    }

    /// The answers of all processes, by rank. `own` gives those of this one.
    ///
    /// # Errors
    /// The error of the first process that fails, with its rank.
    pub fn ask(
        &self,
        work: &Work,
        question: &Question,
        numbers: &[Vec<f64>],
        own: impl FnOnce() -> Result<Vec<Vec<f64>>>,
    ) -> Result<Vec<Vec<f64>>> {
        let mut talk = self.talk()?;
        talk.hold(work)?;
        let (rows, scale) = match work.rows {
            WorkRows::Parts { .. } => (Vec::new(), 1.0),
            WorkRows::Batch { drawn, source: Some(source), scale } => {
                (vec![places(source.places(&drawn.numbers))], scale)
            }
            WorkRows::Batch { drawn, source: None, scale } => (block(&drawn.rows), scale),
        };
        let parameters = work.member.parameters();
        let fixed = parameters.iter().map(|(_, p)| p.fixed).collect();
        // The leader's values, bit for bit.
        let raw: Vec<f64> = parameters.iter().flat_map(|(_, p)| p.raw().to_vec()).collect();
        let numbers = [vec![raw], rows, numbers.to_vec()].concat();
        let answer = Ask::Answer { question: question.clone(), fixed, scale };
        let answers = talk.ask(&answer, &numbers, || Ok((Said::Done, own()?)))?;
        Ok(answers.into_iter().flat_map(|(_, numbers)| numbers).collect())
    }

    /// Has every process read its share of these tables, and returns a summary of each table. `own` gives those of this
    /// process.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(super) fn open(
        &self,
        paths: &[String],
        reading: &Reading,
        own: impl FnOnce() -> Result<Vec<Summary>>,
    ) -> Result<Vec<Summary>> {
        let (mut talk, size) = (self.talk()?, self.size());
        let open = |rank| Ask::Open { paths: paths[share(paths.len(), rank, size)].to_vec(), reading: reading.clone() };
        let asks = (1..size).map(|rank| (open(rank), Vec::new())).collect();
        let answers = talk.each(asks, || Ok((Said::Tables(own()?), Vec::new())))?;
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

impl Talk<'_> {
    /// Asks all ranks; `own` gives the leader's answer. Returns the answers by rank.
    fn ask(&self, ask: &Ask, numbers: &[Vec<f64>], own: impl FnOnce() -> Result<Message>) -> Result<Vec<Message>> {
        self.ranks.exchange.broadcast(ask::written(ask, numbers)?)?;
        self.collect(own())
    }

    /// Asks each other rank on its own; `own` gives the leader's answer. What they held before is no longer held.
    fn each(&mut self, asks: Vec<(Ask, Vec<Vec<f64>>)>, own: impl FnOnce() -> Result<Message>) -> Result<Vec<Message>> {
        // Build all messages first: once a message is announced, it has to come.
        let messages = asks.iter().map(|(ask, numbers)| ask::written(ask, numbers));
        let messages = std::iter::once(Ok(Vec::new())).chain(messages).collect::<Result<_>>()?;
        *self.held = None;
        self.ranks.exchange.broadcast(ask::written(&Ask::Each, &[])?)?;
        self.ranks.exchange.scatter(messages)?;
        self.collect(own())
    }

    /// The answers of all ranks. Fetches the others' answers even if the leader's own failed.
    fn collect(&self, own: Result<Message>) -> Result<Vec<Message>> {
        let mut answers = self.ranks.exchange.gather(Vec::new())?;
        let others = answers.split_off(1);
        let others = others.iter().enumerate().map(|(i, bytes)| answer(i + 1, bytes));
        std::iter::once(own).chain(others).collect()
    }

    /// Gives every other rank what it needs to answer, unless it has it already.
    fn hold(&mut self, work: &Work) -> Result<()> {
        let (checksum, size) = (fingerprint(work), self.ranks.size());
        if *self.held == Some(checksum) {
            return Ok(());
        }
        let hold = |rows| Ask::Hold(Box::new(Hold { blueprint: work.blueprint.clone(), compute: work.compute, rows }));
        match work.rows {
            WorkRows::Parts { parts, common, data } => {
                let needed: Vec<Vec<usize>> = (1..size).map(|rank| rows_of(parts, common, (rank, size))).collect();
                let asks = (1..size).zip(&needed).map(|(rank, rows)| {
                    let (held, numbers) = parts_of(parts, common, (rank, size), (rows, data))?;
                    Ok((hold(held), numbers))
                });
                self.each(asks.collect::<Result<_>>()?, done)?;
                if let (Data::Memory(data), None) = (data, parts.shards()) {
                    self.send(data, &needed)?;
                }
            }
            WorkRows::Batch { source, .. } => {
                let held = || Held::Batches { source: source.map(FileRows::description) };
                self.each((1..size).map(|_| (hold(held()), Vec::new())).collect(), done)?;
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
            self.each(rows.iter().map(chunk).collect::<Result<_>>()?, done)?;
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
fn rows_of(parts: &Parts, common: &[usize], (rank, size): (usize, usize)) -> Vec<usize> {
    let mut rows = [&parts.rows()[share(parts.len(), rank, size)].concat()[..], common].concat();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// What a rank that has these rows is to hold, and which row belongs to which of its parts.
fn parts_of(
    parts: &Parts,
    common: &[usize],
    (rank, size): (usize, usize),
    (rows, data): (&[usize], Data),
) -> Result<(Held, Vec<Vec<f64>>)> {
    let own = share(parts.len(), rank, size);
    let held = |from| Held::Parts { first: own.start, labels: parts.labels()[own.clone()].to_vec(), from };
    if let Some(shards) = parts.shards() {
        let Some(seen) = shards.seen.clone() else { return Err(Error::Device("tables that stay closed".into())) };
        let paths = shards.tables[own.clone()].iter().map(|table| table.path.clone()).collect();
        return Ok((held(From::Tables(paths, seen)), Vec::new()));
    }
    let place = |row: &usize| {
        let found = rows.binary_search(row).map(|place| place as f64);
        found.map_err(|_| Error::Device(format!("rank {rank} is to compute with row {row}, which it does not get")))
    };
    let placed = |rows: &[usize]| rows.iter().map(place).collect::<Result<Vec<f64>>>();
    let of_parts = &parts.rows()[own.clone()];
    let mut numbers = vec![places(of_parts.iter().map(Vec::len)), placed(&of_parts.concat())?, placed(common)?];
    let Data::Window(window) = data else { return Ok((held(From::Leader(rows.len())), numbers)) };
    numbers.push(places(window.source.places(rows)));
    Ok((held(From::File(window.source.description())), numbers))
}

/// A checksum of what the ranks hold, to notice changes.
fn fingerprint(Work { blueprint, compute, rows, .. }: &Work) -> u64 {
    let (mut of_data, mut of_model) = (crc32fast::Hasher::new(), crc32fast::Hasher::new());
    of_model.update(json!((blueprint, compute)).to_string().as_bytes());
    match *rows {
        WorkRows::Batch { source, .. } => {
            of_data.update(json!(source.map(FileRows::description)).to_string().as_bytes());
        }
        WorkRows::Parts { parts, common, data } => {
            match data {
                Data::Memory(data) => {
                    for values in [&data.x, &data.y].into_iter().chain(&data.auxiliary) {
                        add(&mut of_data, values.iter().map(|value| value.to_bits()));
                    }
                }
                Data::Window(window) => {
                    of_data.update(json!(window.source.description()).to_string().as_bytes());
                    for rows in parts.rows() {
                        add(&mut of_data, window.source.places(rows).into_iter().map(|place| place as u64));
                    }
                }
            }
            let shards = parts.shards().map(|shards| (&shards.tables, &shards.seen));
            of_model.update(json!(shards).to_string().as_bytes());
            for rows in parts.rows().iter().map(Vec::as_slice).chain([common]) {
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
