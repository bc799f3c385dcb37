//! criu for a host: an archive that comes with xdrive as a file of its own, and that `shell/criu.sh`
//! makes. It is not part of the program: its licence is another one, and only hosts that are to
//! freeze programs get it.
//!
//! A release has it beside the program, the Debian package in `/usr/share/xdrive`. A program that was
//! built from a clone finds it where the script has put it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The archive's name.
const FILE: &str = "criu-x86_64.tar.gz";

/// The architecture for which there is one, as EC2 names it.
const ARCHITECTURE: &str = "x86_64";

/// The most bytes that are read: several times what `shell/criu.sh` makes.
const LARGEST: u64 = 64 << 20;

/// Why there is no criu for a host.
#[derive(Debug, thiserror::Error)]
pub enum NoCriu {
    /// There is none for the host's architecture.
    ///
    /// On arm64 a program that was frozen on a CPU with pointer authentication hangs when it goes on
    /// on an older one without (checkpoint-restore/criu#2824).
    #[error("programs cannot be frozen on {0}, only on {ARCHITECTURE}")]
    Architecture(String),
    /// The archive is at none of these paths.
    #[error("{FILE}, which comes with xdrive, is not here: looked for {}", list(.0))]
    Missing(Vec<PathBuf>),
    /// The archive cannot be read.
    #[error("cannot read {}", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
}

impl NoCriu {
    /// The remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Architecture(_) => "--type names an instance type of another architecture",
            Self::Missing(_) | Self::Unreadable(..) => {
                "a release has it beside the program; in a clone, shell/criu.sh makes it"
            }
        }
    }
}

/// Reads the archive, as tar and gzip read it, for a host of `architecture` (as EC2 names it): beside `program`,
/// or in `built`, the folder in which the script puts it.
pub fn read(architecture: &str, program: &Path, built: &Path) -> Result<Vec<u8>, NoCriu> {
    if architecture != ARCHITECTURE {
        return Err(NoCriu::Architecture(architecture.to_owned()));
    }
    let paths = paths(program, built);
    for path in &paths {
        match read_bounded(path) {
            Ok(archive) => return Ok(archive),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(NoCriu::Unreadable(path.clone(), error)),
        }
    }
    Err(NoCriu::Missing(paths))
}

/// Where the archive is: beside `program`, or in `built`; none if it is at neither.
#[must_use]
pub fn find(program: &Path, built: &Path) -> Option<PathBuf> {
    let mut paths = paths(program, built).into_iter();
    paths.find(|path| path.is_file())
}

/// Where the archive may be, the nearest to the program first.
fn paths(program: &Path, built: &Path) -> Vec<PathBuf> {
    let folder = program.parent().unwrap_or(program);
    let prefix = folder.parent().unwrap_or(folder);
    vec![
        folder.join(FILE),
        prefix.join("share/xdrive").join(FILE),
        built.join(FILE),
    ]
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let size = file.metadata()?.len();
    if size > LARGEST {
        let why = format!("{size} bytes are too many for it");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut archive = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, LARGEST), &mut archive)?;
    Ok(archive)
}

fn list(paths: &[PathBuf]) -> String {
    let shown = paths.iter().map(|path| path.display().to_string());
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_beside_the_program_rather_than_where_it_is_built() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, built) = (dir.path().join("bin"), dir.path().join("built"));
        let find = || read("x86_64", &bin.join("xdrive"), &built);
        let Err(NoCriu::Missing(looked)) = find() else {
            panic!("there is none yet");
        };
        assert_eq!(super::find(&bin.join("xdrive"), &built), None);
        for path in looked.iter().rev() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, path.to_str().unwrap()).unwrap();
            let found = find().unwrap();
            assert_eq!(found, path.to_str().unwrap().as_bytes());
            assert_eq!(
                super::find(&bin.join("xdrive"), &built).as_ref(),
                Some(path)
            );
        }
    }

    #[test]
    fn a_host_of_another_architecture_has_none() {
        let error = read("arm64", Path::new("/x/xdrive"), Path::new("/x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "programs cannot be frozen on arm64, only on x86_64"
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::create_dir(&path).unwrap();
        let error = read("x86_64", &dir.path().join("xdrive"), dir.path()).unwrap_err();
        assert!(
            matches!(&error, NoCriu::Unreadable(found, _) if *found == path),
            "{error:?}"
        );
        fs::remove_dir(&path).unwrap();
        let file = fs::File::create(&path).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        let error = read("x86_64", &dir.path().join("xdrive"), dir.path()).unwrap_err();
        assert!(matches!(error, NoCriu::Unreadable(..)), "{error:?}");
    }
}
