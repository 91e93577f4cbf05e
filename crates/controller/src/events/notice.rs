use conflicts::{PodKey, Property, Says, VolumeId};

use crate::cluster::Cluster;

/// What an event of a pod and a volume is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Subject {
    /// Pods differ in a property.
    Conflict(Property),
    /// The pod needs the volume with several labels.
    MultipleLabels,
}

/// An event that is to be sent. Its text is made when it is: it names the pods of that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) pod: PodKey,
    pub(super) uid: String,
    pub(super) volume: VolumeId,
    pub(super) subject: Subject,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) reason: &'static str,
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl Subject {
    /// The reason, by upstream's name.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Conflict(property) => property.reason(),
            Self::MultipleLabels => "MultipleSELinuxLabels",
        }
    }

    /// The type of the event, as upstream's.
    fn kind(self) -> &'static str {
        match self {
            Self::Conflict(_) => "Normal",
            Self::MultipleLabels => "Warning",
        }
    }
}

impl Notice {
    /// What it says now; `None` if it is about nothing any more, or about an earlier pod of this name.
    pub(super) fn text(&self, cluster: &Cluster) -> Option<Text> {
        let engine = cluster.engine();
        if engine.uid(&self.pod) != Some(self.uid.as_str()) {
            return None;
        }
        let message = match self.subject {
            Subject::Conflict(property) => engine.event_for(&self.pod, &self.volume, property)?.message,
            Subject::MultipleLabels => engine.remarks_of(&self.pod).find_map(|remark| match remark.says {
                Says::MultipleLabels { labels, .. } if *remark.volume == self.volume => {
                    let labels: Vec<String> =
                        labels.iter().map(|label| format!("{:?}", label.to_string())).collect();
                    Some(format!(
                        "volume {:?} is mounted by containers of this pod with different SELinux labels: {}; a volume \
                         can have one label only",
                        remark.name,
                        labels.join(", ")
                    ))
                }
                _ => None,
            })?,
        };
        Some(Text { reason: self.subject.reason(), kind: self.subject.kind(), message })
    }
}
