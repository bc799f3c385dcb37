//! Variants of `global_options`, which `shell/test.sh --all` runs.

use std::fs;

use super::end;
use crate::session::site::Site;
use harness::home::PATH;
use harness::write_script;

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn no_jupyter_is_started_where_none_is_wanted() {
    let site = Site::new();
    let runs = |word| format!("[ {word} -e /run/xdrive/jupyter.pid ]");
    let (without, with) = (runs("!"), runs(""));
    let session = |flags: &[&str], test: &str| {
        let ended = site.run(&[&["connect", "demo"], flags, &["--", "sh", "-c", test]].concat());
        assert_eq!(ended.code(), 0, "{ended:?}");
        ended.stderr.contains("/lab?token=")
    };
    assert!(!session(&["--no-jupyter"], &without));
    // An image that was not looked into before is waited for.
    assert!(session(&["--jupyter-port", "8899"], &with));
    site.configure("no_jupyter = true\n");
    assert!(!session(&[], &without));
    assert!(session(&["--port", "8899"], "true"), "a port asks for it");
    site.is_saved("demo", 4);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and the Jupyter image"]
fn jupyter_is_opened_in_the_browser_where_that_is_asked_for() {
    let site = Site::new();
    let (programs, opened) = (site.path("programs"), site.path("opened"));
    fs::create_dir(&programs).unwrap();
    let browser = programs.join("xdg-open");
    let script = format!(
        "#!/bin/sh\nsed -n 's/.*href=\"\\([^\"]*\\)\".*/\\1/p' \"$1\" > '{}'\n",
        opened.display()
    );
    write_script(&browser, &script);
    let mut command = site.command(&["connect", "demo", "--open", "--", "sleep", "1"]);
    command.env("PATH", format!("{}:{PATH}", programs.display()));
    let ended = end(command);
    assert_eq!(ended.code(), 0, "{ended:?}");
    let url = fs::read_to_string(opened).unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    ended.reports(url.trim_end());
    site.is_saved("demo", 1);
}
