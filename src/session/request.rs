//! What `connect` is asked for, and what is refused of it before anything is opened.

use anyhow::anyhow;

use super::Examination;
use crate::config::Options;
use crate::drive::DriveName;
use crate::drive::stuck::Head;
use crate::failure::{Exit, Failure};
use crate::launch::image;

/// What `connect` is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which drive.
    pub drive: DriveName,
    /// What is wanted of it.
    pub options: Options,
    /// The choice between two lines, if one was made.
    pub from: Option<Head>,
    /// Whether a session that another laptop has is left alone.
    pub no_join: bool,
    /// Whether the drive may be another caller's.
    pub shared: bool,
    /// Whether it is only said what would be done.
    pub dry_run: bool,
    /// The command to run, word by word; an interactive shell if it is empty.
    pub command: Vec<String>,
    /// A look at the host before that.
    pub examination: Option<Examination>,
}

impl Request {
    /// A request for `drive` with these options, and nothing else.
    #[must_use]
    pub fn of(drive: DriveName, options: Options) -> Self {
        Self {
            drive,
            options,
            from: None,
            no_join: false,
            shared: false,
            dry_run: false,
            command: Vec::new(),
            examination: None,
        }
    }

    /// Refuses what cannot work here: a shell without a terminal, an image file that is not there.
    /// `xdrive` is what a command begins with.
    pub fn check(&self, xdrive: &str) -> Result<(), Failure> {
        if self.command.is_empty() && !self.dry_run && !crate::terminal::is_interactive() {
            return Err(Failure::new(
                Exit::Usage,
                anyhow!("there is no terminal here for a shell"),
            )
            .hint(format!(
                "{xdrive} connect {} -- CMD… runs a command without one",
                self.drive
            )));
        }
        match &self.options.image {
            Some(image) => image::check_image(image),
            None => Ok(()),
        }
    }
}
