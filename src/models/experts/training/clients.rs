//! The clients of a round, on one rank or several.

use std::sync::atomic::AtomicUsize;

use serde_json::json;

use super::super::objective::each;
use super::super::rows::Data;
use super::super::{Experts, remote};
use super::client::{Client, LocalObjective, Round};
use crate::device::Compute;
use crate::error::Result;
use crate::exchange::{Message, Ranks, put, take};

/// The question to a rank: do your part in a round of training.
pub(crate) const ROUND: &str = "experts.round";

/// The clients of this process among `drawn` after a round from z, with their losses at z, in the order of `drawn`.
pub(crate) fn own(
    (experts, data, compute): (&Experts, Data, Compute),
    round: &Round,
    (drawn, clients): (&[usize], &[Client]),
    z: &[f64],
    gradients: &AtomicUsize,
) -> Result<Vec<(Client, f64)>> {
    each(compute, drawn.len(), |at| {
        let expert = drawn[at];
        let rows = data.gather(&experts.parts()[expert])?;
        let local = LocalObjective::new(experts, compute, &rows, round.rows, gradients)?;
        clients[at].after(round, z, local).map_err(|error| experts.of_expert(expert, error))
    })
}

/// The clients `drawn`, which are in the states `clients`, after a round from z, with their losses at z.
pub(super) fn all(
    (experts, data, compute): (&Experts, Data, Compute),
    ranks: &Ranks,
    round: &Round,
    (drawn, clients): (&[usize], &[Client]),
    z: &[f64],
    gradients: &AtomicUsize,
) -> Result<Vec<(Client, f64)>> {
    let mut talk = ranks.talk();
    remote::hold(experts, &mut talk, ranks.size(), data, compute)?;
    let mut message = remote::with_parameters(experts);
    message.document = json!({ "round": round, "drawn": drawn });
    put(&mut message, "z", z.to_vec());
    put(&mut message, "clients", kept(clients));
    let first = drawn.partition_point(|expert| *expert < experts.own().end);
    let done = || own((experts, data, compute), round, (&drawn[..first], &clients[..first]), z, gradients);
    let answers = talk.ask(ROUND, message, || done().map(|made| made_in_round(&made)))?;
    answers.into_iter().map(|answer| after(answer, z.len())).collect::<Result<Vec<_>>>().map(|made| made.concat())
}

fn kept(clients: &[Client]) -> Vec<f64> {
    let mut numbers = Vec::new();
    clients.iter().for_each(|client| client.write(&mut numbers));
    numbers
}

/// Clients after a round as a message.
pub(crate) fn made_in_round(made: &[(Client, f64)]) -> Message {
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
