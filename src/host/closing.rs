//! How long programs in the container have to end, as far as that is decided by `shell/host/close`. A
//! host closes without a client too, so the script has these numbers itself; a test of the scripts
//! compares what both make of them.

use std::time::Duration;

/// The most that a program may ask for: what follows its end must fit into EC2's two minutes.
pub const LONGEST: Duration = Duration::from_mins(1);

/// The least time that every program has to end when EC2 takes the host.
pub const SHORTEST: Duration = Duration::from_secs(5);

/// The reason of a close by a session that saves the drive.
pub(crate) const SAVE: &str = "a session saves it";

/// The reason of a close that freezes commands, as its user asks for.
pub(crate) const PAUSE: &str = "frozen by its user";

/// The time that EC2 has to leave for the steps after the programs' end.
const AFTER: Duration = Duration::from_secs(50);

/// How long a program that asks for `asked` has when EC2 takes the host in `left`. The close may have
/// begun before: then it has less.
#[must_use]
pub fn time_to_end(asked: Duration, left: Duration) -> Duration {
    let granted = left.saturating_sub(AFTER).min(LONGEST);
    asked.min(granted).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_notice_shortens_what_was_asked_for_and_leaves_what_all_have() {
        let time = |asked, left| {
            let [asked, left] = [asked, left].map(Duration::from_secs);
            time_to_end(asked, left).as_secs()
        };
        assert_eq!(time(30, 118), 30);
        assert_eq!(time(30, 65), 15);
        assert_eq!(time(30, 20), 5);
        assert_eq!(time(60, 86_400), 60);
    }
}
