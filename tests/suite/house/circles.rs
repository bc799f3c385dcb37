//! No circle of files: a file that needs another one, in its code or its imports, is not needed by
//! it, so that each can be read and changed without the other.
//!
//! A name that a file only passes on (`pub use`) leads to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use super::orders::{inside, is_word, parts};
use super::{code, sources};

/// The circles that there are: their modules, and why these are one thing. A name that ends in `/`
/// stands for every module below.
const KNOWN: &[(&[&str], &str)] = &[
    (
        &[
            "access/ingress",
            "access/ingress/public_ip",
            "access/ingress/rules",
            "access/ingress/subnets",
        ],
        "rules, subnets and addresses are looked up as the plan above them needs",
    ),
    (
        &["cli", "cli/complete", "cli/help", "cli/man", "cli/usage"],
        "help, manual, completions and errors are made from the definition that they belong to",
    ),
    (
        &["cloud", "cloud/folder"],
        "a command gets a cloud of either kind, and the one in a folder is made there",
    ),
    (
        &["commands/list", "commands/list/table"],
        "the table shows the entries of its command",
    ),
    (
        &[
            "commands/selftest",
            "commands/selftest/account",
            "commands/selftest/former",
            "commands/selftest/host",
            "commands/selftest/interruption",
        ],
        "each checks a part in the one run",
    ),
    (
        &[
            "drive/reconcile",
            "drive/reconcile/run",
            "drive/reconcile/sweep",
            "drive/reconcile/unusable",
        ],
        "the loop and its sweep are methods of the reconciler, and return what it returns",
    ),
    (
        &["ec2/account", "ec2/client", "ec2/https"],
        "the client's requests give plain HTTPS its connector, and an account its clock",
    ),
    (
        &[
            "local",
            "local/calls",
            "local/calls/",
            "local/change",
            "local/interrupt",
        ],
        "an EC2 carries out its calls, each of which reads or changes it",
    ),
    (
        &["local/setup", "local/setup/computer"],
        "a build needs room unless its parts are there",
    ),
];

/// A path that a file imports.
struct Import {
    path: Vec<String>,
    /// The name that it has there.
    name: String,
    /// Whether others can import it from there.
    is_public: bool,
}

/// A file: what it imports, and its other code.
#[derive(Default)]
struct File {
    imports: Vec<Import>,
    code: String,
    /// Whether it is the root of a crate.
    is_root: bool,
}

/// The files of the library, by their modules (`drive/plan`); its root has no name. A crate below it is a
/// module by the name of its folder.
struct Files(BTreeMap<String, File>);

impl File {
    fn parse(text: &str) -> Self {
        let mut file = Self::default();
        let mut import = String::new();
        for (_, line) in code(text) {
            let line = line.trim();
            let item = without_visibility(line);
            if !import.is_empty() || item.starts_with("use ") {
                import += line;
                if line.ends_with(';') {
                    file.import(&std::mem::take(&mut import));
                }
            } else if !(item.starts_with("mod ") && item.ends_with(';')) {
                file.code += line;
                file.code.push('\n');
            }
        }
        assert!(import.is_empty(), "an import without an end: {import}");
        file
    }

    /// Adds the paths of a `use`.
    fn import(&mut self, statement: &str) {
        let tree = without_visibility(statement);
        let is_public = tree.len() < statement.len();
        let tree = tree.trim_start_matches("use ").trim_end_matches(';');
        let mut trees = vec![(Vec::new(), tree)];
        while let Some((above, tree)) = trees.pop() {
            let words = |text: &str| -> Vec<String> {
                let words = text.split("::").map(str::trim);
                words
                    .filter(|it| !it.is_empty())
                    .map(str::to_owned)
                    .collect()
            };
            if let Some(at) = tree.find('{') {
                let above = [above, words(&tree[..at])].concat();
                let parts = parts(inside(&tree[at..])).into_iter();
                let parts = parts.filter(|part| !part.trim().is_empty());
                trees.extend(parts.map(|part| (above.clone(), part)));
                continue;
            }
            let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
            let mut path = [above, words(path)].concat();
            if path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = match name.trim() {
                "" => path.last().expect("an import has a path").clone(),
                name => name.to_owned(),
            };
            self.imports.push(Import {
                path,
                name,
                is_public,
            });
        }
    }

    /// The paths that it needs: imported for itself, or written out.
    fn paths(&self) -> Vec<Vec<String>> {
        let words: BTreeSet<&str> = self.code.split(|c| !is_word(c)).collect();
        let own = |import: &&Import| !import.is_public || words.contains(import.name.as_str());
        let imported = self.imports.iter().filter(own).map(|it| it.path.clone());
        let code = self.code.replace("(in crate::", "(");
        let written = code.split(|c| !(is_word(c) || c == ':'));
        let written = written.filter(|path| !path.starts_with(':')).map(|path| {
            let words = path.split("::").filter(|word| !word.is_empty());
            words.map(str::to_owned).collect::<Vec<_>>()
        });
        imported
            .chain(written.filter(|path| path.len() > 1))
            .collect()
    }
}

impl Files {
    /// Of these files, by their paths.
    fn parse<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files = files.into_iter().map(|(path, text)| {
            let module = path.strip_suffix(".rs").expect("a file of Rust");
            let is_root = module == "lib" || module.ends_with("/lib");
            let module = match module.strip_suffix("lib") {
                Some(folder) if is_root => folder.trim_end_matches('/'),
                _ => module.strip_suffix("/mod").unwrap_or(module),
            };
            let file = File::parse(text);
            (module.to_owned(), File { is_root, ..file })
        });
        Self(files.collect())
    }

    /// The module that defines what `path` names in the module `from`; none if it is of another
    /// crate.
    fn definer(&self, from: &str, path: &[String]) -> Option<String> {
        let (first, mut rest) = path.split_first()?;
        let mut at = from.to_owned();
        match first.as_str() {
            "crate" => at = self.root(from),
            "super" => at = above(from),
            "self" => {}
            child if self.0.contains_key(&below(from, child)) => rest = path,
            _ => return None,
        }
        while let Some((name, others)) = rest.split_first() {
            let child = below(&at, name);
            if name == "super" {
                at = above(&at);
            } else if self.0.contains_key(&child) {
                at = child;
            } else {
                let imports = self.0.get(&at)?.imports.iter();
                let mut through = imports.filter(|it| it.name == *name && it.path != path);
                let definer = through.find_map(|import| self.definer(&at, &import.path));
                return Some(definer.unwrap_or(at));
            }
            rest = others;
        }
        Some(at)
    }

    /// The root of the crate of `module`.
    fn root(&self, module: &str) -> String {
        let mut root = module.to_owned();
        while !root.is_empty() && !self.0.get(&root).is_some_and(|file| file.is_root) {
            root = above(&root);
        }
        root
    }

    /// The modules that each one needs, with all that those need.
    fn needs(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let direct: BTreeMap<&str, BTreeSet<String>> = self
            .0
            .iter()
            .map(|(module, file)| {
                let paths = file.paths();
                let needs = paths.iter().filter_map(|path| self.definer(module, path));
                // The root only has the others.
                let needs = needs.filter(|other| other != module && !other.is_empty());
                (module.as_str(), needs.collect())
            })
            .collect();
        let all = direct.keys().map(|module| {
            let mut found = BTreeSet::new();
            let mut next: Vec<&String> = direct[*module].iter().collect();
            while let Some(module) = next.pop() {
                if found.insert(module.clone()) {
                    next.extend(&direct[module.as_str()]);
                }
            }
            (*module, found)
        });
        all.collect()
    }

    /// The circles: the modules that all need each other.
    fn circles(&self) -> BTreeSet<Vec<String>> {
        let needs = self.needs();
        let circle = |(module, all): (&&str, &BTreeSet<String>)| {
            let is_mutual = |other: &&String| needs[other.as_str()].contains(*module);
            let circle: Vec<String> = all.iter().filter(is_mutual).cloned().collect();
            (!circle.is_empty()).then_some(circle)
        };
        needs.iter().filter_map(circle).collect()
    }
}

/// An item, or the line that it begins with, without `pub` or `pub(…)`.
fn without_visibility(item: &str) -> &str {
    let Some(rest) = item.strip_prefix("pub") else {
        return item;
    };
    match rest
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(") "))
    {
        Some((_, rest)) => rest,
        None => rest.strip_prefix(' ').unwrap_or(item),
    }
}

/// The module above `module`.
fn above(module: &str) -> String {
    module.rsplit_once('/').unwrap_or_default().0.to_owned()
}

/// The module `child` of `module`.
fn below(module: &str, child: &str) -> String {
    match module {
        "" => child.to_owned(),
        module => format!("{module}/{child}"),
    }
}

/// Whether these are the modules of a circle, and no others.
fn is_of(known: &[&str], circle: &[String]) -> bool {
    let is_named = |name: &str, module: &String| {
        module == name || (name.ends_with('/') && module.starts_with(name))
    };
    circle
        .iter()
        .all(|module| known.iter().any(|name| is_named(name, module)))
        && known
            .iter()
            .all(|name| circle.iter().any(|module| is_named(name, module)))
}

#[test]
fn no_circle_of_files() {
    let sources = sources("src", "rs");
    let is_code =
        |file: &str| file != "main.rs" && !file.ends_with("tests.rs") && !file.contains("/tests/");
    let files = sources.iter().filter(|(file, _)| is_code(file));
    let files = Files::parse(files.map(|(file, text)| (file.as_str(), text.as_str())));
    let circles = files.circles();
    let mut wrong = Vec::new();
    for circle in &circles {
        if !KNOWN.iter().any(|(known, _)| is_of(known, circle)) {
            wrong.push(format!("a new circle: {}", circle.join(", ")));
        }
    }
    for (known, _) in KNOWN {
        if !circles.iter().any(|circle| is_of(known, circle)) {
            wrong.push(format!("no circle any more: {}", known.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_circle_is_found_however_its_files_name_each_other() {
    let circles = |texts: &[(&'static str, &'static str)]| -> Vec<String> {
        let files = Files::parse(texts.iter().copied());
        let circles = files.circles().into_iter();
        circles.map(|circle| circle.join(" ")).collect()
    };
    let lib = ("lib.rs", "mod a;\npub mod b;\n");
    let a = (
        "a.rs",
        "use crate::b::{\n    self,\n    c::C,\n};\nstruct A;\n",
    );
    // What passes a name on does not need it.
    let b = ("b/mod.rs", "mod c;\npub(crate) use c::{C, D as E};\n");
    for (c, expected) in [
        ("struct C;\n", ""),
        ("pub use crate::a::A;\nstruct C;\n", ""),
        ("pub use crate::a::A;\nstruct C(A);\n", "a b/c"),
        ("use crate::a::A as Other;\nstruct C;\n", "a b/c"),
        ("struct C(super::super::a::A);\n", "a b/c"),
        ("pub(in crate::a) struct C;\n", ""),
        ("struct C;\n#[cfg(test)]\nuse crate::a::A;\n", ""),
        ("// use crate::a::A;\nstruct C;\n", ""),
    ] {
        let found = circles(&[lib, a, b, ("b/c.rs", c)]);
        assert_eq!(found.join("; "), expected, "{c}");
    }
    let in_a_crate_below = [
        lib,
        ("a/lib.rs", "mod c;\npub mod b;\npub struct A;\n"),
        ("a/b.rs", "use crate::c::C;\nstruct B;\n"),
        ("a/c.rs", "use crate::b::B;\nstruct C;\n"),
    ];
    assert_eq!(circles(&in_a_crate_below), ["a/b a/c"]);
    let by_a_parent = [
        ("lib.rs", "mod p;\n"),
        ("p.rs", "mod q;\nstruct P;\nfn p() {\n    q::q();\n}\n"),
        (
            "p/q.rs",
            "pub(super) fn q() -> super::P {\n    super::P\n}\n",
        ),
    ];
    assert_eq!(circles(&by_a_parent), ["p p/q"]);
}
