//! Lines that xdrive breaks to fit a terminal.

/// The text with each finding of `xdrive doctor` in one line again.
pub(crate) fn unfolded(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let rest = line.trim_start();
        match lines.last_mut() {
            Some(last) if line.len() > rest.len() + 18 && !rest.starts_with("hint: ") => {
                last.push(' ');
                last.push_str(rest);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}
