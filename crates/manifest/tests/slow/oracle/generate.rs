//! Seeded objects: valid ones, grown field by field, and changes of them.

use serde_json::{Map, Value, json};
use testkit::Dice;

use super::shape::{Field, Shape, Step, below};
use super::{good, odd, values};

/// An object, and the field of the schema that it was made for.
pub(super) struct Sample {
    pub(super) number: usize,
    pub(super) object: Value,
    pub(super) field: String,
    pub(super) is_meant_valid: bool,
}

/// How a value is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taste {
    Good,
    Odd,
}

/// What chooses.
struct Hand<'a> {
    taste: Taste,
    dice: &'a mut Dice,
}

/// The object of this number. Every field of every kind has its turn.
pub(super) fn sample(shapes: &[Shape], seed: u64, number: usize) -> Sample {
    let number_seed = u64::try_from(number).unwrap().wrapping_mul(0x9e37_79b9);
    let mut dice = Dice::seeded(seed.wrapping_mul(0x0100_0001).wrapping_add(number_seed));
    let (shape, field) = turn(shapes, number, &mut dice);
    let mut object = good::base(shape.kind, &mut dice);
    let plan = dice.below(100);
    for _ in 0..dice.below(5) {
        let other = any_field(shape, &mut dice);
        set(&mut object, shape, other, Hand { taste: Taste::Good, dice: &mut dice });
    }
    let taste = if (50..75).contains(&plan) { Taste::Odd } else { Taste::Good };
    set(&mut object, shape, field, Hand { taste, dice: &mut dice });
    let changes = if plan < 75 { 0 } else { 1 + dice.below(2) };
    for _ in 0..changes {
        change(&mut object, shape, &mut dice);
    }
    let is_meant_valid = plan < 50;
    Sample { number, object, field: format!("{}.{}", shape.kind, field.path), is_meant_valid }
}

/// Half of the objects go through all fields in order, the others are pods, whose rules are the most.
fn turn<'a>(shapes: &'a [Shape], number: usize, dice: &mut Dice) -> (&'a Shape, &'a Field) {
    if number.is_multiple_of(4) {
        let other = &shapes[dice.below(shapes.len())];
        let shape = dice.pick(&[&shapes[0], &shapes[0], other]);
        return (shape, any_field(shape, dice));
    }
    let all: usize = shapes.iter().map(|shape| shape.fields.len()).sum();
    let mut index = (number - number / 4 - 1) % all;
    for shape in shapes {
        match shape.fields.get(index) {
            Some(field) => return (shape, field),
            None => index -= shape.fields.len(),
        }
    }
    (&shapes[0], &shapes[0].fields[0])
}

/// What no valid object sets.
const UNSET: [&str; 3] = ["managedFields", "ephemeralContainers", "volumeClaimTemplate.metadata."];

/// A field of the kind, the ones near the top as often as the many far below. Not of its status.
fn any_field<'a>(shape: &'a Shape, dice: &mut Dice) -> &'a Field {
    let limit = if dice.coin() { 6 } else { usize::MAX };
    loop {
        let field = &shape.fields[dice.below(shape.fields.len())];
        let is_input =
            !field.path.starts_with("status") && !UNSET.iter().any(|name| field.path.contains(name));
        if is_input && field.steps.len() <= limit.saturating_add(root_steps(shape)) {
            return field;
        }
    }
}

fn root_steps(shape: &Shape) -> usize {
    match shape.kind {
        "Pod" | "PersistentVolumeClaim" | "PersistentVolume" => 0,
        "CronJob" => 4,
        _ => 2,
    }
}

/// Sets a field, and makes what leads to it.
fn set(object: &mut Value, shape: &Shape, field: &Field, hand: Hand<'_>) {
    let Hand { taste, dice } = hand;
    let mut place = object;
    let mut path = String::new();
    for (index, step) in field.steps.iter().enumerate() {
        let parent = shape.type_at(&path).to_owned();
        let next = below(&path, step);
        let is_last = index + 1 == field.steps.len();
        let made = || (shape.type_at(&next).to_owned(), is_last);
        let name = last_name(&field.steps[..=index]);
        match step {
            Step::Name(step_name) => {
                if !place.is_object() {
                    *place = json!({});
                }
                let map = place.as_object_mut().unwrap();
                if taste == Taste::Good || dice.below(4) > 0 {
                    drop_alternatives(map, &parent, step_name);
                }
                accompany(map, &parent, step_name);
                if path.ends_with("initContainers[]") && RUNNING.contains(&step_name.as_str()) {
                    map.insert("restartPolicy".into(), json!("Always"));
                }
                let (kind, is_last) = made();
                if is_last && (is_leaf(&kind) || taste == Taste::Odd) {
                    let value = leaf(&Leaf { parent: &parent, name: step_name, kind: &kind }, taste, dice);
                    map.insert(step_name.clone(), value);
                    return;
                }
                place = map.entry(step_name.clone()).or_insert_with(|| good::minimal(&kind, dice));
            }
            Step::Item => {
                if !place.is_array() {
                    *place = json!([]);
                }
                let (kind, is_last) = made();
                let following = field.steps.get(index + 1);
                let list = place.as_array_mut().unwrap();
                let chosen = existing(list, following, &kind, dice);
                let at = chosen.unwrap_or_else(|| {
                    let value = if is_leaf(&kind) {
                        let owner = owner_type(shape, &field.steps[..index]);
                        leaf(&Leaf { parent: &owner, name: &name, kind: &kind }, taste, dice)
                    } else {
                        good::minimal(&kind, dice)
                    };
                    list.push(value);
                    list.len() - 1
                });
                if is_last {
                    return;
                }
                place = &mut list[at];
            }
            Step::Key => {
                if !place.is_object() {
                    *place = json!({});
                }
                let (kind, is_last) = made();
                let key = if taste == Taste::Odd && dice.below(3) == 0 {
                    odd::text(dice)
                } else {
                    dice.pick(values::keys(&name)).to_owned()
                };
                // A workload's selector selects what its template has.
                let is_own = path.ends_with("selector.matchLabels") && taste == Taste::Good;
                let key = if is_own { "app".to_owned() } else { key };
                let map = place.as_object_mut().unwrap();
                if is_last || is_leaf(&kind) {
                    let is_odd = taste == Taste::Odd && dice.coin();
                    let value =
                        if is_odd { odd::value(&kind, dice) } else { json!(dice.pick(values::keyed(&key))) };
                    map.insert(key, value);
                    return;
                }
                place = map.entry(key).or_insert_with(|| good::minimal(&kind, dice));
            }
        }
        path = next;
    }
}

/// The name of the last field on the way.
fn last_name(steps: &[Step]) -> String {
    let names = steps.iter().rev().filter_map(|step| match step {
        Step::Name(name) => Some(name.clone()),
        _ => None,
    });
    names.take(1).next().unwrap_or_default()
}

/// The type that has the list at the end of these steps.
fn owner_type(shape: &Shape, steps: &[Step]) -> String {
    let above = steps.split_last().map_or(&[][..], |(_, above)| above);
    let path = above.iter().fold(String::new(), |path, step| below(&path, step));
    shape.type_at(&path).to_owned()
}

/// An item of the list to go on with: one that has the field already, or any; none to make a new one.
fn existing(list: &[Value], following: Option<&Step>, kind: &str, dice: &mut Dice) -> Option<usize> {
    let Some(Step::Name(name)) = following else { return None };
    let having = list.iter().position(|item| item.get(name).is_some());
    let is_choice = good::alternatives(kind).contains(&name.as_str());
    match having {
        Some(at) if dice.below(4) > 0 => Some(at),
        _ if is_choice || list.is_empty() || dice.below(3) == 0 => None,
        _ => Some(dice.below(list.len())),
    }
}

fn drop_alternatives(map: &mut Map<String, Value>, parent: &str, name: &str) {
    let all = good::alternatives(parent);
    if all.contains(&name) {
        map.retain(|key, _| key == name || !all.contains(&key.as_str()));
    }
}

/// What only an init container has that goes on beside the others.
const RUNNING: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

fn accompany(map: &mut Map<String, Value>, parent: &str, name: &str) {
    for (field, text) in values::companions(parent, name) {
        match serde_json::from_str(text).unwrap() {
            Value::Null => drop(map.remove(*field)),
            value => drop(map.insert((*field).to_owned(), value)),
        }
    }
}

fn is_leaf(kind: &str) -> bool {
    matches!(
        kind,
        "a string" | "a boolean" | "i32" | "i64" | "Quantity" | "IntOrString" | "Time" | "MicroTime"
    )
}

/// A field without fields of its own: the type that has it, its name, its type.
struct Leaf<'a> {
    parent: &'a str,
    name: &'a str,
    kind: &'a str,
}

fn leaf(field: &Leaf<'_>, taste: Taste, dice: &mut Dice) -> Value {
    let Leaf { parent, name, kind } = *field;
    let known = values::values(parent, name);
    let is_known = !known.is_empty() && (taste == Taste::Good || dice.below(3) == 0);
    match kind {
        _ if is_known => dice.pick(&known),
        _ if taste == Taste::Odd => odd::value(kind, dice),
        "a string" => json!(dice.pick(&["a", "b", "a"])),
        "a boolean" => json!(dice.coin()),
        "i32" | "i64" => json!(dice.pick(&[1, 1, 2, 0])),
        "Quantity" => json!(dice.pick(&["1", "1Gi"])),
        "IntOrString" => json!(1),
        _ => json!("2020-01-01T00:00:00Z"),
    }
}

/// Every place of an object, as a JSON pointer.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let below = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                all.push(below.clone());
                places(value, &below, all);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                let below = format!("{at}/{index}");
                all.push(below.clone());
                places(value, &below, all);
            }
        }
        _ => {}
    }
}

/// Whether it is what a volume is made of: without it the server makes an emptyDir, a documented difference.
fn is_source(place: &str) -> bool {
    let mut steps = place.rsplit('/');
    let (key, list) = (steps.next(), steps.nth(1));
    list == Some("volumes") && key != Some("name")
}

/// One change at a random place.
fn change(object: &mut Value, shape: &Shape, dice: &mut Dice) {
    let mut all = Vec::new();
    places(object, "", &mut all);
    all.retain(|place| place != "/apiVersion" && place != "/kind");
    let place = dice.pick(&all);
    match dice.below(6) {
        0 => {
            let field = any_field(shape, dice);
            set(object, shape, field, Hand { taste: Taste::Odd, dice });
        }
        1 if !is_source(&place) => remove(object, &place),
        1 => {}
        2 => duplicate(object, dice),
        3 => {
            let from = dice.pick(&all);
            let value = object.pointer(&from).cloned().unwrap_or_default();
            if !place.starts_with(&from) && !from.starts_with(&place) {
                replace(object, &place, value);
            }
        }
        _ => {
            let value = match object.pointer(&place) {
                Some(Value::String(_)) => json!(odd::text(dice)),
                Some(Value::Number(_)) => json!(odd::number(dice)),
                Some(Value::Bool(held)) => json!(!held),
                Some(Value::Array(_)) => json!([]),
                Some(Value::Object(_)) => json!({}),
                _ => Value::Null,
            };
            replace(object, &place, value);
        }
    }
}

fn replace(object: &mut Value, place: &str, value: Value) {
    if let Some(held) = object.pointer_mut(place) {
        *held = value;
    }
}

fn remove(object: &mut Value, place: &str) {
    let Some((parent, last)) = place.rsplit_once('/') else { return };
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.remove(&last.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(list)) => drop(last.parse().map(|index: usize| list.remove(index))),
        _ => {}
    }
}

/// Copies an item of a list to its end.
fn duplicate(object: &mut Value, dice: &mut Dice) {
    let mut all = Vec::new();
    places(object, "", &mut all);
    all.retain(|place| object.pointer(place).and_then(Value::as_array).is_some_and(|list| !list.is_empty()));
    if all.is_empty() {
        return;
    }
    if let Some(Value::Array(list)) = object.pointer_mut(&dice.pick(&all)) {
        let copy = list[dice.below(list.len())].clone();
        list.push(copy);
    }
}
