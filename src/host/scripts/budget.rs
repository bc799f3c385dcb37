//! The call by which a host keeps a budget: see `shell/host/budget.py`.

use std::time::Duration;

use super::Host;
use crate::host::facts::{Facts, ScriptError};
use crate::quote::quote;

/// A budget as a host keeps it.
#[derive(Debug)]
pub struct BudgetOrder<'a> {
    /// The session or the run that it is for, over all its hosts.
    pub id: &'a str,
    /// How many US cents they may take in all.
    pub cents: u64,
    /// How many US dollars this host takes an hour.
    pub rate: f64,
    /// Since when.
    pub age: Duration,
}

/// The time that the budgets of a host leave it.
#[derive(Debug, Clone, Copy)]
pub struct Budgeted {
    /// How long it may go on, from now on.
    pub left: Duration,
    /// The US dollars of the budget that ends it first, where that is another one's.
    pub bound: Option<f64>,
}

impl Host {
    /// Has the host close the drive once this budget is spent, or another one that it keeps.
    pub async fn keep_budget(&self, order: &BudgetOrder<'_>) -> Result<Budgeted, ScriptError> {
        const SCRIPT: &str = "budget.py set";
        let (id, cents) = (quote(order.id), order.cents);
        let (rate, age) = (order.rate, order.age.as_secs());
        let output = self
            .run_python(&format!("{SCRIPT} {id} {cents} {rate:.6} {age}"))
            .await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        Ok(Budgeted {
            left: Duration::from_secs(facts.require("budget")?),
            bound: facts.optional("bound")?,
        })
    }
}
