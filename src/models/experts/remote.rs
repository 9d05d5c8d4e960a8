//! How ranks come to hold their experts.

use serde_json::{Value, json};

use super::shards::TOLD;
use super::{Experts, Shared};
use crate::device::Compute;
use crate::error::Result;
use crate::exchange::{Message, Talk, put};
use crate::kernels::text;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::params::{Parameter, Parameters};

/// To hold experts.
pub(super) const HOLD: &str = "experts.hold";

/// Gives every rank its experts, unless they have them.
pub(super) fn hold(
    experts: &Experts,
    talk: &mut Talk,
    size: usize,
    data: &Observations,
    compute: Compute,
) -> Result<()> {
    let number = fingerprint(experts, data, compute);
    if talk.holds(number) {
        return Ok(());
    }
    let messages = (0..size).map(|rank| match rank {
        // The leader has all rows.
        0 => Ok(Message::default()),
        rank => handed_out(experts, rank, data, compute),
    });
    talk.hand_out(HOLD, number, messages.collect::<Result<_>>()?).map(drop)
}

/// Tells apart what ranks may hold.
fn fingerprint(experts: &Experts, data: &Observations, compute: Compute) -> u64 {
    let mut of_data = crc32fast::Hasher::new();
    for values in [&data.x, &data.y].into_iter().chain(&data.noise) {
        values.iter().for_each(|value| of_data.update(&value.to_le_bytes()));
    }
    let mut of_experts = crc32fast::Hasher::new();
    of_experts.update(form(experts, data.d, compute).to_string().as_bytes());
    let told = experts.shards.as_ref().map(|shards| shards.told.to_string());
    of_experts.update(told.unwrap_or_default().as_bytes());
    for rows in experts.parts().iter().chain([&*experts.communication]) {
        rows.iter().for_each(|row| of_experts.update(&row.to_le_bytes()));
        of_experts.update(b";");
    }
    u64::from(of_data.finalize()) << 32 | u64::from(of_experts.finalize())
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

/// The experts of a rank: their model, rows, and the rows of the communication expert.
fn handed_out(experts: &Experts, rank: usize, data: &Observations, compute: Compute) -> Result<Message> {
    let share = experts.share(rank);
    let mut message = Message { document: form(experts, data.d, compute), ..Message::default() };
    message.document["first"] = share.start.into();
    message.document["labels"] = experts.labels[share.clone()].into();
    if let Some(shards) = &experts.shards {
        message.document[TOLD] = shards.told.clone();
        return Ok(message);
    }
    let mut rows: Vec<usize> = experts.parts()[share.clone()].concat();
    rows.extend(&*experts.communication);
    rows.sort_unstable();
    rows.dedup();
    let place = |row: &usize| rows.binary_search(row).unwrap_or_default() as f64;
    let places = |rows: &[usize]| rows.iter().map(place).collect::<Vec<f64>>();
    let own = data.gather(&rows)?;
    // Numbers of rows are many: as arrays, for documents have a limit.
    put(&mut message, "counts", experts.parts()[share.clone()].iter().map(|rows| rows.len() as f64).collect());
    put(&mut message, "parts", places(&experts.parts()[share].concat()));
    put(&mut message, "communication", places(&experts.communication));
    put(&mut message, "x", own.x);
    put(&mut message, "y", own.y);
    if let Some(noise) = own.noise {
        put(&mut message, "noise", noise);
    }
    Ok(message)
}

/// The raw values of all parameters: ranks see what the leader sees, bit for bit.
pub(super) fn with_parameters(experts: &Experts) -> Message {
    let mut message = Message::default();
    put(&mut message, "parameters", experts.parameters().into_iter().flat_map(|(_, p)| p.raw().to_vec()).collect());
    message
}
