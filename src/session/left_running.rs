//! A host that is left running.

use super::state::Session;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::opener::Cost;

impl Session {
    /// Extends the lease and leaves the host running; prints how to come back and how to save.
    /// Returns the exit code.
    pub(crate) async fn leave_running(&mut self, instance: &Instance) -> Result<u8, Failure> {
        let keep = self.leases.command;
        let (command, drive) = (self.drive.cloud.command.clone(), self.request.drive.clone());
        let until = self.reconciler.hosts().leave(instance, keep).await;
        let until = until.map_err(|error| self.not_kept(instance, error))?;
        let price = Cost::hourly(instance, &self.drive.cloud.ec2).await;
        if let Some(worker) = &self.request.worker {
            let (alias, leader) = (worker.alias(), &worker.of);
            self.drive.report.print(&format!(
                "{alias} of {leader} runs on {} until its command or {leader} has ended, at most until \
                 {until:.0}{price}",
                instance.id.short_label()
            ));
            return Ok(0);
        }
        let (until_when, way_back) = if self.request.has_terminal() {
            let place = self.request.place();
            let back = format!("{command} connect {place}  comes back to it");
            ("until", back)
        } else {
            let tended = if self.request.is_tried() {
                format!(
                    "\n  {command} tend  begins it again if EC2 takes the instance, wherever that runs; \
                     --away: on a tiny instance of its own"
                )
            } else {
                String::new()
            };
            let back = format!(
                "{command} logs {drive} -f  shows what it prints\n  \
                 {command} attach {drive}  comes back to it{tended}"
            );
            ("until its command has ended, at most until", back)
        };
        self.drive.report.print(&format!(
            "{drive} is left running on {} {until_when} {until:.0}{price}; then it is closed and \
             the instance switches itself off\n  {way_back}\n  {command} stop {drive}  saves it",
            instance.id.short_label()
        ));
        Ok(0)
    }

    /// The failure of leaving a host, which runs until its lease ends.
    pub(crate) fn not_kept(&self, instance: &Instance, error: anyhow::Error) -> Failure {
        let (command, drive) = (&self.drive.cloud.command, &self.request.drive);
        let error = error.context(format!(
            "{drive} runs on {}, but not for longer than its lease",
            instance.id.short_label()
        ));
        Failure::new(Exit::Failed, error).hint(format!(
            "{command} connect {} comes back, {command} stop {drive} saves it",
            self.request.place()
        ))
    }
}
