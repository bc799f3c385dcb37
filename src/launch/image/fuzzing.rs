//! A `devcontainer.json` of anybody's, as a fuzzer makes it up. It is parsed, and nothing is started.

use std::path::Path;

use serde_json::Value;

use super::build::Base;
use super::devcontainer::{parse as parsed, value};

/// Parses the input as such a file.
pub(crate) fn parse(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    // Without numbers: -0 and long fractions are read a little differently.
    if let Ok(plain) = serde_json::from_str::<Value>(&text)
        && !text.contains(|c: char| c.is_ascii_digit())
    {
        assert_eq!(value(&text).ok(), Some(plain));
    }
    let caller = |name: &str| match name {
        "EMPTY" => Some(String::new()),
        "HOME" => Some("/home/me".to_owned()),
        "LINES" => Some("a\nb".to_owned()),
        "NESTED" => Some("${localEnv:HOME}".to_owned()),
        _ => None,
    };
    let path = Path::new("/nowhere/project/.devcontainer/devcontainer.json");
    let build = match parsed(&text, path, &caller) {
        Ok(build) => build,
        Err(error) => {
            let _ = format!("{error:#}");
            return;
        }
    };
    assert_eq!(build.name, "project");
    let is_line = |text: &str| !text.contains(['\n', '\r', '\0']);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (name, value) in build.arguments.iter().chain(&build.variables) {
        assert!(!name.is_empty() && name.chars().all(is_word), "{name:?}");
        assert!(is_line(value), "{value:?}");
    }
    for text in build.user.iter().chain(&build.target) {
        assert!(is_line(text) && !text.is_empty(), "{text:?}");
    }
    if let Base::Reference(image) = &build.base {
        assert!(is_line(image) && !image.is_empty(), "{image:?}");
    }
    for command in &build.commands {
        assert!(!command.command.contains('\0'), "{:?}", command.command);
    }
    for mount in &build.mounts {
        let text = mount.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(!text.split([':', '/']).any(|it| it == ".."), "{text:?}");
        // For the host the mode comes first, and the path is below /work.
        let (mode, paths) = text.split_once(':').expect("a mode");
        let again = format!("/work/{paths}:{mode}").parse();
        assert_eq!(again.as_ref(), Ok(mount), "{text:?}");
    }
    for forward in &build.forwards {
        let text = forward.to_string();
        assert_eq!(text.parse().ok().as_ref(), Some(forward), "{text:?}");
    }
}
