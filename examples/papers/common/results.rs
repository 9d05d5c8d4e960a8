//! Results as lines of JSON. A line holds what decided the numbers, and the numbers; a later run computes only the
//! lines that are missing.

use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cagey::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::command::Job;

impl<O> Job<O> {
    /// The result of `key`: from the program's file, or computed now and added to it. Results belong to this figure
    /// unless the key has an `item` of its own, which several figures may share.
    pub fn once<T: Serialize + DeserializeOwned>(
        &self,
        mut key: Value,
        compute: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if key["item"].is_null() {
            key["item"] = json!(self.name);
        }
        let path = self.common.output.join(format!("{}.jsonl", self.program));
        if self.lines.borrow().is_none() {
            let text = if path.exists() {
                std::fs::read_to_string(&path).map_err(|e| Error::io(&path, &e))?
            } else {
                String::new()
            };
            // A line that a killed run left unfinished is not read, and computed again.
            *self.lines.borrow_mut() = Some(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect());
        }
        let known =
            self.lines.borrow().iter().flatten().find(|line| line["key"] == key).map(|line| line["value"].clone());
        if let Some(value) = known.and_then(|value| serde_json::from_value(value).ok()) {
            return Ok(value);
        }
        let start = Instant::now();
        let value = compute()?;
        let seconds = start.elapsed().as_secs_f64();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let written = |e: serde_json::Error| Error::Data(format!("a result of {}: {e}", self.name));
        let line = json!({
            "key": key,
            "value": serde_json::to_value(&value).map_err(written)?,
            "seconds": seconds,
            "threads": rayon::current_num_threads(),
            "time": now,
        });
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(&path).map_err(|e| Error::io(&path, &e))?;
        writeln!(file, "{line}").map_err(|e| Error::io(&path, &e))?;
        self.lines.borrow_mut().get_or_insert_default().push(line);
        Ok(value)
    }
}
