//! What a rank that does not lead does for a job.

use serde_json::Value;

use super::build::Form;
use super::registry::Registry;
use super::shards::{OPEN, Opened, Reading, SUMMARISE, Scales, Shard, summary};
use crate::error::{Error, Result};
use crate::exchange::{Message, Service, entry};
use crate::models::experts::{self, Server};
use crate::models::gp_model::GpModel;
use crate::models::spread::{self, Place};

/// What a rank that does not lead does: it reads tables, and holds and answers for what is made of them.
#[derive(Debug)]
pub struct Rank<'a> {
    registry: &'a Registry,
    experts: Server<'a>,
    opened: Option<(Reading, Vec<Opened>)>,
    /// A model whose minibatches are shared, and this rank.
    model: Option<(Box<dyn GpModel>, Place)>,
}

impl<'a> Rank<'a> {
    /// A rank that has read nothing yet.
    pub fn new(registry: &'a Registry) -> Self {
        Self { registry, experts: Server::new(&registry.kernels), opened: None, model: None }
    }

    fn open<'p>(&mut self, paths: impl Iterator<Item = &'p str>, reading: Reading) -> Result<()> {
        self.opened = None;
        let tables = paths.map(|path| Opened::read(path, &reading)).collect::<Result<_>>()?;
        self.opened = Some((reading, tables));
        Ok(())
    }

    fn opened(&self) -> Result<(&Reading, &[Opened])> {
        let opened = self.opened.as_ref().map(|(reading, tables)| (reading, &tables[..]));
        opened.ok_or_else(|| Error::Device("this rank has read no tables".into()))
    }
}

impl Service for Rank<'_> {
    fn is_handed_out(&self, ask: &str) -> bool {
        ask == OPEN || ask == spread::HOLD || self.experts.is_handed_out(ask)
    }

    fn hold(&mut self, ask: &str, mut message: Message) -> Result<()> {
        if ask == OPEN {
            let (paths, reading): (Vec<String>, Reading) =
                (entry(&mut message.document, "paths")?, entry(&mut message.document, "reading")?);
            return self.open(paths.iter().map(String::as_str), reading);
        }
        if ask == spread::HOLD {
            let (form, document): (Form, _) = (entry(&mut message.document, "form")?, &mut message.document);
            let place = Place { rank: entry(document, "rank")?, size: entry(document, "size")? };
            self.model = Some((form.model(self.registry)?, place));
            return Ok(());
        }
        if message.document.get(experts::TOLD).is_some() {
            let mut told: Value = entry(&mut message.document, experts::TOLD)?;
            let (scales, reading): (Scales, Reading) = (entry(&mut told, "scales")?, entry(&mut told, "reading")?);
            let shards: Vec<Shard> = entry(&mut told, "shards")?;
            let own = experts::share_of(&message, &shards)?;
            let known = self.opened.as_ref().is_some_and(|(_, tables)| {
                tables.iter().map(|table| &table.path).eq(own.iter().map(|shard| &shard.path))
            });
            if !known {
                self.open(own.iter().map(|shard| shard.path.as_str()), reading)?;
            }
            let (reading, tables) = self.opened()?;
            let rows = tables.iter().map(|table| table.observed(&scales, reading.auxiliary_column.as_deref()));
            experts::fill(&mut message, rows.collect::<Result<_>>()?)?;
        }
        self.experts.hold(ask, message)
    }

    fn answer(&mut self, ask: &str, message: Message) -> Result<Message> {
        if ask == SUMMARISE {
            let (reading, tables) = self.opened()?;
            return summary(tables, reading);
        }
        if !spread::ASKS.contains(&ask) {
            return self.experts.answer(ask, message);
        }
        let held = self.model.as_mut().and_then(|(model, place)| Some((model.sum_over_rows()?, *place)));
        let (model, place) = held.ok_or_else(|| Error::Device("this rank holds no model of minibatches".into()))?;
        spread::answer(model, ask, message, place)
    }
}
