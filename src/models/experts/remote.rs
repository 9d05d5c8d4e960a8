//! How ranks get their experts.
//!
//! The leader hands rows out in chunks, unless ranks read them themselves. No message holds all rows.

use serde_json::{Value, json};

use super::rows::Data;
use super::shards::TOLD;
use super::{Experts, Shared};
use crate::device::Compute;
use crate::error::Result;
use crate::exchange::{Message, Talk, put};
use crate::kernels::text;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::shared_rows::{self, SOURCE};
use crate::params::{Parameter, Parameters};

/// The message that gives a rank its experts.
pub(super) const HOLD: &str = "experts.hold";
/// The message that gives a rank more rows.
pub(super) const ROWS: &str = "experts.rows";

/// Bytes of rows in one chunk, for all ranks together.
const CHUNK: usize = 8 << 20;

/// Gives every rank its experts, unless it has them already.
pub(super) fn hold(experts: &Experts, talk: &mut Talk, size: usize, data: Data, compute: Compute) -> Result<()> {
    let number = fingerprint(experts, data, compute);
    if talk.holds(number) {
        return Ok(());
    }
    // The leader has its own rows.
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
    let (mut message, rows) = (Message::default(), data.gather(rows)?.into_values());
    put(&mut message, "x", rows.x);
    put(&mut message, "y", rows.y);
    if let Some(values) = rows.auxiliary {
        put(&mut message, "noise", values);
    }
    Ok(message)
}

/// A checksum of what the ranks hold, to notice changes.
fn fingerprint(experts: &Experts, data: Data, compute: Compute) -> u64 {
    let mut of_data = crc32fast::Hasher::new();
    match data {
        Data::Memory(data) => {
            for values in [&data.x, &data.y].into_iter().chain(&data.auxiliary) {
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

/// The experts with all parameter values set to 0. Each question brings the values.
fn blank(experts: &Experts) -> Experts {
    let mut blank = experts.clone();
    blank.parameters_mut().into_iter().for_each(|(_, p)| p.put_raw(&vec![0.0; p.len()]));
    blank
}

/// The description of the experts that a rank receives and keeps, without their rows.
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

/// The message for a rank that has these rows: its experts' model, and which row belongs to which expert.
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
    // Row numbers go into arrays because there are many of them and documents have a size limit.
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
    /// The rows that a rank needs, ascending: the rows of its experts and of the communication expert.
    fn rows_of(&self, rank: usize) -> Vec<usize> {
        let mut rows: Vec<usize> = self.parts()[self.share(rank)].concat();
        rows.extend(&*self.communication);
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

/// A message with the raw values of all parameters, so that ranks use the leader's values bit for bit.
pub(super) fn with_parameters(experts: &Experts) -> Message {
    let mut message = Message::default();
    put(&mut message, "parameters", experts.parameters().into_iter().flat_map(|(_, p)| p.raw().to_vec()).collect());
    message
}
