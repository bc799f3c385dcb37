//! The times and counts that the drive's rules use, as data.

use std::time::Duration;

/// How long and how often. See [`Timing::aws`] for what each is on AWS, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timing {
    /// The greatest staleness of a list: what was true this long ago is in every list read now.
    /// This process's own create calls are older than this before a generation is raised.
    pub settle: Duration,
    /// The pause between two sweeps at the beginning of a wait; see [`Timing::poll_after`].
    pub poll: Duration,
    /// How long another session's host without a client and without the drive is left to the
    /// session that launched it, which may be about to log in.
    pub login_window: Duration,
    /// The least time between two snapshots of one volume.
    pub snapshot_gap: Duration,
    /// How many snapshots of one volume may fail.
    pub snapshot_tries: u32,
    /// How long a completed snapshot may be unreadable before its volume is deleted unverified.
    pub verdict: Duration,
    /// The pause between two reads of it.
    pub verdict_gap: Duration,
    /// How long a volume may be `attaching`.
    pub attaching: Duration,
    /// How long after the end of its lease a host may still be up: it closes the drive first, its
    /// last timer is five minutes behind the lease, and the clocks of two laptops differ.
    pub lease_margin: Duration,
    /// How long a running instance may not answer SSH.
    pub no_ssh: Duration,
    /// How long after its launch it may not answer while EC2 reports that it boots, or is pending.
    pub boot: Duration,
    /// How long it may not answer after it has passed EC2's status checks.
    pub checked: Duration,
    /// The pause between two reads of the status checks.
    pub checks_gap: Duration,
    /// How long an instance may be ending while it holds the volume.
    pub shutting_down: Duration,
    /// How long after this process launched it an instance may have its notice so that EC2 takes it in its first hour,
    /// for which it then bills nothing.
    pub first_hour: Duration,
    /// How long an instance is left to EC2 after its notice.
    pub taking: Duration,
    /// How long to reconnect to a shell whose connection was lost.
    pub grace: Duration,
    /// How long the driver of a host's GPUs may take to answer once its drive is mounted.
    pub driver: Duration,
    /// How many instances one connect may launch before it gives up.
    pub launches: u32,
    /// How long a running instance may not answer before that is reported.
    pub silent: Duration,
    /// How long the proxy command to a running instance may end by itself each time it is run:
    /// before an instance is up, some do.
    pub proxy_fails: Duration,
    /// How many volumes one connect may see fail, or vanish, before they are attached.
    pub volumes: usize,
    /// How many failures in a row, with nothing succeeding between them, end a run.
    pub failures: u32,
    /// The first pause after a failure; it doubles up to [`Timing::longest_pause`].
    pub first_pause: Duration,
    /// The longest pause after a failure.
    pub longest_pause: Duration,
}

impl Timing {
    /// The timing on AWS.
    #[must_use]
    pub const fn aws() -> Self {
        Self {
            // Tag-filtered lists lag by a few seconds; launch times have whole seconds only.
            settle: Duration::from_secs(15),
            poll: Duration::from_secs(1),
            login_window: Duration::from_secs(15),
            // EBS accepts one snapshot of a volume every 15 seconds.
            snapshot_gap: Duration::from_secs(15),
            snapshot_tries: 3,
            // The EBS direct APIs know a new snapshot some time after EC2 does.
            verdict: Duration::from_mins(2),
            verdict_gap: Duration::from_secs(5),
            attaching: Duration::from_mins(2),
            // The last timer at five minutes, a minute for the shutdown, and five by which a clock
            // may be wrong before AWS refuses the computer's requests.
            lease_margin: Duration::from_mins(11),
            // From when it runs. Most types answer within a minute; at a round trip of 300 ms a
            // login takes 4 s.
            no_ssh: Duration::from_mins(5),
            // Metal types boot for ten minutes. A host without a client switches itself off at 30.
            boot: Duration::from_mins(15),
            // The checks pass before sshd and cloud-init are up. A login at 300 ms fits in, after
            // one whole attempt that fails.
            checked: Duration::from_mins(1),
            // EC2 itself looks once a minute.
            checks_gap: Duration::from_secs(10),
            shutting_down: Duration::from_mins(15),
            // A notice comes two minutes before the end, and the clock of the bill may begin earlier than this
            // process's (EC2 user guide, *Billing for interrupted Spot Instances*).
            first_hour: Duration::from_mins(55),
            taking: Duration::from_secs(135),
            // Less than the lease of 15 minutes, so that the host is still there at its end.
            grace: Duration::from_mins(10),
            // A driver that is built at the first boot takes some minutes, most of them in parallel
            // with all else. The host counts them, so that no round trip shortens the limit.
            driver: Duration::from_mins(5),
            launches: 3,
            // Slow images answer within a minute.
            silent: Duration::from_secs(90),
            // The SSM agent and an instance's sshd are up within a minute or two.
            proxy_fails: Duration::from_mins(3),
            // A KMS key that may not be used fails every volume, within seconds.
            volumes: 2,
            failures: 8,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(20),
        }
    }

    /// The pause between two sweeps once the same wait has lasted that long. A sweep is three calls of
    /// a budget of 20 a second, which the account has in a region for all that it does there (EC2
    /// developer guide, *Request throttling for the Amazon EC2 API*): on AWS one each second, after
    /// 30 s each 5 s, after 5 minutes each 15 s.
    #[must_use]
    pub fn poll_after(&self, waited: Duration) -> Duration {
        let [soon, late] = [30, 300].map(|polls| self.poll.saturating_mul(polls));
        match waited {
            _ if waited >= late => self.longest_poll(),
            _ if waited >= soon => self.poll.saturating_mul(5),
            _ => self.poll,
        }
    }

    /// The longest pause between two sweeps.
    #[must_use]
    pub fn longest_poll(&self) -> Duration {
        self.poll.saturating_mul(15)
    }

    /// The pause after so many failures in a row.
    #[must_use]
    pub fn pause(&self, failures: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.first_pause
            .saturating_mul(doubled)
            .min(self.longest_pause)
    }

    /// The timing on an EC2 in a folder whose lists are never staler than `stale`.
    #[must_use]
    pub fn local(stale: Duration) -> Self {
        Self {
            settle: stale,
            poll: Duration::from_millis(25),
            login_window: stale + Duration::from_millis(500),
            snapshot_gap: Duration::from_millis(500),
            verdict: stale + Duration::from_secs(2),
            verdict_gap: Duration::from_millis(100),
            // One computer, one clock.
            lease_margin: Duration::from_mins(6),
            no_ssh: Duration::from_mins(1),
            boot: Duration::from_mins(3),
            checked: Duration::from_secs(10),
            checks_gap: Duration::from_secs(1),
            shutting_down: Duration::from_mins(1),
            grace: Duration::from_mins(1),
            attaching: Duration::from_secs(20),
            driver: Duration::from_secs(30),
            silent: Duration::from_secs(20),
            proxy_fails: Duration::from_secs(30),
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_secs(2),
            ..Self::aws()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_last_are_polled_ever_less_often() {
        let secs = Duration::from_secs;
        let pauses =
            [0, 29, 30, 299, 300, 7200].map(|waited| Timing::aws().poll_after(secs(waited)));
        assert_eq!(pauses, [1, 1, 5, 5, 15, 15].map(secs));
        let local = Timing::local(Duration::ZERO);
        assert!(local.longest_poll() < secs(1));
    }
}
