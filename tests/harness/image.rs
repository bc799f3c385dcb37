//! Small images of drives without Jupyter: some programs of this computer.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The programs in every one.
const PROGRAMS: &str =
    "sh bash cat echo env head id ls mkdir ps rm sleep stat stty sync touch true";

/// Makes one with those programs alone at `tar`, unless it exists.
pub fn small_image(tar: &Path) {
    // It takes a hundred processes to make.
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    if !tar.exists() {
        std::fs::write(tar, MADE.get_or_init(|| image_with(&[]))).unwrap();
    }
}

/// Makes a small image with these programs, too, as an archive.
pub fn image_with(programs: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let tar = dir.path().join("small.tar");
    let script = format!(
        "cd / && for p in {PROGRAMS} {more}; do f=/bin/$p; [ -e $f ] || f=$(command -v $p); \
         echo $f; ldd $f | grep -o '/[^ ]*'; done | sort -u >{0}.list && \
         mkdir -p {0}.root/tmp && chmod 1777 {0}.root/tmp && \
         tar -chf {0} --no-recursion --hard-dereference -T {0}.list -C {0}.root tmp 2>{0}.errors || \
         {{ cat {0}.errors; false; }}",
        tar.display(),
        more = programs.join(" "),
    );
    let made = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    std::fs::read(tar).unwrap()
}
