//! How far a copy is.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of files and bytes. They may be read at any time.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Files that were found, and their bytes.
    found: [AtomicU64; 2],
    /// Files that were copied, and their bytes.
    copied: [AtomicU64; 2],
    /// Bytes of files that are not whole yet.
    partly: AtomicU64,
    /// Files that were there already.
    same: AtomicU64,
    /// Files and folders that were deleted at the destination.
    deleted: AtomicU64,
    /// Entries that stay, since git ignores them.
    ignored: AtomicU64,
}

impl Progress {
    /// Sets the counts of found files back to zero: all are found again.
    pub(super) fn begin(&self) {
        for count in self
            .found
            .iter()
            .chain([&self.partly, &self.same, &self.ignored])
        {
            count.store(0, Relaxed);
        }
    }

    /// Sets the counts of copied and deleted files back to zero.
    pub(super) fn begin_again(&self) {
        for count in self.copied.iter().chain([&self.deleted]) {
            count.store(0, Relaxed);
        }
    }

    pub(super) fn find(&self, bytes: u64) {
        self.found[0].fetch_add(1, Relaxed);
        self.found[1].fetch_add(bytes, Relaxed);
    }

    /// A file that was found is there already.
    pub(super) fn is_there(&self) {
        self.same.fetch_add(1, Relaxed);
    }

    /// Adds bytes of a large file, which are there.
    pub(super) fn add(&self, bytes: u64) {
        self.partly.fetch_add(bytes, Relaxed);
    }

    /// Subtracts bytes: their file is whole, or is begun again.
    pub(super) fn take(&self, bytes: u64) {
        self.partly.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn finish(&self, bytes: u64) {
        self.copied[0].fetch_add(1, Relaxed);
        self.copied[1].fetch_add(bytes, Relaxed);
    }

    pub(super) fn delete(&self) {
        self.deleted.fetch_add(1, Relaxed);
    }

    pub(super) fn ignore(&self, ignored: u64) {
        self.ignored.fetch_add(ignored, Relaxed);
    }

    /// A line for what stays here, if anything does. A folder counts once.
    pub(crate) fn ignored(&self) -> Option<String> {
        let stay = match self.ignored.load(Relaxed) {
            0 => return None,
            1 => "1 file or folder stays here, as git ignores it".to_owned(),
            more => format!("{more} files or folders stay here, as git ignores them"),
        };
        Some(format!("{stay}; git check-ignore -v PATH names the rule"))
    }

    /// Whether anything was copied or deleted.
    pub(crate) fn has_changed(&self) -> bool {
        self.copied[0].load(Relaxed) + self.deleted.load(Relaxed) > 0
    }

    /// A line for a copy under way.
    pub(crate) fn line(&self) -> String {
        let [files, bytes] = [0, 1].map(|it| self.found[it].load(Relaxed));
        let copied = self.copied[0].load(Relaxed) + self.same.load(Relaxed);
        let sent = self.copied[1].load(Relaxed) + self.partly.load(Relaxed);
        format!(
            "{copied} of {files} files, {} of {}",
            size(sent),
            size(bytes)
        )
    }

    /// A line for the end: what was done.
    pub(crate) fn summary(&self, verb: &str) -> String {
        let [files, bytes] = [0, 1].map(|it| self.copied[it].load(Relaxed));
        let mut line = format!("{verb} {}, {}", files_in_words(files), size(bytes));
        let same = self.same.load(Relaxed);
        if same > 0 {
            let _ = write!(line, "; {same} were there already");
        }
        let deleted = self.deleted.load(Relaxed);
        if deleted > 0 {
            let _ = write!(line, "; deleted {deleted}");
        }
        line
    }
}

fn files_in_words(files: u64) -> String {
    match files {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    }
}

/// Writes a size in words, such as `17 bytes`, `3.4 MiB` or `210 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut shift = 10;
    while shift < 40 && bytes >> shift >= 1024 {
        shift += 10;
    }
    let unit = UNITS[shift / 10 - 1];
    let whole = bytes >> shift;
    let tenths = ((bytes >> (shift - 10)) & 1023) * 10 / 1024;
    if whole >= 100 {
        format!("{whole} {unit}")
    } else {
        format!("{whole}.{tenths} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_a_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (210 << 20, "210 MiB"),
            ((1 << 30) - 1, "1023 MiB"),
            (5 << 40, "5.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn the_lines_fit_a_terminal_with_a_spinner_before_and_seconds_behind() {
        let progress = Progress::default();
        for _ in 0..1000 {
            progress.find(1023 << 30);
            progress.finish(1023 << 30);
        }
        assert_eq!(progress.line(), "1000 of 1000 files, 999 TiB of 999 TiB");
        assert!(progress.line().len() < 80 - 9 - 8 - 20);
        progress.is_there();
        assert_eq!(
            progress.summary("copied"),
            "copied 1000 files, 999 TiB; 1 were there already"
        );
        progress.begin();
        assert_eq!(progress.line(), "1000 of 0 files, 999 TiB of 0 bytes");
    }
}
