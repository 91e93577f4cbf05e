use std::collections::BTreeMap;

use conflicts::Pod;

use super::makers::Maker;
use super::objects::Objects;
use super::report::{Place, Who};
use super::template::Template;
use super::volumes::Claim;

/// A workload with what is known of it.
#[derive(Debug, Clone)]
pub(super) struct Found<'a> {
    /// What its pods are made from, or one of them.
    pub(super) template: &'a Template,
    /// The object itself, where it was seen.
    pub(super) maker: Option<&'a Maker>,
    pub(super) source: Option<Place>,
    /// How many of its pods were seen.
    pub(super) pods: usize,
}

impl Found<'_> {
    /// Claims that it makes for each of its pods.
    pub(super) fn claims(&self) -> &[(String, Claim)] {
        self.maker.map_or(&[], |maker| maker.claims.as_slice())
    }
}

fn root_of(makers: &BTreeMap<Who, Maker>, who: &Who) -> Who {
    let owner = makers.get(who).and_then(|maker| maker.owner.as_ref());
    match (who.kind.as_str(), owner) {
        ("ReplicaSet" | "Job", Some(owner)) => owner.clone(),
        _ => who.clone(),
    }
}

impl Objects {
    /// Who is behind an object: the Deployment of a ReplicaSet, the CronJob of a Job. Whoever owns any
    /// other kind does not write its template.
    pub(super) fn root(&self, who: &Who) -> Who {
        root_of(&self.makers, who)
    }

    /// What pods use of persistent volumes, with who is behind each. It is moved, not copied: of all that
    /// is kept it is the most.
    pub(super) fn take_live(&mut self) -> Vec<(Who, Box<Pod>)> {
        let Self { makers, pods, .. } = self;
        let using = pods.values_mut().filter_map(|pod| {
            let used = pod.volumes.take()?;
            Some((root_of(makers, pod.owner_or_self()), used))
        });
        using.collect()
    }

    /// Every workload once. Its own template counts most, then that of what it made, then a pod of its.
    pub(super) fn workloads(&self) -> BTreeMap<Who, Found<'_>> {
        let mut found: BTreeMap<Who, Found<'_>> = BTreeMap::new();
        let (own, made): (Vec<&Maker>, Vec<&Maker>) =
            self.makers.values().partition(|maker| self.root(&maker.who) == maker.who);
        for maker in own.into_iter().chain(made) {
            let Some(template) = maker.template.as_ref() else { continue };
            let root = self.root(&maker.who);
            let is_itself = root == maker.who;
            let source = is_itself.then(|| maker.source.clone());
            let maker = Some(maker).filter(|_| is_itself);
            found.entry(root).or_insert(Found { template, maker, source, pods: 0 });
        }
        for (who, template) in &self.samples {
            found.entry(self.root(who)).or_insert(Found { template, maker: None, source: None, pods: 0 });
        }
        for pod in self.pods.values() {
            let root = self.root(pod.owner_or_self());
            if let Some(workload) = found.get_mut(&root) {
                workload.pods += 1;
                if pod.owner.is_none() {
                    workload.source = Some(pod.source.clone());
                }
            }
        }
        found
    }
}
