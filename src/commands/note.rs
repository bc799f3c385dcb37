//! `xdrive note`: a note on a generation.

use super::Context;
use crate::drive::tags::Note;
use crate::failure::Failure;
use crate::ids::DriveAt;
use crate::report::Report;
use crate::saves;

/// `xdrive note`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The drive, whose newest generation gets the note, or one of its generations.
    #[arg(value_name = "NAME[@N]")]
    pub drive: DriveAt,

    /// The note: one line of at most 256 characters, in place of the former; empty for none.
    #[arg(value_name = "TEXT")]
    pub note: Note,

    /// Write it although another caller has or had the drive.
    ///
    /// Callers are IAM users and roles.
    #[arg(long)]
    pub shared: bool,
}

/// Writes the note. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let DriveAt { name, generation } = args.drive;
    super::block_on(async {
        let place = super::whole(name.clone());
        let drive = context.drive(&paths, place, args.shared).await?;
        let noted = saves::note(drive, generation, &args.note).await?;
        Report::stderr().note(&format!("the note is on generation {noted} of {name}"));
        Ok(0)
    })
}
