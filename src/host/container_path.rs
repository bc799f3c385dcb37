//! Paths in a container at which something else is put.

/// Folders in a container that nothing may replace or be below, but for `/`, which is only itself.
const RESERVED: [&str; 5] = ["/proc", "/sys", "/dev", "/run/xdrive", "/work"];

/// A path in a container at which nothing can be put.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// A character that no line has.
    #[error("a path in it has a control character, or ends in a space")]
    Character,
    /// A path that climbs.
    #[error("a path in it has `..`")]
    Climbs,
    /// A path that is not absolute.
    #[error("{0:?} is not an absolute path in the container")]
    NotAbsolute(String),
    /// A path of the container's own, or of xdrive's.
    #[error("{0} in the container cannot be replaced")]
    Reserved(String),
}

/// The path in a container that `text` means, at which something may be put.
pub(super) fn container_path(text: &str) -> Result<String, InvalidPath> {
    check_characters(text)?;
    if !text.starts_with('/') {
        return Err(InvalidPath::NotAbsolute(text.to_owned()));
    }
    let path = format!("/{}", plain(text)?);
    let is_reserved = |reserved: &&str| {
        let rest = path.strip_prefix(*reserved);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if path == "/" || RESERVED.iter().any(is_reserved) {
        return Err(InvalidPath::Reserved(path));
    }
    Ok(path)
}

/// Refuses a path that no line of a record can have.
pub(super) fn check_characters(path: &str) -> Result<(), InvalidPath> {
    if path.chars().any(char::is_control) || path.ends_with(' ') {
        return Err(InvalidPath::Character);
    }
    Ok(())
}

/// A path without empty parts and `.`, and without a slash at either end.
pub(super) fn plain(path: &str) -> Result<String, InvalidPath> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let parts: Vec<&str> = parts.collect();
    if parts.contains(&"..") {
        return Err(InvalidPath::Climbs);
    }
    Ok(parts.join("/"))
}
