//! The manual pages: `xdrive(1)`, made from the command line's definition, and one of each topic.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};

use super::topic::{TOPICS, Topic, verbatim};
use crate::commands::print;
use crate::failure::{Exit, Failure};

/// Prints a page: xdrive's own, or a topic's. Returns the exit code.
pub(super) fn print_page(topic: Option<&str>) -> Result<u8, Failure> {
    let Some(name) = topic else {
        return print(&page(super::definition()).map_err(anyhow::Error::from)?);
    };
    let topic = Topic::find(name).ok_or_else(|| {
        let error = anyhow!("there is no topic {name:?}");
        Failure::new(Exit::Usage, error).hint("xdrive help lists them")
    })?;
    print(&topic.page())
}

/// Writes all pages into `dir`, which is made if it is not there. Returns the exit code.
pub(super) fn write_all(dir: &Path) -> Result<u8, Failure> {
    let write = || {
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join("xdrive.1"), page(super::definition())?)?;
        TOPICS.iter().try_for_each(|topic| {
            std::fs::write(dir.join(format!("xdrive-{}.7", topic.name)), topic.page())
        })
    };
    write().with_context(|| format!("cannot write the pages to {}", dir.display()))?;
    Ok(0)
}

/// The page `xdrive(1)`: the program's part, a section for each command, and the end of the help.
fn page(cli: clap::Command) -> std::io::Result<String> {
    let mut cli = with_all_help(cli);
    cli.build();
    let mut page = Vec::new();
    let whole = clap_mangen::Man::new(cli.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_options_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    sections(&cli, &mut page)?;
    page.push_str(&end(&cli));
    page.push_str(".SH \"SEE ALSO\"\n");
    for topic in &TOPICS {
        let _ = writeln!(page, ".BR xdrive\\-{} (7)", topic.name.replace('-', "\\-"));
    }
    Ok(page)
}

/// `command` with the help of every flag: `clap_mangen` leaves out what is one line and hidden from
/// the short help.
fn with_all_help(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| arg.hide_short_help(false));
    command.mut_subcommands(with_all_help)
}

/// A section for each command below `above`, without the global flags, which are in the program's
/// part.
fn sections(above: &clap::Command, page: &mut String) -> std::io::Result<()> {
    let is_shown =
        |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    for command in above.get_subcommands().filter(is_shown) {
        let name = command.get_bin_name().unwrap_or_default().to_uppercase();
        let hidden = |arg: clap::Arg| {
            let is_everywhere =
                arg.is_global_set() || ["help", "version"].contains(&arg.get_id().as_str());
            arg.hide(is_everywhere)
        };
        let man = clap_mangen::Man::new(command.clone().mut_args(hidden));
        let mut section = Vec::new();
        man.render_synopsis_section(&mut section)?;
        man.render_description_section(&mut section)?;
        man.render_options_section(&mut section)?;
        let section = format!("{}{}", String::from_utf8_lossy(&section), end(command));
        let _ = write!(page, ".SH \"{name}\"\n{}", section.replace(".SH ", ".SS "));
        sections(command, page)?;
    }
    Ok(())
}

/// The end of a command's help, line for line: a section for each part, titled by its first line.
fn end(command: &clap::Command) -> String {
    let text = command.get_after_long_help().map(ToString::to_string);
    let mut sections = String::new();
    for part in text.iter().flat_map(|text| text.split("\n\n")) {
        let (title, lines) = part.split_once('\n').unwrap_or((part, ""));
        let title = title.trim_end_matches(':').to_uppercase();
        let lines = verbatim(lines.trim_end());
        let _ = write!(sections, ".SH \"{title}\"\n.nf\n{lines}\n.fi\n");
    }
    sections
}
