//! `xdrive recipe`: writes the files of something that is made of xdrive's commands and other programs, which
//! its `README.md` explains.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;

use crate::failure::{Exit, Failure};
use crate::report::Report;

/// The files of one folder of the recipes, each with its path.
macro_rules! files {
    ($folder:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../shell/recipes/", $folder, "/", $path)))),*]
    };
}

/// The hub's files.
const HUB: &[(&str, &str)] = files!("hub":
    ".dockerignore",
    "Dockerfile",
    "README.md",
    "collect",
    "hub.env",
    "hub/forget",
    "hub/jupyterhub_config.py",
    "hub/machine.py",
    "hub/mirror",
    "hub/overrides.json",
    "hub/pack",
    "hub/passwords",
    "hub/reaper.py",
    "hub/report",
    "hub/reset-lesson",
    "hub/seat",
    "hub/seats.py",
    "hub/settings",
    "hub/settings.py",
    "hub/sign_in.py",
    "hub/start",
    "hub/templates/503.html",
    "hub/templates/spawn_pending.html",
    "laptop.py",
    "plan",
    "rehearse",
    "requirements.txt",
    "status",
    "websocket.py",
);

/// The things that a recipe makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Recipe {
    /// A hub of Jupyter servers for a class.
    Hub,
}

/// `xdrive recipe`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The thing that it makes.
    #[arg(value_name = "RECIPE")]
    recipe: Recipe,

    /// The folder that is written: a new one, or one that is empty.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Recipe {
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Hub => HUB,
        }
    }
}

/// Writes the files of a recipe. Returns the exit code.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let dir = &args.dir;
    let shown = dir.display();
    let is_taken = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => dir.symlink_metadata().is_ok(),
    };
    if is_taken {
        let error = anyhow!("{shown} is there, and is no empty folder");
        let hint = "the recipe is written into a folder of its own, and over no file";
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    for (path, text) in args.recipe.files() {
        write(&dir.join(path), text).with_context(|| format!("cannot write {path} in {shown}"))?;
    }
    let readme = dir.join("README.md");
    Report::stderr().print(&format!("{} says what to do next", readme.display()));
    Ok(0)
}

/// Writes a new file; what begins with `#!` is a program.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o777)
            .create(folder)?;
    }
    let mode = if text.starts_with("#!") { 0o777 } else { 0o666 };
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The files below a folder, by their paths from there.
    fn below(folder: &Path) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let path = path.strip_prefix(folder).unwrap();
                    found.insert(path.to_str().unwrap().to_owned());
                }
            }
        }
        found
    }

    #[test]
    fn a_recipe_is_written_whole_and_over_nothing() {
        let home = tempfile::tempdir().unwrap();
        let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("shell/recipes");
        for recipe in Recipe::value_variants() {
            let name = recipe.to_possible_value().unwrap().get_name().to_owned();
            let dir = home.path().join(&name).join("new");
            let args = Args {
                recipe: *recipe,
                dir: dir.clone(),
            };
            assert_eq!(run(&args).unwrap(), 0);
            assert_eq!(below(&dir), below(&recipes.join(&name)));
            for path in below(&dir) {
                let text = fs::read_to_string(dir.join(&path)).unwrap();
                assert_eq!(
                    text,
                    fs::read_to_string(recipes.join(&name).join(&path)).unwrap()
                );
                let mode = fs::metadata(dir.join(&path)).unwrap().permissions().mode();
                assert_eq!(mode & 0o100 != 0, text.starts_with("#!"), "{path}");
            }
            assert_eq!(run(&args).unwrap_err().exit, Exit::Usage);
            let file = Args {
                dir: dir.join("README.md"),
                ..args
            };
            assert_eq!(run(&file).unwrap_err().exit, Exit::Usage);
        }
    }
}
