//! The user's browser, on this computer.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::time::sleep;

use crate::report::Report;

/// The program that opens an address as the user would have it.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// How long a browser that starts may take to read the page: the opener need not wait for it.
const READ: Duration = Duration::from_mins(2);

/// Opens `url` in the browser, beside the session. A failure is printed, and costs nothing.
pub(super) fn open(url: String, report: &Report) {
    let report = report.clone();
    tokio::spawn(async move {
        let opened = async {
            let page = page(&url)?;
            let status = command(page.path()).status().await?;
            Ok::<_, io::Error>((status, page))
        };
        let why = match opened.await {
            Ok((status, page)) if status.success() => {
                sleep(READ).await;
                drop(page);
                return;
            }
            Ok((status, _)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        report.warn(&format!("no browser was opened: {OPENER}: {why}"));
    });
}

/// A page that leads to `url`, which has a token: other users of this computer see the arguments of
/// a program, and not this file. It goes when it is dropped.
fn page(url: &str) -> io::Result<NamedTempFile> {
    let mut page = tempfile::Builder::new()
        .prefix("xdrive-")
        .suffix(".html")
        .tempfile()?;
    let url = url.replace('&', "&amp;").replace('"', "&quot;");
    write!(
        page,
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<title>Jupyter</title>\n\
         <a href=\"{url}\">Jupyter</a>\n"
    )?;
    page.flush()?;
    Ok(page)
}

fn command(page: &Path) -> Command {
    let mut command = Command::new(OPENER);
    command
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_token_is_in_a_file_of_the_users_alone_and_in_no_argument() {
        let page = page("http://127.0.0.1:8888/lab?token=abc&x=\"y").unwrap();
        let mode = page.as_file().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(page.path()).unwrap();
        assert!(
            text.contains("0; url=http://127.0.0.1:8888/lab?token=abc&amp;x=&quot;y\""),
            "{text}"
        );
        let command = command(page.path());
        let arguments: Vec<_> = command.as_std().get_args().collect();
        assert_eq!(arguments, [page.path()]);
        let path = page.path().to_owned();
        drop(page);
        assert!(!path.exists());
    }
}
