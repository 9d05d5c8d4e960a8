//! Counts of what aggregation changed.

/// How much was clipped, floored or taken from elsewhere in a number of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// The number of rows.
    pub rows: usize,
    /// Clipped variances of experts (above the prior's or below its smallest share) and clipped negative shares of
    /// experts. At most M for each row, or twice that.
    pub clipped: usize,
    /// Rows whose variance was below the smallest share of the prior's.
    pub floored: usize,
    /// Rows whose variance is above the prior's. It happens far from the data of most experts, where a product without
    /// a prior knows less than the prior.
    pub vague: usize,
    /// Rows that no expert knows anything about. The prior was taken for them.
    pub prior: usize,
    /// Rows where some experts repeat others and were left out of the solve.
    pub dependent: usize,
}

impl Record {
    /// Adds what happened in more rows.
    pub fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.clipped += more.clipped;
        self.floored += more.floored;
        self.vague += more.vague;
        self.prior += more.prior;
        self.dependent += more.dependent;
    }

    /// Messages for the user, one line for each kind of change.
    pub fn lines(&self) -> Vec<String> {
        let rows = self.rows;
        let all = [
            (self.clipped, "variances or shares of experts were outside of their range and were clipped"),
            (self.floored, "variances were below the smallest share of the prior's, and were raised to it"),
            (self.vague, "variances are above the prior's: this rule has no prior, or its weights do not fit there"),
            (self.prior, "rows are unknown to all experts; the prior was taken"),
            (self.dependent, "rows have experts that repeat others; these experts were left out there"),
        ];
        let said = all.into_iter().filter(|(count, _)| *count > 0);
        said.map(|(count, what)| format!("{count} {what} ({rows} rows)")).collect()
    }
}
