//! Paths in the container, which are bytes.

/// The path of `name` in a folder of the container.
pub(super) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = folder.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Splits a path into its folder, with the slash, and its name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    path.split_at(slash.map_or(0, |it| it + 1))
}

/// The name of a copy of `path` in a folder; `None` for `.`, `folder/.` and `/`, whose content is
/// copied into that folder.
pub(super) fn name_of(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte != b'/')?;
    match split(&path[..=end]).1 {
        b"." | b".." => None,
        name => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_its_sources_name_unless_that_is_no_name() {
        for (path, name) in [
            ("a", Some("a")),
            ("a/b", Some("b")),
            ("a/b//", Some("b")),
            ("/a", Some("a")),
            (".", None),
            ("a/.", None),
            ("a/./", None),
            ("..", None),
            ("/", None),
            ("a/..b", Some("..b")),
        ] {
            assert_eq!(name_of(path.as_bytes()), name.map(str::as_bytes), "{path}");
        }
        assert_eq!(joined(b"a", b"b"), b"a/b");
        assert_eq!(joined(b"a/", b"b"), b"a/b");
        assert_eq!(joined(b"/", b"b"), b"/b");
        assert_eq!(joined(b"", b"b"), b"b");
    }

    #[test]
    fn a_path_is_its_folder_and_its_name() {
        assert_eq!(split(b"a/b/c"), (&b"a/b/"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }
}
