//! The parameters of a kernel: their paths, units and columns.

use super::{Kernel, Leaf};
use crate::params::{Parameter, Parameters, Unit, prefixed};

impl Kernel {
    /// Tells every parameter the units of the data: one `input_sd` per column, and the target's standard deviation.
    ///
    /// In a product only the first factor has the target's unit. A single length for several columns is in units of
    /// their standard deviations.
    pub fn set_units(&mut self, input_sd: &[f64], target_sd: f64) {
        self.visit_mut(input_sd, &1.0, target_sd, &mut |leaf, sd, target_sd| {
            for parameter in &mut leaf.parameters {
                let length = |i: usize| match (sd.len(), parameter.len()) {
                    (1, _) => sd[0],
                    (_, 1) => 1.0,
                    (d, _) => sd[i % d],
                };
                let scale = (0..parameter.len())
                    .map(|i| match parameter.unit {
                        Unit::None | Unit::Level | Unit::Slope => 1.0,
                        Unit::Length => length(i),
                        Unit::Frequency => 1.0 / length(i),
                        Unit::Variance => target_sd * target_sd,
                        Unit::VariancePerLengthSquared => (target_sd / length(i)).powi(2),
                    })
                    .collect();
                parameter.put_scale(scale, 0.0);
            }
        });
    }

    /// Visits the leaves with what is known of the columns that each sees, and with its level: in a product only the
    /// first factor has the level of the whole. Outputs of a transform are `plain`, without a unit.
    pub(super) fn visit_mut<C: Clone>(
        &mut self,
        columns: &[C],
        plain: &C,
        level: f64,
        visit: &mut impl FnMut(&mut Leaf, &[C], f64),
    ) {
        match self {
            Self::Leaf(leaf) => {
                let own = match &leaf.dims {
                    None => columns.to_vec(),
                    // The first evaluation reports a column that does not exist.
                    Some(dims) => dims.iter().map(|&c| columns.get(c).unwrap_or(plain).clone()).collect(),
                };
                visit(leaf, &own, level);
            }
            Self::Sum(parts) => parts.iter_mut().for_each(|k| k.visit_mut(columns, plain, level, visit)),
            Self::Product(parts) => {
                for (i, part) in parts.iter_mut().enumerate() {
                    part.visit_mut(columns, plain, if i == 0 { level } else { 1.0 }, visit);
                }
            }
            Self::Transformed(t) => {
                let outputs = vec![plain.clone(); t.transform.output_dim(columns.len())];
                t.kernel.visit_mut(&outputs, plain, level, visit);
            }
        }
    }

    /// Gives every period one entry for each of the columns, of `d`, that its kernel sees: one number would be a period
    /// in standard deviations, and so another one in the unit of each column.
    pub fn spread_periods(&mut self, d: usize) {
        match self {
            Self::Leaf(leaf) if leaf.form.ard().contains(&"period") => {
                let active = leaf.dims.as_ref().map_or(d, Vec::len);
                for period in leaf.parameters.iter_mut().filter(|p| p.name == "period" && p.len() < active) {
                    let value = period.values()[0];
                    period.resize(&vec![value; active]);
                }
            }
            // The outputs of a transform have no unit.
            Self::Leaf(_) | Self::Transformed(_) => {}
            Self::Sum(parts) | Self::Product(parts) => parts.iter_mut().for_each(|k| k.spread_periods(d)),
        }
    }

    /// The input columns, of `d`, to which the entries of each parameter belong; None for a parameter without one entry
    /// per column.
    pub fn entry_columns(&self, d: usize) -> Vec<Option<Vec<usize>>> {
        match self {
            Self::Leaf(leaf) => {
                let dims = leaf.dims.clone().unwrap_or_else(|| (0..d).collect());
                let own = |p: &Parameter| leaf.form.ard().contains(&p.name.as_str()) && p.len() == dims.len();
                leaf.parameters.iter().map(|p| own(p).then(|| dims.clone())).collect()
            }
            Self::Sum(parts) | Self::Product(parts) => parts.iter().flat_map(|k| k.entry_columns(d)).collect(),
            Self::Transformed(_) => vec![None; self.parameters().len()],
        }
    }

    pub(super) fn leaf_names(&self) -> Vec<String> {
        match self {
            Self::Leaf(leaf) => vec![leaf.form.name().to_string()],
            Self::Sum(parts) | Self::Product(parts) => parts.iter().flat_map(Self::leaf_names).collect(),
            Self::Transformed(t) => {
                std::iter::once(t.transform.name().to_string()).chain(t.kernel.leaf_names()).collect()
            }
        }
    }

    /// Names of the leaves in order. Names that occur more than once get numbers.
    fn paths(&self) -> Vec<String> {
        let names = self.leaf_names();
        let count = |among: &[String], name: &String| among.iter().filter(|other| *other == name).count();
        let path = |(i, name): (usize, &String)| match count(&names, name) {
            1 => name.clone(),
            _ => format!("{name}{}", count(&names[..=i], name)),
        };
        names.iter().enumerate().map(path).collect()
    }

    fn groups(&self) -> Vec<&[Parameter]> {
        match self {
            Self::Leaf(leaf) => vec![&leaf.parameters],
            Self::Sum(parts) | Self::Product(parts) => parts.iter().flat_map(Self::groups).collect(),
            Self::Transformed(t) => std::iter::once(t.parameters.as_slice()).chain(t.kernel.groups()).collect(),
        }
    }

    fn groups_mut(&mut self) -> Vec<&mut [Parameter]> {
        match self {
            Self::Leaf(leaf) => vec![&mut leaf.parameters],
            Self::Sum(parts) | Self::Product(parts) => parts.iter_mut().flat_map(Self::groups_mut).collect(),
            Self::Transformed(t) => std::iter::once(t.parameters.as_mut_slice()).chain(t.kernel.groups_mut()).collect(),
        }
    }
}

impl Parameters for Kernel {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let groups = self.paths().into_iter().zip(self.groups());
        groups.flat_map(|(path, group)| prefixed(&path, group.iter().map(|p| (p.name.clone(), p)).collect())).collect()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let groups = self.paths().into_iter().zip(self.groups_mut());
        groups
            .flat_map(|(path, group)| prefixed(&path, group.iter_mut().map(|p| (p.name.clone(), p)).collect()))
            .collect()
    }
}
