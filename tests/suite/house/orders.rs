//! Orders are complete: every order to EC2 or to a host exists once, every field of it is filled
//! somewhere and read by the room that carries it out, and every input of a script on the host is
//! given and read.

use std::collections::{BTreeMap, BTreeSet};

use super::{code, sources};

/// The values of a field that no code fills.
const EMPTY: &[&str] = &[
    "None",
    "false",
    "0",
    "\"\"",
    "&[]",
    "vec![]",
    "Default::default()",
    "String::new()",
    "Vec::new()",
    "Tags::new()",
    "Tags::default()",
    "BTreeMap::new()",
    "Duration::ZERO",
];

/// Fields that only tests fill, and why.
const ONLY_TESTED: &[(&str, &str)] = &[(
    "ContainerOrder::environment",
    "no flag sets it; in tests it makes a container that differs from the one before",
)];

/// Inputs of scripts that only tests give, and why.
const FOR_TESTS: &[(&str, &str)] = &[(
    "XDRIVE_MOST_LAYERS",
    "a container comes to its limit after a hundred commits, for which a test has no time",
)];

/// The code of the client, without comments and tests: file and text.
fn client() -> Vec<(String, String)> {
    let rooms = sources("src", "rs").into_iter().filter(|(file, _)| {
        !file.starts_with("local/") && !file.contains("/tests/") && !file.ends_with("tests.rs")
    });
    let plain = |text: &str| {
        let lines: Vec<&str> = code(text).map(|(_, line)| line).collect();
        lines.join("\n")
    };
    rooms.map(|(file, text)| (file, plain(&text))).collect()
}

/// An order: its file, name and fields.
#[derive(Debug)]
struct Order {
    name: String,
    file: String,
    fields: BTreeSet<String>,
}

/// The structs whose name ends in `Order`.
fn orders(client: &[(String, String)]) -> Vec<Order> {
    let mut found = Vec::new();
    for (file, text) in client {
        for (at, _) in text.match_indices("struct ") {
            let rest = &text[at + "struct ".len()..];
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            let Some(head) = rest.find(['{', ';', '(']) else {
                continue;
            };
            if name.ends_with("Order") && rest[head..].starts_with('{') {
                let fields = parts(inside(&rest[head..]))
                    .into_iter()
                    .filter_map(|part| Some(last_word(part.split_once(':')?.0)))
                    .collect();
                found.push(Order {
                    name,
                    file: file.clone(),
                    fields,
                });
            }
        }
    }
    found
}

/// The values of the fields in each literal of the order `name` in `text`.
fn literals(text: &str, name: &str) -> Vec<BTreeMap<String, String>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(name) {
        let (before, rest) = (&text[..at], &text[at + name.len()..]);
        let is_name = !before.ends_with(is_word) && rest.trim_start().starts_with('{');
        let before = before.trim_end_matches(|c: char| is_word(c) || c == ':');
        let declares = ["struct", "impl", "for", "->"]
            .iter()
            .any(|word| before.trim_end().ends_with(word));
        if !is_name || declares {
            continue;
        }
        let body = inside(rest.trim_start());
        let after = rest.trim_start()[body.len() + 2..].trim_start();
        // A pattern fills nothing.
        if after.starts_with('=') {
            continue;
        }
        let given = parts(body).into_iter().filter_map(|part| {
            let (field, value) = part.split_once(':').unwrap_or((part, "shorthand"));
            (!field.trim().is_empty() && !field.contains(".."))
                .then(|| (field.trim().to_owned(), value.trim().to_owned()))
        });
        found.push(given.collect());
    }
    found
}

pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn last_word(text: &str) -> String {
    let word = text.trim().rsplit(|c| !is_word(c)).next();
    word.unwrap_or_default().to_owned()
}

/// The text between the brace that `text` begins with and its counterpart.
pub(super) fn inside(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[1..at];
        }
    }
    panic!("braces do not match: {text}")
}

/// The parts of a list, split at the commas outside of brackets.
pub(super) fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut angles, mut begin, mut found) = (0, 0, 0, Vec::new());
    let mut before = ' ';
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            // After a space it compares or shifts, or is part of an arrow.
            '<' if is_word(before) || before == ':' => angles += 1,
            '>' if angles > 0 && !matches!(before, '-' | '=' | ' ') => angles -= 1,
            ',' if depth == 0 && angles == 0 => {
                found.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    found.push(&list[begin..]);
    found
}

/// The fields of `order` that no code fills.
fn unfilled<'a>(order: &'a Order, client: &[(String, String)]) -> Vec<&'a String> {
    let mut filled = BTreeSet::new();
    for (_, text) in client {
        for (field, value) in literals(text, &order.name).into_iter().flatten() {
            if !EMPTY.contains(&value.as_str()) {
                filled.insert(field);
            }
        }
        for field in &order.fields {
            let assigned = text.split(&format!(".{field} = ")).count() > 1;
            if assigned && text.contains(&order.name) {
                filled.insert(field.clone());
            }
        }
    }
    let fields = order.fields.iter();
    fields.filter(|field| !filled.contains(*field)).collect()
}

/// The room of a file: its first folder, or the file itself.
fn room(file: &str) -> &str {
    file.split(['/', '.']).next().unwrap_or_default()
}

/// The fields of `order` that its own room does not read.
fn unread<'a>(order: &'a Order, client: &[(String, String)]) -> Vec<&'a String> {
    let is_own = |file: &str| room(file) == room(&order.file);
    let is_read = |field: &String| {
        client
            .iter()
            .filter(|(file, _)| is_own(file))
            .any(|(_, text)| {
                let field = format!("order.{field}");
                text.match_indices(&field).any(|(at, _)| {
                    let rest = &text[at + field.len()..];
                    !rest.starts_with(is_word) && !rest.starts_with(" = ")
                })
            })
    };
    let fields = order.fields.iter();
    fields.filter(|field| !is_read(field)).collect()
}

#[test]
fn no_field_of_an_order_stays_empty_or_unread() {
    let client = client();
    let orders = orders(&client);
    let names: Vec<&str> = orders.iter().map(|order| order.name.as_str()).collect();
    for known in [
        "BootOrder",
        "ContainerOrder",
        "LockOrder",
        "LaunchOrder",
        "MountOrder",
        "VolumeOrder",
    ] {
        assert!(names.contains(&known), "no {known} among {names:?}");
    }
    let mut wrong = Vec::new();
    for (index, order) in orders.iter().enumerate() {
        assert!(!order.fields.is_empty(), "{order:?}");
        if names[..index].contains(&order.name.as_str()) {
            wrong.push(format!("src/{}: another {}", order.file, order.name));
        }
        let mut say = |field, what| {
            wrong.push(format!(
                "src/{}: {what} {}::{field}",
                order.file, order.name
            ));
        };
        let unfilled = unfilled(order, &client);
        for field in &order.fields {
            let name = format!("{}::{field}", order.name);
            let is_excused = ONLY_TESTED.iter().any(|(known, _)| *known == name);
            match (unfilled.contains(&field), is_excused) {
                (true, false) => say(field, "nothing fills"),
                (false, true) => say(field, "it is no longer for tests alone:"),
                (true, true) | (false, false) => {}
            }
        }
        for field in unread(order, &client) {
            say(field, "nothing reads");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names of inputs in `text`, each with the text before and after it.
fn inputs(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.match_indices("XDRIVE_").map(|(at, _)| {
        let rest = &text[at..];
        let is_end = |c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let end = rest.find(is_end).unwrap_or(rest.len());
        (&rest[..end], &text[..at], &rest[end..])
    })
}

#[test]
fn every_input_of_a_script_is_given_and_every_one_given_is_read() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shell/host");
    let mut read = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the scripts can be read") {
        let path = entry.expect("an entry can be read").path();
        let text = std::fs::read_to_string(path).expect("UTF-8");
        for line in text.lines().filter(|line| !line.trim().starts_with('#')) {
            let is_list = line.trim_start().starts_with("need ");
            for (name, before, _) in inputs(line) {
                if is_list || before.ends_with(['$', '{']) {
                    read.insert(name.to_owned());
                }
            }
        }
    }
    let mut given = BTreeSet::new();
    for (file, text) in client() {
        if file.starts_with("host/") {
            for (name, before, after) in inputs(&text) {
                let is_whole = before.ends_with('"') && after.starts_with('"');
                if is_whole || after.starts_with('=') {
                    given.insert(name.to_owned());
                }
            }
        }
    }
    assert!(read.contains("XDRIVE_VOLUME"), "{read:?}");
    let for_tests: BTreeSet<String> = FOR_TESTS.iter().map(|(name, _)| (*name).into()).collect();
    let mut wrong = Vec::new();
    for name in read
        .difference(&given)
        .filter(|name| !for_tests.contains(*name))
    {
        wrong.push(format!(
            "a script reads {name}, and nothing in src/host gives it"
        ));
    }
    for name in given.difference(&read) {
        wrong.push(format!("src/host gives {name}, and no script reads it"));
    }
    for name in for_tests
        .intersection(&given)
        .chain(for_tests.difference(&read))
    {
        wrong.push(format!("{name} is no longer for tests alone"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_field_that_only_gets_nothing_is_found_whatever_stands_around_it() {
    let text = "pub struct CutOrder<'a> { pub deep: u64, pub wide: Option<&'a str>, when: f64 }\n\
                fn cut(order: &CutOrder) -> CutOrder { let CutOrder { deep, .. } = order; order.deep }\n\
                fn two() { cut(&CutOrder { deep: 1 << (2 + 3), wide: None, when: f(|a, b| a < b) }); }";
    let client = vec![("cut.rs".to_owned(), text.to_owned())];
    let orders = orders(&client);
    assert_eq!(orders.len(), 1, "{orders:?}");
    assert_eq!(orders[0].fields.len(), 3, "{orders:?}");
    assert_eq!(unfilled(&orders[0], &client), ["wide"]);
    assert_eq!(unread(&orders[0], &client), ["when", "wide"]);
    let later = format!("{text}\nfn three(order: &mut CutOrder) {{ order.wide = Some(\"x\"); }}");
    let client = vec![("cut.rs".to_owned(), later)];
    assert_eq!(unfilled(&orders[0], &client), [""; 0]);
}
