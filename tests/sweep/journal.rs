//! The journal: lines that were written, synced and acknowledged, and the check that they are
//! there.
//!
//! Two files on the drive take the same lines: one in the user's folder, one in the container's own
//! layer. A line is acknowledged after `fsync(2)` of both. What is read later is always what was
//! read before, and then lines of the last writer in their order: all that it acknowledged, none
//! twice.

use std::collections::BTreeMap;

use anyhow::ensure;

/// Writes lines `TAG 1`, `TAG 2`… to both files; `$0` is the tag, `$1` the line numbers, `$2`
/// `busy` to write unsynced files meanwhile. A line that cannot be synced is not acknowledged.
pub(crate) const WRITE: &str = "if [ \"$2\" = busy ]; then \
    while :; do head -c 4000000 /dev/urandom >/bulk; done & fi; \
    for n in $1; do \
    echo \"$0 $n\" >>/work/journal && sync /work/journal && \
    echo \"$0 $n\" >>/journal && sync /journal && echo \"ack $0 $n\" || exit 9; done; \
    [ \"$2\" != busy ] || kill $!";

/// Prints both.
pub(crate) const READ: &str = "cat /work/journal; echo --; cat /journal; true";

/// The two files.
const FILES: [&str; 2] = ["/work/journal", "/journal"];

/// The lines that a drive was seen to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    files: [Vec<String>; 2],
}

/// A session that may have written lines.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    /// The tag of its lines.
    pub(crate) tag: String,
    /// How many lines were acknowledged.
    pub(crate) acknowledged: usize,
}

impl Journal {
    /// How many lines it has.
    pub(crate) fn len(&self) -> usize {
        self.files[0].len()
    }

    /// Records that the container is another one, whose layer has no journal yet.
    pub(crate) fn lose_layer(&mut self) {
        self.files[1].clear();
    }

    /// Checks the output of [`READ`] after a session that wrote as `tag` and whose [`WRITE`]
    /// printed `wrote`.
    pub(crate) fn check(&mut self, tag: &str, wrote: &str, read: &str) -> anyhow::Result<()> {
        let writer = Writer {
            tag: tag.to_owned(),
            acknowledged: acknowledged(wrote),
        };
        self.check_all(&[writer], read, false)
    }

    /// Checks the journal after several sessions, some of which may still write: their lines have
    /// no order between them. `is_new` if the container's layer was begun after them.
    pub(crate) fn check_all(
        &mut self,
        writers: &[Writer],
        read: &str,
        is_new: bool,
    ) -> anyhow::Result<()> {
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
        for (index, name) in FILES.into_iter().enumerate() {
            let (before, now) = (&self.files[index], &now[index]);
            ensure!(
                now.starts_with(before),
                "LOST in {name}: it had {before:?}, now {now:?}"
            );
            let writers = if is_new && index == 1 { &[] } else { writers };
            let mut counts: BTreeMap<_, _> = writers
                .iter()
                .map(|writer| (writer.tag.as_str(), 0))
                .collect();
            for (position, line) in now.iter().enumerate() {
                let tag = line.split(' ').next().unwrap_or_default();
                match counts.get_mut(tag) {
                    Some(count) => {
                        *count += 1;
                        ensure!(
                            *line == format!("{tag} {count}"),
                            "{name} has {line:?} where {count} is next, among {now:?}"
                        );
                    }
                    None => ensure!(
                        position < before.len(),
                        "{name} has {line:?}, which nobody wrote, among {now:?}"
                    ),
                }
            }
            for Writer { tag, acknowledged } in writers {
                let there = counts[tag.as_str()];
                ensure!(
                    there >= *acknowledged,
                    "LOST in {name}: {acknowledged} lines of {tag} were acknowledged, {there} are \
                     there"
                );
            }
        }
        self.files = now;
        Ok(())
    }
}

/// How many lines [`WRITE`] acknowledged in its output.
pub(crate) fn acknowledged(wrote: &str) -> usize {
    let whole = wrote.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter(|line| line.starts_with("ack "))
        .count()
}
