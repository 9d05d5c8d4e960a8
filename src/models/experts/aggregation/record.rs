//! What aggregation changed, counted.

/// What was clipped, floored or taken from elsewhere in so many rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Rows.
    pub rows: usize,
    /// Variances of experts above the prior's or below its smallest share, and negative shares of experts, which were
    /// clipped. At most M a row, or twice that.
    pub clipped: usize,
    /// Rows whose variance was below the smallest share of the prior's.
    pub floored: usize,
    /// Rows whose variance is above the prior's: far from the data of most experts a product without a prior knows less
    /// than nothing.
    pub vague: usize,
    /// Rows of which no expert knows anything, for which the prior was taken.
    pub prior: usize,
    /// Rows where some experts say what others say already, and were left out of the solve.
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

    /// What a user should be told, a line each.
    pub fn lines(&self) -> Vec<String> {
        let rows = self.rows;
        let all = [
            (self.clipped, "variances or shares of experts were outside of what they can be, and were clipped"),
            (self.floored, "variances were below the smallest share of the prior's, and were raised to it"),
            (self.vague, "variances are above the prior's: this rule has no prior, or its weights do not fit there"),
            (self.prior, "rows are of no expert's knowledge; the prior was taken"),
            (self.dependent, "rows have experts that repeat others, which were left out there"),
        ];
        let said = all.into_iter().filter(|(count, _)| *count > 0);
        said.map(|(count, what)| format!("{count} {what} ({rows} rows)")).collect()
    }
}
