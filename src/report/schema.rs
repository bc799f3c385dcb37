//! The schemas of what scripts read: `src/cli/schemas`, generated from the types that print it.
//!
//! Descriptions are doc comments. Each type with a schema has a test that compares it with the
//! committed one; `XDRIVE_WRITE_SCHEMAS=1 cargo test --lib schema` writes them all anew.

use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// How wide a line of a schema may be.
const WIDTH: usize = 110;

/// Checks that the schema of `T` is the committed one of that `name`. Title and description are
/// those of the whole document.
pub(crate) fn check<T: JsonSchema>(name: &str, title: &str, description: &str) {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    let generator = settings
        .with_transform(RecursiveTransform(plain))
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.insert("description".to_owned(), description.into());
    let generated = print(schema.as_value(), 0) + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/cli/schemas")
        .join(name)
        .with_extension("json");
    if std::env::var_os("XDRIVE_WRITE_SCHEMAS").is_some() {
        std::fs::write(file, generated).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        committed,
        generated,
        "XDRIVE_WRITE_SCHEMAS=1 cargo test --lib schema writes {}",
        file.display()
    );
}

/// Joins the lines of doc comments, leaves what JSON Schema itself knows, and adds what holds of every
/// document of xdrive's: numbers that are not whole are sums of money, and a field that may be left
/// out is never null.
fn plain(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    let is_rusts = |format: &str| format.starts_with("uint") || format.starts_with("int");
    match object.get("format").and_then(Value::as_str) {
        Some("double") => {
            object.remove("format");
            object.insert("minimum".to_owned(), json!(0));
        }
        Some(format) if is_rusts(format) => {
            object.remove("format");
        }
        _ => {}
    }
    let required = object.get("required").cloned().unwrap_or_default();
    let required = required.as_array().cloned().unwrap_or_default();
    let properties = object.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if let (false, Some(property)) = (required.contains(&json!(name)), property.as_object_mut())
        {
            forbid_null(property);
        }
    }
}

/// Takes `null` from the types of a property.
fn forbid_null(property: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            property.insert("type".to_owned(), only);
        }
    }
}

/// Prints JSON at this indent: in one line what fits into one.
fn print(value: &Value, indent: usize) -> String {
    let inner = indent + 2;
    let (open, close, items): (_, _, Vec<String>) = match value {
        Value::Object(map) => {
            let items = map.iter();
            let items = items.map(|(key, it)| format!("{}: {}", json!(key), print(it, inner)));
            ('{', '}', items.collect())
        }
        Value::Array(items) => {
            let items = items.iter().map(|it| print(it, inner));
            ('[', ']', items.collect())
        }
        plain => return plain.to_string(),
    };
    let line = format!("{open}{}{close}", items.join(", "));
    if !line.contains('\n') && indent + line.len() <= WIDTH {
        return line;
    }
    let begin = format!("\n{:inner$}", "");
    let items = items.join(&format!(",{begin}"));
    format!("{open}{begin}{items}\n{:indent$}{close}", "")
}
