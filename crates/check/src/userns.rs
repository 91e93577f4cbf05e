//! Can a workload have a user namespace of its own? The planner says; here it is only asked.

use plan::{
    Container, Facts, HostNamespaces, Intent, Isolate, Medium, Mount, MountPropagation, OnClosedGate, Plan,
    Policy, Refusal, Rules, UserNamespaceMode, Volume, VolumeSource,
};

use inventory::{KnownWorkload, Template};
use types::keys;

use crate::facts::Handlers;
use crate::report::{Now, ObjectRef, Reason, UserNamespace, Verdict, Weight};

/// How the planner starts to say what a pod would lose.
const LOSES: &str = "user namespace: the host's, because the pod does not ask for one and ";

/// What the workloads are judged by.
#[derive(Debug)]
pub(crate) struct Judge {
    /// What the nodes can do.
    facts: Facts,
    /// The same with a kernel and a runtime that can do all: for questions about one field alone.
    able: Facts,
    /// Asked for, it has to be had.
    asked: Policy,
    /// Not asked for, it is had where nothing is lost.
    unasked: Policy,
    handlers: Handlers,
}

impl Judge {
    pub(crate) fn new(mut facts: Facts, able: Facts, gates: &plan::Gates, handlers: Handlers) -> Self {
        facts.runtime.handlers.clone_from(&handlers.facts);
        let able = Facts { filesystems: facts.filesystems.clone(), ..able };
        let rules = Rules { on_closed_gate: OnClosedGate::Refuse, ..Rules::default() };
        let asked = Policy { gates: gates.clone(), rules };
        let rules = Rules { isolate: Isolate::WhenSafe, ..Rules::default() };
        let unasked = Policy { gates: plan::Gates::default(), rules };
        Self { facts, able, asked, unasked, handlers }
    }

    pub(crate) fn judge(&self, found: &KnownWorkload<'_>, intent: &Intent) -> UserNamespace {
        let template = found.template;
        let mut reasons = self.obstacles(template, intent);
        reasons.extend(found.resource.and_then(|resource| resource.owner.as_ref()).map(managed));
        let blocked: Vec<String> = reasons.iter().map(|reason| reason.field.clone()).collect();
        let losses = self.losses(intent).into_iter().chain(self.beyond_the_plan(template, intent));
        reasons.extend(losses.filter(|reason| !blocked.contains(&reason.field)));
        reasons.sort();
        reasons.dedup();
        let verdict = match reasons.first().map(|reason| reason.weight) {
            Some(Weight::Blocks) => Verdict::Blocked,
            Some(Weight::Risks) => Verdict::Risky,
            Some(Weight::Note) | None => Verdict::Ready,
        };
        let now = if intent.host_users == Some(false) { Now::Own } else { Now::Host };
        UserNamespace { verdict, now, reasons }
    }

    /// Whether such a pod would start with a user namespace of its own.
    pub(crate) fn starts(&self, intent: &Intent) -> bool {
        self.plan(intent).is_ok()
    }

    /// The question is what would be, so that fields are named as in a pod that asks.
    fn plan(&self, intent: &Intent) -> Result<Plan, Vec<Refusal>> {
        let asked_by = "spec.hostUsers".to_owned();
        let isolated = Intent { host_users: Some(false), asked_by, ..intent.clone() };
        plan::plan(&isolated, &self.facts, &self.asked)
    }

    fn obstacles(&self, template: &Template, intent: &Intent) -> Vec<Reason> {
        let refusals = self.plan(intent).err().unwrap_or_default();
        let mut reasons: Vec<Reason> = refusals
            .into_iter()
            .map(|refusal| Reason {
                weight: Weight::Blocks,
                field: written(template, &refusal.field),
                cause: refusal.cause,
                hint: refusal.hint.unwrap_or_default(),
            })
            .collect();
        if template.is_windows {
            let field = format!("{}os.name", template.root);
            let hint = "leave it as it is".to_owned();
            let cause = "Windows has no user namespaces".to_owned();
            reasons.push(Reason { weight: Weight::Blocks, field, cause, hint });
        }
        reasons
    }

    /// What the planner says of each part that could lose something, asked about that part alone.
    fn losses(&self, intent: &Intent) -> Vec<Reason> {
        let parts = intent.containers.iter().flat_map(|c| of_container(intent, c));
        let volumes = intent.volumes.iter().filter_map(|volume| of_volume(intent, volume));
        let network = intent.host.network.then(|| of_network(intent));
        let asked = parts.chain(volumes).chain(network);
        asked.filter_map(|part| part.reason(self.loss(&part.intent)?)).collect()
    }

    fn loss(&self, part: &Intent) -> Option<String> {
        match plan::plan(part, &self.able, &self.unasked) {
            Ok(plan) if plan.user_namespace.mode == UserNamespaceMode::Own => None,
            Ok(plan) => {
                let said = plan.reasons.iter().find_map(|reason| reason.strip_prefix(LOSES));
                Some(said.unwrap_or("it would lose something").to_owned())
            }
            Err(refusals) => refusals.first().map(|refusal| refusal.cause.clone()),
        }
    }

    /// What a plan does not know of.
    fn beyond_the_plan(&self, template: &Template, intent: &Intent) -> Vec<Reason> {
        let mut found: Vec<Reason> = template.devices.iter().map(device).collect();
        found.extend(template.ping_groups.as_ref().map(|sysctl| Reason {
            weight: Weight::Risks,
            field: sysctl.field.clone(),
            cause: format!("{:?} names groups that its user namespace does not have", sysctl.value),
            hint: "write 0 65535".to_owned(),
        }));
        found.extend(self.handlers.unable_nodes.get(&intent.runtime_handler).map(|nodes| Reason {
            weight: Weight::Risks,
            field: format!("{}hostUsers", template.root),
            cause: format!("the runtime of {} cannot give it one", shortened(nodes)),
            hint: "keep its pods from there, or update the runtime there".to_owned(),
        }));
        found.extend(template.annotations.iter().map(|annotation| Reason {
            weight: Weight::Note,
            field: format!("{}[{}]", template.annotations_field(), annotation.name),
            cause: format!("asks {} for a user namespace: {}", annotation.tool, annotation.value),
            hint: if annotation.name == keys::USER_NAMESPACE {
                "ask by hostUsers: false as well, and leave it until every node understands that".to_owned()
            } else {
                "ask by hostUsers: false instead, which every runtime understands".to_owned()
            },
        }));
        if intent.host_users == Some(true) {
            found.push(Reason {
                weight: Weight::Note,
                field: format!("{}hostUsers", template.root),
                cause: "it says that it wants the host's users".to_owned(),
                hint: "ask its owner why before that is changed".to_owned(),
            });
        }
        found
    }
}

fn managed(owner: &ObjectRef) -> Reason {
    Reason {
        weight: Weight::Note,
        field: "metadata.ownerReferences".to_owned(),
        cause: format!("{} {} manages it and may undo changes", owner.kind, owner.name),
        hint: "make the change there, if it lets you".to_owned(),
    }
}

/// Some nodes by name, and how many more.
fn shortened(nodes: &[String]) -> String {
    let named = nodes.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(3) {
        0 if nodes.len() == 1 => format!("node {named}"),
        0 => format!("nodes {named}"),
        more => format!("nodes {named} and {more} more"),
    }
}

fn device(device: &inventory::Device) -> Reason {
    Reason {
        weight: Weight::Risks,
        field: device.field.clone(),
        cause: format!(
            "the devices of {} are not idmapped: inside the pod their owner is the overflow ID 65534",
            device.name
        ),
        hint: "try it: it works if the device is world-accessible (mode 0666)".to_owned(),
    }
}

/// A field as the object writes it. The planner names some from the pod.
fn written(template: &Template, field: &str) -> String {
    let is_whole = field.starts_with(&template.root) || field.starts_with("spec.volumeClaimTemplates");
    match (field.strip_prefix("spec."), field.strip_prefix("metadata.annotations")) {
        _ if is_whole => field.to_owned(),
        (Some(rest), _) => format!("{}{rest}", template.root),
        (_, Some(rest)) => format!("{}{rest}", template.annotations_field()),
        _ => field.to_owned(),
    }
}

/// A pod that has one thing of the real one, and what to say if it loses by it.
struct Part {
    intent: Intent,
    field: String,
    hint: &'static str,
}

impl Part {
    fn reason(&self, cause: String) -> Option<Reason> {
        let Self { field, hint, .. } = self;
        Some(Reason { weight: Weight::Risks, field: field.clone(), cause, hint: (*hint).to_owned() })
    }
}

fn narrow(intent: &Intent, container: Container, volumes: Vec<Volume>) -> Intent {
    let pod = &intent.pod;
    Intent { containers: vec![container], volumes, ..Intent::of(&pod.namespace, &pod.name) }
}

fn of_container(intent: &Intent, container: &Container) -> Vec<Part> {
    let Container { name, field, .. } = container;
    let named = || Container { name: name.clone(), field: field.clone(), ..Container::default() };
    let mut parts = Vec::new();
    if container.privileged {
        parts.push(Part {
            intent: narrow(intent, Container { privileged: true, ..named() }, Vec::new()),
            field: format!("{field}.securityContext.privileged"),
            hint: "give it the capabilities that it needs instead, or leave it with the host's users",
        });
    }
    for capability in &container.capabilities.add {
        let add = vec![capability.clone()];
        let capabilities = plan::Capabilities { add, drop: Vec::new() };
        parts.push(Part {
            intent: narrow(intent, Container { capabilities, ..named() }, Vec::new()),
            field: format!("{field}.securityContext.capabilities.add[{capability}]"),
            hint: "see what it is for: what it does to the host it can no longer do",
        });
    }
    let both_ways = container.mounts.iter().filter(|m| m.propagation == MountPropagation::Bidirectional);
    for mount in both_ways {
        let scratch = VolumeSource::EmptyDir(Medium::Memory);
        let volume = Volume { name: mount.volume.clone(), field: mount.field.clone(), source: scratch };
        parts.push(Part {
            intent: narrow(intent, Container { mounts: vec![mount.clone()], ..named() }, vec![volume]),
            field: format!("{}.mountPropagation", mount.field),
            hint: "leave it with the host's users if it mounts for others",
        });
    }
    parts
}

fn of_volume(intent: &Intent, volume: &Volume) -> Option<Part> {
    let mut users = intent.containers.iter();
    let user = users.find(|c| c.mounts.iter().any(|mount| mount.volume == volume.name))?;
    let mount = Mount { volume: volume.name.clone(), path: "/".to_owned(), ..Mount::default() };
    let container = Container { name: user.name.clone(), mounts: vec![mount], ..Container::default() };
    let hint = match &volume.source {
        VolumeSource::HostPath { .. } => "check the owners of the files there, or use a volume of its own",
        VolumeSource::Claim { .. } => {
            "show its claim, volume and storage class along with it; it must not be on NFS or the like"
        }
        _ => "try it on a node: the filesystem must be one that can be idmapped",
    };
    let intent = narrow(intent, container, vec![volume.clone()]);
    Some(Part { intent, field: volume.field.clone(), hint })
}

fn of_network(intent: &Intent) -> Part {
    let host = HostNamespaces { network: true, ..HostNamespaces::default() };
    let pod = &intent.pod;
    Part {
        intent: Intent { host, ..Intent::of(&pod.namespace, &pod.name) },
        field: intent.asked_by.replace("hostUsers", "hostNetwork"),
        hint: "leave it with the host's users if it configures the network",
    }
}
