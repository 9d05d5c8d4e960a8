//! Messages between the ranks of one job: processes of a cluster, or threads of this process.
//!
//! Rank 0 leads: only it reads options and files, trains, takes decisions and writes files. It asks the other ranks for
//! their parts of the computation. The others [serve]: they do what each message asks, until the last message. So one
//! rank decides about everything that ends a training, and nobody waits for a message that does not come. The leader
//! adds up sums over ranks in an order that does not depend on their number, from parts that each come from one rank.
//! So the bits are the same for any number of ranks.
//!
//! There are two implementations: [`threads`] of this process, for tests and embedding, and MPI (feature `mpi`), which
//! clusters provide.

#[cfg(feature = "mpi")]
pub mod mpi;
pub mod threads;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model_file::{Array, ArrayData, ModelFile};

/// The range of `count` items that belongs to `rank` of `size` ranks. Shares differ by one item at most.
pub fn share(count: usize, rank: usize, size: usize) -> Range<usize> {
    count * rank / size..count * (rank + 1) / size
}

/// One rank's end of the channels between all ranks. Every rank calls the same functions in the same order.
pub trait Exchange: Debug + Send + Sync {
    /// The number of this rank; the leader is 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Returns the leader's message at every rank. The arguments of the others are dropped.
    ///
    /// # Errors
    /// [`Error::Device`] when a rank is gone.
    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>>;

    /// Returns the leader's message for this rank. The leader passes one message for each rank, the others pass none.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn scatter(&self, messages: Vec<Vec<u8>>) -> Result<Vec<u8>>;

    /// Returns every rank's message at the leader, by rank; nothing at the others.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>>;

    /// Ends this rank's part of the job, after the last message.
    fn leave(&self) {}

    /// Ends all ranks at once, in cases where the remaining ones would wait for ever.
    fn abort(&self) {}
}

/// Ends all ranks if this one panics before the guard is dropped; otherwise the others would wait for it for ever.
/// Panics that are caught in the meantime end nothing.
#[derive(Debug)]
pub struct Guard<'a>(&'a dyn Exchange);

impl<'a> Guard<'a> {
    /// A guard for a rank's end, which must outlive it.
    pub fn new(exchange: &'a dyn Exchange) -> Self {
        Self(exchange)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}

/// A message between ranks: a document and arrays, in the format of a model file.
pub type Message = ModelFile;

/// Takes an entry out of a message's document.
///
/// # Errors
/// [`Error::Device`] when the entry is missing or has another type.
pub(crate) fn entry<T: DeserializeOwned>(document: &mut Value, name: &str) -> Result<T> {
    let value = document.get_mut(name).map(Value::take).unwrap_or_default();
    serde_json::from_value(value).map_err(|e| Error::Device(format!("a message between ranks: {name}: {e}")))
}

/// Puts numbers into a message.
pub(crate) fn put(message: &mut Message, name: &str, values: Vec<f64>) {
    message.arrays.insert(name.into(), Array { shape: vec![values.len()], data: ArrayData::F64(values) });
}

/// Takes numbers out of a message.
///
/// # Errors
/// [`Error::Device`] when the message lacks them.
pub(crate) fn take(message: &mut Message, name: &str) -> Result<Vec<f64>> {
    let array = message.arrays.remove(name).map(|array| array.data.into_f64());
    array.ok_or_else(|| Error::Device(format!("a message between ranks lacks `{name}`")))
}

/// The entry of a document that holds the question.
const ASK: &str = "ask";
/// The last question.
const END: &str = "end";
/// The entry of an answer from a rank that was asked to end.
const SIGNALLED: &str = "signalled";

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

/// Does this whenever another rank was asked to end, if this process leads. Only the first call counts.
pub fn on_signal(act: fn()) {
    let _ = HEARD.set(act);
}

/// The leader's view of the other ranks.
#[derive(Debug)]
pub struct Ranks {
    exchange: Box<dyn Exchange>,
    /// The number of what the other ranks hold now, for the questions to come.
    held: Mutex<Option<u64>>,
}

impl Ranks {
    /// Takes the leader's end.
    pub fn new(exchange: Box<dyn Exchange>) -> Self {
        Self { exchange, held: Mutex::default() }
    }

    /// The number of ranks, the leader included.
    pub fn size(&self) -> usize {
        self.exchange.size()
    }

    /// Ends all ranks if the leader panics.
    pub fn guard(&self) -> Guard<'_> {
        Guard::new(&*self.exchange)
    }

    /// Begins a conversation. Other conversations wait until it is over.
    pub fn talk(&self) -> Talk<'_> {
        Talk { exchange: &*self.exchange, held: self.held.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Tells the other ranks to stop serving.
    ///
    /// # Errors
    /// [`Error::Device`] when a rank is gone.
    pub fn end(&self) -> Result<()> {
        let message = Message { document: json!({ ASK: END }), ..Message::default() };
        let talk = self.talk();
        talk.exchange.broadcast(message.to_bytes()?)?;
        talk.exchange.leave();
        Ok(())
    }
}

/// A conversation of the leader with the other ranks.
#[derive(Debug)]
pub struct Talk<'a> {
    exchange: &'a dyn Exchange,
    held: MutexGuard<'a, Option<u64>>,
}

impl Talk<'_> {
    /// Whether the other ranks hold the thing with this number.
    pub fn holds(&self, number: u64) -> bool {
        *self.held == Some(number)
    }

    /// Gives each rank its own message to hold, and returns the leader's own.
    ///
    /// # Errors
    /// The error of a rank, with the rank's number.
    pub fn hand_out(&mut self, ask: &str, number: u64, messages: Vec<Message>) -> Result<Message> {
        let own = self.pass(ask, messages)?;
        self.complete(number);
        Ok(own)
    }

    /// Gives each rank a piece of what it has to hold. The rank holds the whole once it is [complete](Self::complete).
    ///
    /// # Errors
    /// The error of a rank, with the rank's number.
    pub fn pass(&mut self, ask: &str, messages: Vec<Message>) -> Result<Message> {
        // Build all messages first: once a message is announced, it has to come.
        let announced = asking(ask, Message::default()).to_bytes()?;
        let bytes = messages.iter().map(Message::to_bytes).collect::<Result<_>>()?;
        *self.held = None;
        self.exchange.broadcast(announced)?;
        let own = self.exchange.scatter(bytes)?;
        self.collect(Ok(Message::default()))?;
        read(&own)
    }

    /// Declares that the pieces passed last are the whole thing with this number.
    pub fn complete(&mut self, number: u64) {
        *self.held = Some(number);
    }

    /// Asks all ranks; `own` gives the leader's answer. Returns the answers by rank.
    ///
    /// # Errors
    /// The error of the first rank that fails, with the rank's number.
    pub fn ask(&self, ask: &str, message: Message, own: impl FnOnce() -> Result<Message>) -> Result<Vec<Message>> {
        self.exchange.broadcast(asking(ask, message).to_bytes()?)?;
        self.collect(own())
    }

    /// The answers of all ranks. Fetches the others' answers even if the leader's own failed.
    fn collect(&self, own: Result<Message>) -> Result<Vec<Message>> {
        let mut answers = self.exchange.gather(Vec::new())?;
        let others = answers.split_off(1);
        let others = others.iter().enumerate().map(|(i, bytes)| answer(i + 1, bytes));
        std::iter::once(own).chain(others).collect()
    }
}

fn asking(ask: &str, message: Message) -> Message {
    let mut message = object(message);
    message.document[ASK] = ask.into();
    message
}

/// A message whose document can have entries.
fn object(mut message: Message) -> Message {
    if !message.document.is_object() {
        message.document = json!({});
    }
    message
}

fn read(bytes: &[u8]) -> Result<Message> {
    Message::from_bytes(bytes).map_err(|problem| Error::Device(format!("a message between ranks: {problem}")))
}

/// A rank's answer, or the error that it reports.
fn answer(rank: usize, bytes: &[u8]) -> Result<Message> {
    let message = read(bytes)?;
    if message.document[SIGNALLED] == true
        && let Some(act) = HEARD.get()
    {
        act();
    }
    let Some(problem) = message.document["problem"].as_str() else { return Ok(message) };
    let kind = match message.document["kind"].as_str() {
        Some("training") => ErrorKind::Training,
        Some("file") => ErrorKind::File,
        Some("device") => ErrorKind::Device,
        _ => ErrorKind::Request,
    };
    Err(Error::Remote { rank, kind, problem: problem.into() })
}

fn refusal(error: &Error) -> Message {
    let kind = match error.kind() {
        ErrorKind::Training => "training",
        ErrorKind::File => "file",
        ErrorKind::Device => "device",
        ErrorKind::Request => "request",
    };
    Message { document: json!({ "problem": error.to_string(), "kind": kind }), ..Message::default() }
}

/// What a rank other than the leader can do.
pub trait Service {
    /// Takes what the rank has to hold from now on.
    ///
    /// # Errors
    /// An error if the message cannot be used.
    fn hold(&mut self, ask: &str, message: Message) -> Result<()>;

    /// Answers a question.
    ///
    /// # Errors
    /// The errors of the computation.
    fn answer(&mut self, ask: &str, message: Message) -> Result<Message>;

    /// Whether a question hands out something to hold.
    fn is_handed_out(&self, ask: &str) -> bool;
}

/// Does what the leader asks until it sends the last message.
///
/// # Errors
/// [`Error::Device`] when the leader is gone.
pub fn serve(exchange: &dyn Exchange, service: &mut dyn Service) -> Result<()> {
    loop {
        let message = read(&exchange.broadcast(Vec::new())?)?;
        let ask = message.document[ASK].as_str().unwrap_or_default().to_string();
        if ask == END {
            exchange.leave();
            return Ok(());
        }
        let answer = if service.is_handed_out(&ask) {
            let handed = read(&exchange.scatter(Vec::new())?)?;
            service.hold(&ask, handed).map(|()| Message::default())
        } else {
            service.answer(&ask, message)
        };
        let mut answer = answer.unwrap_or_else(|error| refusal(&error));
        if WAITING.swap(false, Ordering::SeqCst) {
            answer = object(answer);
            answer.document[SIGNALLED] = true.into();
        }
        exchange.gather(answer.to_bytes()?)?;
    }
}

static RANKS: OnceLock<Arc<Ranks>> = OnceLock::new();

/// Makes these the ranks for this process's models; this process leads them.
pub fn lead(ranks: Arc<Ranks>) {
    let _ = RANKS.set(ranks);
}

/// The ranks that this process leads, if it is one of several.
pub fn ranks() -> Option<&'static Arc<Ranks>> {
    RANKS.get()
}
