//! The devices of containers in the status of a pod: `allocatedResourcesStatus`.

use devices::{AllocatedDevice, Health};
use serde_json::{Map, Value, json};

const STATUSES: &str = "containerStatuses";
const FIELD: &str = "allocatedResourcesStatus";

/// Adds the devices of each regular container to its status. A container that has none any more keeps what the API says of
/// those that it had: it has ended.
pub(super) fn add(
    desired: &mut Map<String, Value>,
    live: &Value,
    devices_of: impl Fn(&str) -> Vec<AllocatedDevice>,
) {
    let known = live.get("status").and_then(|status| status.get(STATUSES)).and_then(Value::as_array);
    let statuses = desired.get_mut(STATUSES).and_then(Value::as_array_mut).into_iter().flatten();
    for status in statuses.filter_map(Value::as_object_mut) {
        let name = status.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let devices = devices_of(&name);
        let before = || {
            let mut known = known.into_iter().flatten();
            let known = known.find(|one| one.get("name").and_then(Value::as_str) == Some(&name));
            known.and_then(|known| known.get(FIELD)).cloned()
        };
        let of_devices = if devices.is_empty() { before() } else { Some(listed(devices)) };
        status.extend(of_devices.map(|list| (FIELD.to_owned(), list)));
    }
}

/// Whether the answer to a status that was sent lacks the devices of a container: a server of another version, or one whose
/// feature gate is off, drops them. `answer` is the status in the answer.
pub(super) fn is_dropped(sent: &Map<String, Value>, answer: &Value) -> bool {
    let answered = answer.get(STATUSES).and_then(Value::as_array);
    let sent = sent.get(STATUSES).and_then(Value::as_array);
    let is_kept = |status: &Value| {
        let mut answered = answered.into_iter().flatten();
        let answered = answered.find(|one| one.get("name") == status.get("name"));
        answered.is_none_or(|one| one.get(FIELD).is_some())
    };
    let mut with_devices = sent.into_iter().flatten().filter(|status| status.get(FIELD).is_some());
    with_devices.any(|status| !is_kept(status))
}

/// Devices, which are sorted by resource, by their resource.
fn listed(devices: Vec<AllocatedDevice>) -> Value {
    let mut resources: Vec<(String, Vec<Value>)> = Vec::new();
    for AllocatedDevice { resource, id, health, .. } in devices {
        let health = match health {
            Health::Healthy => "Healthy",
            Health::Unhealthy => "Unhealthy",
        };
        let device = json!({"resourceID": id, "health": health});
        match resources.last_mut() {
            Some((last, devices)) if *last == resource => devices.push(device),
            _ => resources.push((resource, vec![device])),
        }
    }
    resources.into_iter().map(|(name, resources)| json!({"name": name, "resources": resources})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_shown_with_the_health_of_their_devices() {
        let device = |resource: &str, id: &str, health| AllocatedDevice {
            resource: resource.to_owned(),
            id: id.to_owned(),
            health,
            numa: Vec::new(),
        };
        let devices_of = |name: &str| match name {
            "app" => vec![
                device("example.com/gpu", "a", Health::Healthy),
                device("example.com/gpu", "b", Health::Unhealthy),
                device("example.com/nic", "n", Health::Healthy),
            ],
            _ => Vec::new(),
        };
        let statuses = json!({STATUSES: [{"name": "app"}, {"name": "ended"}, {"name": "plain"}]});
        let live = json!({"status": {STATUSES: [{"name": "ended", FIELD: [{"name": "example.com/gpu"}]}]}});
        let mut desired = statuses.as_object().unwrap().clone();
        add(&mut desired, &live, devices_of);
        let expected = json!([
            {"name": "app", FIELD: [
                {"name": "example.com/gpu", "resources": [
                    {"resourceID": "a", "health": "Healthy"}, {"resourceID": "b", "health": "Unhealthy"}]},
                {"name": "example.com/nic", "resources": [{"resourceID": "n", "health": "Healthy"}]}]},
            {"name": "ended", FIELD: [{"name": "example.com/gpu"}]},
            {"name": "plain"},
        ]);
        assert_eq!(desired[STATUSES], expected);
        let mut none = Map::new();
        add(&mut none, &live, devices_of);
        assert!(none.is_empty());
    }
    /// The status was sent again in each round.
    #[test]
    fn a_server_without_the_field_drops_the_devices() {
        let status = |devices: Value| json!({STATUSES: [{"name": "app", FIELD: devices}, {"name": "plain"}]});
        let without = json!({STATUSES: [{"name": "plain"}, {"name": "app"}]});
        let sent = status(json!([{"name": "example.com/gpu"}]));
        let sent = sent.as_object().unwrap();
        assert!(is_dropped(sent, &without));
        assert!(
            !is_dropped(sent, &status(json!([{"name": "example.com/nic"}]))),
            "another change came first"
        );
        assert!(!is_dropped(sent, &json!({})), "the container is not known yet");
        assert!(!is_dropped(without.as_object().unwrap(), &without));
        assert!(!is_dropped(&Map::new(), &without));
    }
}
