//! `cagey devices`

use cagey::Result;
use cagey::device::{Compute, DeviceKind, Precision};
use clap::Args;

use super::report;

/// List the devices of this build and machine
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cagey devices
  cagey fit data.csv --device flex --dtype f32 -o model.cagey")]
pub struct Devices {}

impl Devices {
    /// Tries each kind of device.
    pub fn run(self) -> Result<()> {
        let default = Compute::default().kind;
        let rows: Vec<(String, String)> = DeviceKind::ALL
            .into_iter()
            .map(|kind| {
                let offers = |precision| Compute { kind, precision }.device();
                let state = match (offers(Precision::F32), offers(Precision::F64)) {
                    (Ok(_), Ok(_)) => "f32, f64".to_string(),
                    (Ok(_), Err(_)) => "f32".to_string(),
                    (Err(error), _) => error.to_string(),
                };
                let adapter = kind.adapter().map(|name| format!(" on {name}")).unwrap_or_default();
                let mark = if kind == default { " (default)" } else { "" };
                (kind.name().to_string(), state + &adapter + mark)
            })
            .collect();
        report::print(&report::table(&rows))
    }
}
