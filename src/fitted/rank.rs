//! The work of a rank that does not lead a job.

use serde_json::Value;

use super::build::Form;
use super::registry::Registry;
use super::shards::{OPEN, Opened, Reading, SUMMARISE, Scales, Shard, summary};
use super::stored::Seen;
use crate::error::{Error, Result};
use crate::exchange::{Message, Service, entry};
use crate::models::experts::{self, Server};
use crate::models::minibatch::{Rows, SharedRows};
use crate::models::shared_rows::{self, SOURCE};
use crate::models::spread::{self, Member};

/// A rank that does not lead: it reads rows, holds what is computed from them, and answers the leader's questions.
#[derive(Debug)]
pub struct Rank<'a> {
    registry: &'a Registry,
    experts: Server<'a>,
    opened: Option<(Reading, Vec<Opened>)>,
    /// The file of rows, if the leader named one.
    source: Option<Seen>,
    /// A model whose minibatches are shared.
    member: Option<Member>,
}

impl<'a> Rank<'a> {
    /// A rank that has read nothing yet.
    pub fn new(registry: &'a Registry) -> Self {
        Self { registry, experts: Server::new(&registry.kernels), opened: None, source: None, member: None }
    }

    fn open<'p>(&mut self, paths: impl Iterator<Item = &'p str>, reading: Reading) -> Result<()> {
        self.opened = None;
        let tables = paths.map(|path| Opened::read(path, &reading)).collect::<Result<_>>()?;
        self.opened = Some((reading, tables));
        Ok(())
    }

    /// Opens the file of rows that a message names; none if it names no file.
    fn told(&mut self, message: &mut Message) -> Result<Option<&Seen>> {
        self.source = None;
        let told: Value = message.document.get_mut(SOURCE).map(Value::take).unwrap_or_default();
        if !told.is_null() {
            self.source = Some(Seen::open(told)?);
        }
        Ok(self.source.as_ref())
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
            self.member = None;
            self.told(&mut message)?;
            let form: Form = entry(&mut message.document, "form")?;
            self.member = Some(Member::new(form.model(self.registry)?, &mut message)?);
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
            let rows = experts::filled(&mut message, rows.collect::<Result<_>>()?)?;
            return self.experts.hold_with(message, rows);
        }
        if let Some(source) = self.told(&mut message)? {
            let places = shared_rows::named(&mut message)?;
            let rows = shared_rows::collected(source, source.columns(), &places)?;
            return self.experts.hold_with(message, rows);
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
        let source = self.source.as_ref().map(|source| source as &dyn Rows);
        let member = self.member.as_mut().ok_or_else(|| Error::Device("this rank holds no model".into()))?;
        member.answer(ask, message, source)
    }
}
