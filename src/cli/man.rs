//! The manual page, made from the command line's definition.

use std::fmt::Write as _;

/// The manual page: the program's part, a section for each command, and the end of the help.
pub(super) fn page(mut cli: clap::Command) -> std::io::Result<String> {
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
    Ok(page)
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

/// Escapes `text` for roff (groff manual, *Escape sequences*), which would turn these into a
/// hyphen, accents and an escape.
fn verbatim(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match letter {
            '-' => shown.push_str("\\-"),
            '~' => shown.push_str("\\(ti"),
            '^' => shown.push_str("\\(ha"),
            '\\' => shown.push_str("\\e"),
            other => shown.push(other),
        }
    }
    shown
}
