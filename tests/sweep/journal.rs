//! Lines that were written, synced and acknowledged, and whether they are there.
//!
//! Two files on the drive take the same lines: one in the user's folder, one in the container's own
//! layer. A line is acknowledged after `fsync(2)` of both. Whatever happened, what is read later is
//! what was read before, and then lines of the last writer in their order: all that it
//! acknowledged, none twice.

use anyhow::ensure;

/// Writes lines `TAG 1`, `TAG 2`… to both files; `$0` is the tag, `$1` the line numbers, `$2`
/// `busy` where files that nobody syncs are written meanwhile. What cannot be synced is not
/// acknowledged.
pub(crate) const WRITE: &str = "if [ \"$2\" = busy ]; then \
    while :; do head -c 4000000 /dev/urandom >/bulk; done & fi; \
    for n in $1; do \
    echo \"$0 $n\" >>/work/journal && sync /work/journal && \
    echo \"$0 $n\" >>/journal && sync /journal && echo \"ack $0 $n\" || exit 9; done; \
    [ \"$2\" != busy ] || kill $!";

/// Prints both.
pub(crate) const READ: &str = "cat /work/journal; echo --; cat /journal; true";

/// What a drive has been seen to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    files: [Vec<String>; 2],
}

impl Journal {
    /// How many lines it has.
    pub(crate) fn len(&self) -> usize {
        self.files[0].len()
    }

    /// Takes over what [`READ`] printed after a session that wrote as `tag` and acknowledged what
    /// [`WRITE`] printed.
    pub(crate) fn check(&mut self, tag: &str, wrote: &str, read: &str) -> anyhow::Result<()> {
        let acknowledged = acknowledged(wrote);
        let mut now = [Vec::new(), Vec::new()];
        let mut file = 0;
        for line in read.lines() {
            if line == "--" {
                file += 1;
                ensure!(file < now.len(), "garbled:\n{read}");
            } else {
                now[file].push(line.to_owned());
            }
        }
        ensure!(file == 1, "not read whole:\n{read}");
        for (name, before, now) in [
            ("/work/journal", &self.files[0], &now[0]),
            ("/journal", &self.files[1], &now[1]),
        ] {
            ensure!(
                now.starts_with(before),
                "LOST in {name}: it had {before:?}, now {now:?}"
            );
            let new = &now[before.len()..];
            for (index, line) in new.iter().enumerate() {
                ensure!(
                    *line == format!("{tag} {}", index + 1),
                    "{name} has {line:?} among {new:?}"
                );
            }
            ensure!(
                new.len() >= acknowledged,
                "LOST in {name}: {acknowledged} lines of {tag} were acknowledged, {} are there",
                new.len()
            );
        }
        self.files = now;
        Ok(())
    }
}

/// How many lines [`WRITE`] has acknowledged in what it printed.
pub(crate) fn acknowledged(wrote: &str) -> usize {
    let whole = wrote.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter(|line| line.starts_with("ack "))
        .count()
}
