//! What follows for a run whose host is gone, by its record on the drive. A pure function of both.

use super::tags::RunState;
use crate::host::runs::Run;

/// The reason of an instance that a caller of EC2 ended (EC2 API reference, *`StateReason`*).
const BY_CALLER: &str = "Client.UserInitiatedShutdown";

/// The prefix of the reason of an instance that EC2 ended.
pub const BY_EC2: &str = "Server.";

/// What follows for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Its next try.
    Bring,
    /// Nothing: it is over, in this state and with this exit code.
    Over(RunState, Option<u8>),
}

/// What follows for a run with this `record`, if it has one, after its host ended for that reason, where
/// EC2 still knows it.
#[must_use]
pub fn next(record: Option<&Run>, why_ended: Option<&str>) -> Next {
    if let Some(status) = record.and_then(Run::finished) {
        return Next::Over(RunState::ended_with(status), Some(status));
    }
    // xdrive ends hosts by the same call, but only those that have closed: the command's end is on
    // record then. Whoever ended this one in the console wants to pay no more.
    let was_cut_off = record.is_none_or(|run| run.status.is_none());
    if was_cut_off && why_ended.is_some_and(|why| why.starts_with(BY_CALLER)) {
        return Next::Over(RunState::Stopped, None);
    }
    Next::Bring
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: Option<u8>, closing: Option<&str>) -> Run {
        let status = status.map_or_else(|| "null".to_owned(), |status| status.to_string());
        let closing = closing.map_or_else(|| "null".to_owned(), |why| format!("{why:?}"));
        let record = format!(
            r#"{{"run": "1f", "command": "x", "began": 1.0, "ended": null, "status": {status},
                "closing": {closing}, "written": [0, 0]}}"#
        );
        let id = crate::host::container::CommandId::parse("1f").unwrap();
        Run::on_record(&id, record.as_bytes()).unwrap().0
    }

    #[test]
    fn a_run_is_over_once_its_command_ended_by_itself_or_well() {
        let next = |status, closing, why| next(Some(&run(status, closing)), why);
        let notice = Some("EC2 takes the machine");
        assert_eq!(
            next(Some(0), None, None),
            Next::Over(RunState::Done, Some(0))
        );
        assert_eq!(
            next(Some(0), notice, None),
            Next::Over(RunState::Done, Some(0))
        );
        let failed = Next::Over(RunState::Failed, Some(3));
        assert_eq!(
            next(Some(3), None, Some("Client.UserInitiatedShutdown")),
            failed
        );
        assert_eq!(next(Some(143), notice, None), Next::Bring);
        assert_eq!(
            next(None, None, Some("Server.SpotInstanceTermination")),
            Next::Bring
        );
    }

    #[test]
    fn a_run_whose_host_was_ended_in_the_console_is_not_begun_again() {
        let by_caller = Some("Client.UserInitiatedShutdown: User initiated shutdown");
        let stopped = Next::Over(RunState::Stopped, None);
        assert_eq!(next(Some(&run(None, None)), by_caller), stopped);
        assert_eq!(next(None, by_caller), stopped);
        // A host that closed before xdrive ended it.
        let closed = run(Some(143), Some("EC2 takes the machine"));
        assert_eq!(next(Some(&closed), by_caller), Next::Bring);
        assert_eq!(next(None, None), Next::Bring);
    }
}
