//! A rank that does not lead: it holds experts and answers the leader's questions about them.

use std::sync::atomic::AtomicUsize;

use super::conditioned::{self, Conditioned, SAY};
use super::objective::{self, Asked, EVALUATE};
use super::pooled::{self, Adjoints, MOMENTS, PULL};
use super::remote::{HOLD, ROWS};
use super::rows::Data;
use super::training::{self, Client, ROUND, Round};
use super::{Experts, Shared};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::exchange::{Message, Service, entry, take};
use crate::kernels::registry::Registry;
use crate::kernels::text;
use crate::likelihoods::Gaussian;
use crate::means::Mean;
use crate::models::Observations;
use crate::models::branches;
use crate::models::exact::{ExactGp, ExactObjective};
use crate::models::prior::Prior;
use crate::models::sgpr::Sgpr;
use crate::params::{Parameter, Parameters};

/// Answers questions about the experts of a rank.
#[derive(Debug)]
pub struct Server<'a> {
    kernels: &'a Registry,
    crew: Option<Crew>,
}

/// The experts of a rank.
#[derive(Debug)]
struct Crew {
    experts: Experts,
    /// The rows of the experts and of the communication expert that have arrived so far.
    data: Observations,
    /// How many rows there will be.
    rows: usize,
    compute: Compute,
    /// The number of the first expert of this rank among all experts.
    first: usize,
    /// The conditioned experts, and the parameters that they were conditioned with.
    conditioned: Option<(Vec<f64>, Conditioned)>,
}

impl<'a> Server<'a> {
    /// Makes a rank that knows these kernels and holds nothing yet.
    pub fn new(kernels: &'a Registry) -> Self {
        Self { kernels, crew: None }
    }

    /// Takes experts whose rows this process already has.
    ///
    /// # Errors
    /// [`Error`] if the message or the rows cannot be used.
    pub fn hold_with(&mut self, message: Message, rows: Observations) -> Result<()> {
        self.crew = None;
        let count = rows.n();
        self.crew = Some(Crew { data: rows, rows: count, ..crew(self.kernels, message)? });
        Ok(())
    }
}

impl Service for Server<'_> {
    fn is_handed_out(&self, ask: &str) -> bool {
        ask == HOLD || ask == ROWS
    }

    fn hold(&mut self, ask: &str, message: Message) -> Result<()> {
        if ask == HOLD {
            self.crew = None;
            self.crew = Some(crew(self.kernels, message)?);
            return Ok(());
        }
        self.crew.as_mut().ok_or_else(|| unknown(ask))?.receive(message)
    }

    fn answer(&mut self, ask: &str, mut message: Message) -> Result<Message> {
        let Some(crew) = self.crew.as_mut().filter(|crew| crew.data.n() == crew.rows) else {
            return Err(unknown(ask));
        };
        let raw = take(&mut message, "parameters")?;
        match ask {
            EVALUATE => {
                crew.set(&raw)?;
                let asked = Asked {
                    compute: crew.compute,
                    gradient: entry(&mut message.document, "gradient")?,
                    budget: entry(&mut message.document, "budget")?,
                };
                Ok(objective::written(&objective::own(&crew.experts, Data::Memory(&crew.data), asked)?))
            }
            ROUND => {
                crew.set(&raw)?;
                let document = &mut message.document;
                let (round, drawn): (Round, Vec<usize>) = (entry(document, "round")?, entry(document, "drawn")?);
                let (z, numbers) = (take(&mut message, "z")?, take(&mut message, "clients")?);
                let states = drawn.into_iter().zip(numbers.chunks(Client::size(z.len())));
                // This rank counts its experts from 0.
                let own = states.filter(|(expert, _)| (crew.first..crew.first + crew.experts.len()).contains(expert));
                let own: Vec<(usize, Result<Client>)> =
                    own.map(|(expert, numbers)| (expert - crew.first, Client::read(numbers, z.len()))).collect();
                let drawn: Vec<usize> = own.iter().map(|(expert, _)| *expert).collect();
                let clients: Vec<Client> = own.into_iter().map(|(_, client)| client).collect::<Result<_>>()?;
                let of = (&crew.experts, Data::Memory(&crew.data), crew.compute);
                let made = training::own(of, &round, (&drawn, &clients), &z, &AtomicUsize::default())?;
                Ok(training::made_in_round(&made))
            }
            MOMENTS => {
                crew.set(&raw)?;
                let budget = entry(&mut message.document, "budget")?;
                let data = Data::Memory(&crew.data);
                pooled::own(&crew.experts, data, crew.compute, budget, crew.first).map(branches::written)
            }
            PULL => {
                crew.set(&raw)?;
                let (square, projected) = (take(&mut message, "square")?, take(&mut message, "projected")?);
                let budget = entry(&mut message.document, "budget")?;
                let asked = Asked { compute: crew.compute, gradient: true, budget };
                let adjoints = Adjoints { square, projected };
                Ok(objective::written(&pooled::pull(&crew.experts, Data::Memory(&crew.data), asked, &adjoints)?))
            }
            SAY => {
                let (augmented, x) = (entry(&mut message.document, "augmented")?, take(&mut message, "x")?);
                Ok(conditioned::said(crew.conditioned(raw)?.say(augmented, &x)?))
            }
            _ => Err(unknown(ask)),
        }
    }
}

fn unknown(ask: &str) -> Error {
    Error::Device(format!("this rank cannot answer `{ask}`"))
}

impl Crew {
    /// Takes more rows.
    fn receive(&mut self, mut message: Message) -> Result<()> {
        let (x, y) = (take(&mut message, "x")?, take(&mut message, "y")?);
        let noise = message.arrays.contains_key("noise").then(|| take(&mut message, "noise")).transpose()?;
        if y.is_empty() {
            return Ok(());
        }
        self.data.append(Observations::new(x, self.data.d, y, noise)?)
    }

    /// Sets the raw values of all parameters.
    fn set(&mut self, raw: &[f64]) -> Result<()> {
        let mut rest = raw;
        for (path, parameter) in self.experts.parameters_mut() {
            let Some((own, others)) = rest.split_at_checked(parameter.len()) else {
                return Err(Error::shape(path, parameter.len().to_string(), rest.len().to_string()));
            };
            parameter.put_raw(own);
            rest = others;
        }
        Ok(())
    }

    /// The experts conditioned with these parameters.
    fn conditioned(&mut self, raw: Vec<f64>) -> Result<&Conditioned> {
        if self.conditioned.as_ref().is_none_or(|(known, _)| *known != raw) {
            self.conditioned = None;
            self.set(&raw)?;
            let conditioned = Conditioned::new(self.experts.clone(), self.compute, self.data.clone())?;
            self.conditioned = Some((raw, conditioned));
        }
        self.conditioned.as_ref().map(|(_, conditioned)| conditioned).ok_or_else(|| unknown(SAY))
    }
}

/// Reads the experts of a rank from a message. Their rows come later.
fn crew(kernels: &Registry, mut message: Message) -> Result<Crew> {
    let document = &mut message.document;
    let d: usize = entry(document, "columns")?;
    let kernel_text: String = entry(document, "kernel")?;
    let mean: Mean = entry(document, "mean")?;
    let parameters: Vec<Parameter> = entry(document, "parameters")?;
    let (compute, sparse): (Compute, bool) = (entry(document, "compute")?, entry(document, "sparse")?);
    let (labels, first): (Vec<String>, usize) = (entry(document, "labels")?, entry(document, "first")?);
    let rows = document["rows"].as_u64().unwrap_or_default() as usize;
    let mut places = |name: &str| take(&mut message, name).map(|rows| rows.into_iter().map(|row| row as usize));
    let (mut own, communication) = (places("parts")?, places("communication")?.collect());
    let parts = places("counts")?.map(|count| own.by_ref().take(count).collect()).collect();
    let kernel = text::parse(&kernel_text, d, kernels)?;
    let likelihood = Gaussian::new(0.1);
    let shared = if sparse {
        let inducing = parameters.iter().find(|parameter| parameter.name == "inducing");
        let z = inducing.map(Parameter::internal).unwrap_or_default();
        let mut model = Sgpr::new(kernel, &z, d)?;
        model.process.prior.mean = mean;
        Shared::Sparse(model)
    } else {
        let objective = ExactObjective::MarginalLikelihood;
        Shared::Exact(ExactGp { prior: Prior { kernel, mean }, likelihood, objective })
    };
    let mut experts = Experts::of_rank(shared, parts, communication, labels);
    let slots = experts.parameters_mut();
    if slots.len() != parameters.len() {
        return Err(Error::shape("parameters of a rank", slots.len().to_string(), parameters.len().to_string()));
    }
    slots.into_iter().zip(parameters).for_each(|((_, slot), parameter)| *slot = parameter);
    let data = Observations::unchecked(Vec::with_capacity(rows * d), d, Vec::with_capacity(rows), None);
    Ok(Crew { experts, data, rows, compute, first, conditioned: None })
}
