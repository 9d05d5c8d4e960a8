//! What the leader asks of experts on other ranks.
//!
//! It hands rows out in chunks, unless ranks read them for themselves: no message holds all of them.

use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};

use super::objective::{self, Asked, Part};
use super::posterior::Held;
use super::rows::Data;
use super::shards::TOLD;
use super::training::{self, Client, Round};
use super::{Experts, Shared};
use crate::device::Compute;
use crate::error::Result;
use crate::exchange::{Message, Ranks, Talk, put, take};
use crate::kernels::text;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::posterior::Marginals;
use crate::models::shared_rows::{self, SOURCE};
use crate::params::{Parameter, Parameters};

/// To hold experts.
pub(super) const HOLD: &str = "experts.hold";
/// To hold more of their rows.
pub(super) const ROWS: &str = "experts.rows";
/// To evaluate their objectives.
pub(super) const EVALUATE: &str = "experts.evaluate";
/// To do their part in a round of a training.
pub(super) const ROUND: &str = "experts.round";
/// To sum over the rows of parts.
pub(super) const MOMENTS: &str = "experts.moments";
/// To follow the derivatives by those sums.
pub(super) const PULL: &str = "experts.pull";
/// To say what they predict.
pub(super) const SAY: &str = "experts.say";

/// The objectives of all experts, in their order.
pub(super) fn evaluate(experts: &Experts, ranks: &Ranks, data: Data, asked: Asked) -> Result<Vec<Part>> {
    let mut talk = ranks.talk();
    hold(experts, &mut talk, ranks.size(), data, asked.compute)?;
    let mut message = with_parameters(experts);
    message.document = json!({ "gradient": asked.gradient, "budget": asked.budget });
    let answers = talk.ask(EVALUATE, message, || objective::own(experts, data, asked).map(|parts| written(&parts)))?;
    Ok(answers.into_iter().map(|answer| read(experts, answer)).collect::<Result<Vec<_>>>()?.concat())
}

/// What all experts say at `x`, in their order.
pub(super) fn say(held: &Held, ranks: &Ranks, augmented: bool, x: &[f64]) -> Result<Vec<Marginals>> {
    let (experts, mut talk) = (held.model(), ranks.talk());
    hold(experts, &mut talk, ranks.size(), held.data(), held.compute())?;
    let mut message = with_parameters(experts);
    message.document = json!({ "augmented": augmented });
    put(&mut message, "x", x.to_vec());
    let answers = talk.ask(SAY, message, || held.say(augmented, x).map(said))?;
    answers.into_iter().map(heard).collect::<Result<Vec<_>>>().map(|heard| heard.concat())
}

/// The clients `drawn`, whose states these are, after a round from z, with their losses there.
pub(super) fn round(
    (experts, data, compute): (&Experts, Data, Compute),
    ranks: &Ranks,
    round: &Round,
    (drawn, clients): (&[usize], &[Client]),
    z: &[f64],
    gradients: &AtomicUsize,
) -> Result<Vec<(Client, f64)>> {
    let mut talk = ranks.talk();
    hold(experts, &mut talk, ranks.size(), data, compute)?;
    let mut message = with_parameters(experts);
    message.document = json!({ "round": round, "drawn": drawn });
    put(&mut message, "z", z.to_vec());
    put(&mut message, "clients", kept(clients));
    let own = drawn.partition_point(|expert| *expert < experts.own().end);
    let done = || training::own((experts, data, compute), round, (&drawn[..own], &clients[..own]), z, gradients);
    let answers = talk.ask(ROUND, message, || done().map(|made| made_in_round(&made)))?;
    answers.into_iter().map(|answer| after(answer, z.len())).collect::<Result<Vec<_>>>().map(|made| made.concat())
}

fn kept(clients: &[Client]) -> Vec<f64> {
    let mut numbers = Vec::new();
    clients.iter().for_each(|client| client.write(&mut numbers));
    numbers
}

/// Clients after a round as a message.
pub(super) fn made_in_round(made: &[(Client, f64)]) -> Message {
    let mut message = Message::default();
    put(&mut message, "loss", made.iter().map(|(_, loss)| *loss).collect());
    put(&mut message, "clients", kept(&made.iter().map(|(client, _)| client.clone()).collect::<Vec<_>>()));
    message
}

fn after(mut message: Message, dim: usize) -> Result<Vec<(Client, f64)>> {
    let (losses, numbers) = (take(&mut message, "loss")?, take(&mut message, "clients")?);
    let clients = numbers.chunks(Client::size(dim)).map(|numbers| Client::read(numbers, dim));
    clients.zip(losses).map(|(client, loss)| Ok((client?, loss))).collect()
}

/// Bytes of rows that are handed out at once, to all ranks together.
const CHUNK: usize = 8 << 20;

/// Gives every rank its experts, unless they have them.
pub(super) fn hold(experts: &Experts, talk: &mut Talk, size: usize, data: Data, compute: Compute) -> Result<()> {
    let number = fingerprint(experts, data, compute);
    if talk.holds(number) {
        return Ok(());
    }
    // The leader has its own.
    let rows: Vec<Vec<usize>> =
        (0..size).map(|rank| if rank == 0 { Vec::new() } else { experts.rows_of(rank) }).collect();
    let of_rank = |rank: usize| match rank {
        0 => Message::default(),
        rank => handed_out(experts, rank, (&rows[rank], data), compute),
    };
    talk.pass(HOLD, (0..size).map(of_rank).collect())?;
    if let (Data::Memory(data), None) = (data, &experts.shards) {
        let each = (CHUNK / size_of::<f64>() / (data.d + 2) / size).max(1);
        let most = rows.iter().map(Vec::len).max().unwrap_or_default();
        for start in (0..most).step_by(each) {
            let chunk = |rows: &Vec<usize>| some(data, &rows[start.min(rows.len())..rows.len().min(start + each)]);
            talk.pass(ROWS, rows.iter().map(chunk).collect::<Result<_>>()?)?;
        }
    }
    talk.complete(number);
    Ok(())
}

/// A message with these rows.
fn some(data: &Observations, rows: &[usize]) -> Result<Message> {
    let (mut message, rows) = (Message::default(), data.gather(rows)?);
    put(&mut message, "x", rows.x);
    put(&mut message, "y", rows.y);
    if let Some(noise) = rows.noise {
        put(&mut message, "noise", noise);
    }
    Ok(message)
}

/// Tells apart what ranks may hold.
fn fingerprint(experts: &Experts, data: Data, compute: Compute) -> u64 {
    let mut of_data = crc32fast::Hasher::new();
    match data {
        Data::Memory(data) => {
            for values in [&data.x, &data.y].into_iter().chain(&data.noise) {
                add(&mut of_data, values.iter().map(|value| value.to_bits()));
            }
        }
        Data::Window(window) => {
            of_data.update(window.source.told().to_string().as_bytes());
            for rows in experts.parts() {
                add(&mut of_data, window.source.places(rows).into_iter().map(|place| place as u64));
            }
        }
    }
    let mut of_experts = crc32fast::Hasher::new();
    of_experts.update(form(experts, data.d(), compute).to_string().as_bytes());
    let told = experts.shards.as_ref().map(|shards| shards.told.to_string());
    of_experts.update(told.unwrap_or_default().as_bytes());
    for rows in experts.parts().iter().chain([&*experts.communication]) {
        add(&mut of_experts, rows.iter().map(|row| *row as u64));
        of_experts.update(b";");
    }
    u64::from(of_data.finalize()) << 32 | u64::from(of_experts.finalize())
}

/// Adds words to a checksum, many at once: it is made again for each question.
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

/// The experts with nothing of their parameters but what they are: values come with each question.
fn blank(experts: &Experts) -> Experts {
    let mut blank = experts.clone();
    blank.parameters_mut().into_iter().for_each(|(_, p)| p.set_raw(&vec![0.0; p.len()]));
    blank
}

/// What a rank is told of the experts beside their rows, and holds.
fn form(experts: &Experts, d: usize, compute: Compute) -> Value {
    let blank = blank(experts);
    let parameters: Vec<&Parameter> = blank.parameters().into_iter().map(|(_, p)| p).collect();
    json!({
        "sparse": matches!(experts.shared, Shared::Sparse(_)),
        "kernel": text::form(&blank.prior().kernel, d),
        "mean": blank.prior().mean,
        "parameters": parameters,
        "compute": compute,
        "columns": d,
    })
}

/// The experts of a rank, which have these rows: their model, and which of the rows are whose.
fn handed_out(experts: &Experts, rank: usize, (rows, data): (&[usize], Data), compute: Compute) -> Message {
    let share = experts.share(rank);
    let mut message = Message { document: form(experts, data.d(), compute), ..Message::default() };
    message.document["first"] = share.start.into();
    message.document["labels"] = experts.labels[share.clone()].into();
    if let Some(shards) = &experts.shards {
        message.document[TOLD] = shards.told.clone();
        return message;
    }
    message.document["rows"] = rows.len().into();
    let place = |row: &usize| rows.binary_search(row).unwrap_or_default() as f64;
    let places = |rows: &[usize]| rows.iter().map(place).collect::<Vec<f64>>();
    // Numbers of rows are many: as arrays, for documents have a limit.
    put(&mut message, "counts", experts.parts()[share.clone()].iter().map(|rows| rows.len() as f64).collect());
    put(&mut message, "parts", places(&experts.parts()[share].concat()));
    put(&mut message, "communication", places(&experts.communication));
    if let Data::Window(window) = data {
        message.document[SOURCE] = window.source.told();
        shared_rows::name(&mut message, &*window.source, rows);
    }
    message
}

impl Experts {
    /// The rows that a rank needs: those of its experts and of the communication expert, ascending.
    fn rows_of(&self, rank: usize) -> Vec<usize> {
        let mut rows: Vec<usize> = self.parts()[self.share(rank)].concat();
        rows.extend(&*self.communication);
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

/// The raw values of all parameters: ranks see what the leader sees, bit for bit.
pub(super) fn with_parameters(experts: &Experts) -> Message {
    let mut message = Message::default();
    put(&mut message, "parameters", experts.parameters().into_iter().flat_map(|(_, p)| p.raw().to_vec()).collect());
    message
}

/// Evaluations as a message.
pub(super) fn written(parts: &[Part]) -> Message {
    let mut message = Message::default();
    put(&mut message, "loss", parts.iter().map(|part| part.loss).collect());
    put(&mut message, "jitter", parts.iter().map(|part| part.jitter).collect());
    put(&mut message, "slopes", parts.iter().flat_map(|part| part.slopes.concat()).collect());
    message
}

pub(super) fn read(experts: &Experts, mut message: Message) -> Result<Vec<Part>> {
    let (losses, jitters) = (take(&mut message, "loss")?, take(&mut message, "jitter")?);
    let slopes = take(&mut message, "slopes")?;
    let parameters = experts.parameters();
    let lengths: Vec<usize> = parameters.iter().filter(|(_, p)| !p.fixed).map(|(_, p)| p.len()).collect();
    let mut rest = &slopes[..];
    let mut next = || {
        let of_one = lengths.iter().map(|length| {
            let (own, others) = rest.split_at_checked(*length)?;
            rest = others;
            Some(own.to_vec())
        });
        of_one.collect::<Option<Vec<_>>>()
    };
    let gradient = !slopes.is_empty();
    let part = |(loss, jitter): (f64, f64)| Part {
        loss,
        jitter,
        slopes: if gradient { next().unwrap_or_default() } else { Vec::new() },
    };
    Ok(losses.into_iter().zip(jitters).map(part).collect())
}

/// What experts say as a message.
pub(super) fn said(all: Vec<Marginals>) -> Message {
    let mut message = Message { document: json!({ "experts": all.len() }), ..Message::default() };
    put(&mut message, "counts", all.iter().map(|said| said.mean.len() as f64).collect());
    put(&mut message, "mean", all.iter().flat_map(|said| said.mean.clone()).collect());
    put(&mut message, "variance", all.into_iter().flat_map(|said| said.variance).collect());
    message
}

fn heard(mut message: Message) -> Result<Vec<Marginals>> {
    let counts = take(&mut message, "counts")?;
    let (mean, variance) = (take(&mut message, "mean")?, take(&mut message, "variance")?);
    let (mut means, mut variances) = (mean.into_iter(), variance.into_iter());
    let of_one = |count: f64| {
        let count = count as usize;
        let mean = means.by_ref().take(count).collect();
        Marginals { mean, variance: variances.by_ref().take(count).collect(), floored: 0 }
    };
    Ok(counts.into_iter().map(of_one).collect())
}
