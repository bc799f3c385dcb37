//! The report of what was frozen and is to go on.

use crate::host::facts::ScriptError;
use crate::host::scripts::Thawed;
use crate::report::Report;

/// Reports what became of what was to go on; returns that.
pub(super) async fn reported(
    thaw: impl Future<Output = Result<Vec<Thawed>, ScriptError>>,
    report: &Report,
) -> Vec<Thawed> {
    let step = report.step("have what is frozen go on");
    let thawed = thaw.await;
    drop(step);
    match thawed {
        Ok(thawed) => {
            for it in &thawed {
                report.print(&it.to_string());
            }
            thawed
        }
        Err(error) => {
            warn_of_frozen(report, &error.to_string());
            Vec::new()
        }
    }
}

/// Says that nothing that is frozen goes on, and why.
pub(super) fn warn_of_frozen(report: &Report, why: &str) {
    report.warn(&format!(
        "what is frozen on the drive does not go on: {why}"
    ));
}
