use std::fmt::Debug;

use serde_json::Value;
use tracing_core::Field;
use tracing_core::field::Visit;

use super::record::Fields;

/// The field that holds an event's message.
pub(super) const MESSAGE: &str = "message";

/// Collects the fields of an event or a span, with numbers and booleans as such.
#[derive(Debug, Default)]
pub(super) struct Collect {
    pub(super) message: String,
    pub(super) fields: Fields,
}

impl Collect {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            (MESSAGE, Value::String(text)) => self.message = text,
            (MESSAGE, value) => self.message = value.to_string(),
            (name, value) => self.fields.set(name, value),
        }
    }
}

impl Visit for Collect {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::String(value.to_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinities; their name is better than `null`.
        let text = || Value::String(value.to_string());
        self.put(field, serde_json::Number::from_f64(value).map_or_else(text, Value::Number));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, Value::String(value.to_string()));
    }
}
