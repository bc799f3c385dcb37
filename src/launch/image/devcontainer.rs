//! `devcontainer.json`: what of it is honoured (containers.dev, *Development Container metadata
//! reference*).
//!
//! It is JSON with comments, and may have commas before a closing bracket.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use jsonc_parser::errors::ParseError;
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::{Map, Value};

use super::build::{Base, Build, PostCreate};
use super::context::Context;
use crate::config::{Forwarding, Mount};

/// Keys that change nothing about a container.
const WITHOUT_EFFECT: [&str; 2] = ["name", "$schema"];

/// The caller's variables.
pub(super) type Caller<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the file `path`.
pub(super) fn read(path: &Path, caller: Caller<'_>) -> anyhow::Result<Build> {
    let text = std::fs::read_to_string(path)?;
    parse(&text, path, caller)
}

pub(super) fn parse(text: &str, path: &Path, caller: Caller<'_>) -> anyhow::Result<Build> {
    let Value::Object(given) = value(text).context("it is not JSON")? else {
        bail!("it is not an object");
    };
    let mut reader = Reader {
        given,
        folder: path.parent().unwrap_or(Path::new(".")).to_owned(),
        caller,
        ignored: Vec::new(),
    };
    let (base, arguments, target) = reader.base()?;
    let variables = reader.variables("containerEnv")?;
    // The user of what runs in the container, which is what a session is.
    let container_user = reader.text("containerUser")?;
    let user = reader.text("remoteUser")?.or(container_user);
    let commands = reader.commands()?;
    let forwards = reader.forwards()?;
    let mounts = reader.mounts()?;
    let rest = reader.given.into_iter().map(|(key, _)| key);
    let unknown = rest.filter(|key| !WITHOUT_EFFECT.contains(&key.as_str()));
    reader.ignored.extend(unknown);
    Ok(Build {
        name: name(path),
        base,
        arguments,
        target,
        variables,
        user,
        commands,
        forwards,
        mounts,
        ignored: reader.ignored,
    })
}

/// The name of the project that the file is in.
fn name(path: &Path) -> String {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut folders = path.ancestors().skip(1);
    let folder = folders.find(|it| it.file_name().is_some_and(|name| name != ".devcontainer"));
    let name = folder.and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Variables by name.
type Pairs = Vec<(String, String)>;

/// The keys of the file that were not read yet.
struct Reader<'a> {
    given: Map<String, Value>,
    /// The folder of the file, to which its paths are relative.
    folder: PathBuf,
    caller: Caller<'a>,
    /// The keys that are there and not honoured.
    ignored: Vec<String>,
}

impl Reader<'_> {
    /// Reads the image's base, the arguments of its build, and the stage of it.
    fn base(&mut self) -> anyhow::Result<(Base, Pairs, Option<String>)> {
        let mut build = match self.given.remove("build") {
            None => Map::new(),
            Some(Value::Object(build)) => build,
            Some(_) => bail!("build is not an object"),
        };
        // Former versions of the format have these at the top.
        for (old, new) in [("dockerFile", "dockerfile"), ("context", "context")] {
            if let Some(value) = self.given.remove(old) {
                build.entry(new).or_insert(value);
            }
        }
        let mut inner = Reader {
            given: build,
            folder: self.folder.clone(),
            caller: self.caller,
            ignored: Vec::new(),
        };
        let dockerfile = inner.text("dockerfile")?;
        let context = inner.text("context")?;
        let arguments = inner.variables("args")?;
        let target = inner.text("target")?;
        let rest = inner.given.into_iter().map(|(key, _)| key);
        let ignored = inner.ignored.into_iter().chain(rest);
        self.ignored
            .extend(ignored.map(|key| format!("build.{key}")));
        let image = self.text("image")?;
        let base = match (dockerfile, image) {
            (Some(dockerfile), _) => {
                let folder = self.folder.join(context.as_deref().unwrap_or("."));
                let file = self.folder.join(&dockerfile);
                let context = Context::new(&folder, &file);
                Base::Context(context.with_context(|| format!("cannot build by {dockerfile:?}"))?)
            }
            (None, Some(image)) => Base::Reference(image),
            (None, None) if self.given.contains_key("dockerComposeFile") => {
                bail!(
                    "it has neither image nor build.dockerfile, and compose files are not honoured"
                )
            }
            (None, None) => bail!("it has neither image nor build.dockerfile"),
        };
        Ok((base, arguments, target))
    }

    /// A text; none if it is missing, or has a variable that has no meaning here.
    fn text(&mut self, key: &str) -> anyhow::Result<Option<String>> {
        match self.given.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => match self.substituted(&text) {
                Some(text) if text.is_empty() => Ok(None),
                Some(text) if text.contains(['\n', '\r', '\0']) => {
                    bail!("{key} has several lines")
                }
                Some(text) => Ok(Some(text)),
                None => {
                    self.ignored.push(format!("{key} ({text})"));
                    Ok(None)
                }
            },
            Some(_) => bail!("{key} is not text"),
        }
    }

    /// An object of texts.
    fn variables(&mut self, key: &str) -> anyhow::Result<Pairs> {
        let given = match self.given.remove(key) {
            None => return Ok(Vec::new()),
            Some(Value::Object(given)) => given,
            Some(_) => bail!("{key} is not an object"),
        };
        let mut pairs = Vec::new();
        for (name, value) in given {
            let Value::String(text) = value else {
                bail!("{key}.{name} is not text");
            };
            // Where sh is dash, no other variable reaches what it starts, and that begins each command.
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_word) {
                self.ignored.push(format!("{key}.{name}"));
                continue;
            }
            match self.substituted(&text) {
                Some(text) if text.contains(['\n', '\r', '\0']) => {
                    bail!("{key}.{name} has several lines")
                }
                Some(text) => pairs.push((name, text)),
                None => self.ignored.push(format!("{key}.{name} ({text})")),
            }
        }
        Ok(pairs)
    }

    /// The commands of `postCreateCommand`, each for a shell: text, words, or several by name.
    fn commands(&mut self) -> anyhow::Result<Vec<PostCreate>> {
        const KEY: &str = "postCreateCommand";
        let several = match self.given.remove(KEY) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Object(named)) => named.into_iter().collect(),
            Some(one) => vec![(String::new(), one)],
        };
        let mut commands = Vec::new();
        for (name, value) in several {
            let text = match &value {
                Value::String(text) => self.substituted(text),
                Value::Array(words) => {
                    let words = words.iter().map(|word| {
                        let word = word.as_str().ok_or_else(|| anyhow!("{KEY} is not text"))?;
                        Ok(self.substituted(word))
                    });
                    let words: Option<Vec<String>> =
                        words.collect::<anyhow::Result<Option<_>>>()?;
                    words.map(|words| {
                        let words = words
                            .iter()
                            .map(|it| format!("'{}'", it.replace('\'', "'\\''")));
                        words.collect::<Vec<_>>().join(" ")
                    })
                }
                _ => bail!("{KEY} is neither text nor a list of words"),
            };
            match text {
                Some(text) if text.contains('\0') => bail!("{KEY} has a NUL"),
                Some(command) => commands.push(PostCreate { name, command }),
                None => self.ignored.push(format!("{KEY} ({value})")),
            }
        }
        Ok(commands)
    }

    /// Ports, or `HOST:PORT` as the container sees it.
    fn forwards(&mut self) -> anyhow::Result<Vec<Forwarding>> {
        const KEY: &str = "forwardPorts";
        let given = match self.given.remove(KEY) {
            None => return Ok(Vec::new()),
            Some(Value::Array(given)) => given,
            Some(_) => bail!("{KEY} is not a list"),
        };
        let parsed = given.into_iter().map(|value| {
            let text = match &value {
                Value::Number(port) => port.to_string(),
                Value::String(text) => match text.rsplit_once(':') {
                    Some((host, port)) => format!("{port}:{host}:{port}"),
                    None => text.clone(),
                },
                _ => bail!("{KEY} has {value}"),
            };
            text.parse().with_context(|| format!("{KEY} has {value}"))
        });
        parsed.collect()
    }

    /// Reads the mounts from `/work`: others are of this computer, or volumes of Docker's.
    fn mounts(&mut self) -> anyhow::Result<Vec<Mount>> {
        const KEY: &str = "mounts";
        let given = match self.given.remove(KEY) {
            None => return Ok(Vec::new()),
            Some(Value::Array(given)) => given,
            Some(_) => bail!("{KEY} is not a list"),
        };
        let mut mounts = Vec::new();
        for value in given {
            let fields: Vec<(String, String)> = match &value {
                Value::String(text) => text
                    .split(',')
                    .map(|field| field.split_once('=').unwrap_or((field, "true")))
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
                Value::Object(fields) => fields
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect(),
                _ => bail!("{KEY} has {value}"),
            };
            let field = |names: &[&str]| {
                let found = fields.iter().find(|(key, _)| names.contains(&key.as_str()));
                found.map(|(_, value)| value.as_str())
            };
            let source = field(&["source", "src"]).and_then(|it| self.substituted(it));
            let target = field(&["target", "destination", "dst"]);
            let target = target.and_then(|it| self.substituted(it));
            let is_bind = field(&["type"]) == Some("bind");
            let is_ours = |source: &str| Path::new(source).starts_with("/work");
            match (source, target) {
                (Some(source), Some(target)) if is_bind && is_ours(&source) => {
                    let is_read_only = field(&["readonly", "ro"]).is_some_and(|it| it != "false");
                    let mode = if is_read_only { "ro" } else { "rw" };
                    let text = format!("{source}:{target}:{mode}");
                    mounts.push(text.parse().with_context(|| format!("{KEY} has {value}"))?);
                }
                _ => self.ignored.push(format!("{KEY} ({value})")),
            }
        }
        Ok(mounts)
    }

    /// The text with its variables replaced; none if one has no meaning here.
    fn substituted(&self, text: &str) -> Option<String> {
        let mut parts = text.split("${");
        let mut done = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (variable, rest) = part.split_once('}')?;
            let mut words = variable.splitn(3, ':');
            match (words.next(), words.next()) {
                (Some("localEnv" | "env"), Some(name)) => {
                    // An empty one is set, too, as for the reference implementation.
                    let value = (self.caller)(name);
                    let value = value.or_else(|| words.next().map(str::to_owned));
                    done.push_str(&value.unwrap_or_default());
                }
                (Some("containerWorkspaceFolder"), None) => done.push_str("/work"),
                _ => return None,
            }
            done.push_str(rest);
        }
        Some(done)
    }
}

/// The value of JSON with comments, which may have commas before a closing bracket.
pub(super) fn value(text: &str) -> Result<Value, ParseError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_bare_decimal_point_numbers: false,
        allow_extended_string_escapes: false,
        allow_hexadecimal_numbers: false,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_non_finite_numbers: false,
        allow_single_quoted_strings: false,
        allow_unary_plus_numbers: false,
    };
    parse_to_serde_value(text.trim_start_matches('\u{feff}'), &options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Option<String> {
        match name {
            "HERE" => Some("the caller's".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn read(text: &str) -> anyhow::Result<Build> {
        parse(
            text,
            Path::new("/nowhere/project/.devcontainer/devcontainer.json"),
            &caller,
        )
    }

    #[test]
    fn honoured_keys_are_read_and_the_others_are_named() {
        let build = read(
            r#"{
            // The editor writes comments.
            "name": "x", "image": "python:3.12", /* and such */
            "containerEnv": {"A": "1 // no comment, }", "B": "${localEnv:HERE}${localEnv:EMPTY:no}", "C": "${localEnv:NO:d}",
                "D": "${containerEnv:PATH}:/x", "my.env": "e", "A B": "1"},
            "remoteUser": "jo", "containerUser": "root",
            "postCreateCommand": {"one": "pip install x", "two": ["echo", "it's", "${containerWorkspaceFolder}"]},
            "forwardPorts": [3000, "db:5432",],
            "mounts": ["source=/work/sets,target=/data,type=bind,readonly",
                {"source": "cache", "target": "/cache", "type": "volume"},
                "source=/workspaces/data,target=/w,type=bind",
                "source=${localWorkspaceFolder}/x,target=/x,type=bind"],
            "customizations": {"vscode": {}}, "features": {},
        }"#,
        )
        .unwrap();
        assert_eq!(build.name, "project");
        assert_eq!(build.base, Base::Reference("python:3.12".into()));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            build.variables,
            [
                pair("A", "1 // no comment, }"),
                pair("B", "the caller's"),
                pair("C", "d")
            ]
        );
        assert_eq!(build.user.as_deref(), Some("jo"));
        let commands = build.commands.iter();
        let commands: Vec<_> = commands.map(|it| (&*it.name, &*it.command)).collect();
        assert_eq!(
            commands,
            [
                ("one", "pip install x"),
                ("two", "'echo' 'it'\\''s' '/work'")
            ]
        );
        let forwards: Vec<String> = build.forwards.iter().map(ToString::to_string).collect();
        assert_eq!(forwards, ["3000:localhost:3000", "5432:db:5432"]);
        assert_eq!(build.mounts, ["sets:/data:ro".parse().unwrap()]);
        assert_eq!(build.ignored.len(), 8, "{:?}", build.ignored);
        for (ignored, begin) in build.ignored.iter().zip([
            "containerEnv.A B",
            "containerEnv.D (",
            "containerEnv.my.env",
            "mounts ({",
            "mounts (\"source=/workspaces/data",
            "mounts (\"source=${local",
            "customizations",
            "features",
        ]) {
            assert!(ignored.starts_with(begin), "{ignored}");
        }
    }

    #[test]
    fn a_build_is_relative_to_the_file() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join(".devcontainer");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("Dockerfile"), "FROM x").unwrap();
        let read = |text: &str| parse(text, &folder.join("devcontainer.json"), &caller);
        let text = r#"{"build": {"dockerfile": "Dockerfile", "context": "..", "target": "dev",
            "args": {"V": "1"}, "cacheFrom": "x"}}"#;
        let build = read(text).unwrap();
        let Base::Context(context) = &build.base else {
            panic!("{build:?}");
        };
        assert_eq!(context.dockerfile(), Path::new(".devcontainer/Dockerfile"));
        assert_eq!(build.target.as_deref(), Some("dev"));
        assert_eq!(build.arguments, [("V".to_owned(), "1".to_owned())]);
        assert_eq!(build.ignored, ["build.cacheFrom"]);
        let old = read(r#"{"dockerFile": "Dockerfile"}"#).unwrap();
        assert!(matches!(old.base, Base::Context(_)));
        let gone = read(r#"{"build": {"dockerfile": "gone"}}"#).unwrap_err();
        assert!(gone.to_string().contains("gone"), "{gone}");
    }

    #[test]
    fn an_invalid_devcontainer_is_an_error_that_says_why() {
        for (text, why) in [
            ("", "not an object"),
            ("{\"image\": \"x", "not JSON"),
            ("/* {}", "not JSON"),
            ("[]", "not an object"),
            ("{}", "neither image nor"),
            (r#"{"dockerComposeFile": "x"}"#, "compose files"),
            (r#"{"image": 7}"#, "image is not text"),
            (r#"{"image": "a\nb"}"#, "several lines"),
            (
                r#"{"image": "x", "containerEnv": {"A": "1\n2"}}"#,
                "several lines",
            ),
            (
                r#"{"image": "x", "forwardPorts": [0]}"#,
                "forwardPorts has 0",
            ),
            (
                r#"{"image": "x", "mounts": ["type=bind,source=/work/../x,target=/y"]}"#,
                "mounts has",
            ),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
