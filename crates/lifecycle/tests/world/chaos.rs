//! What a node does to a pod that it should not.

use lifecycle::{Eviction, Instance, InstanceState, Pod, State, Task};

use super::{Promises, World};
use crate::script::{Chaos, settings};

impl World<'_> {
    pub(super) fn suffer(&mut self, chaos: Chaos) {
        match chaos {
            Chaos::Forget => self.forget(),
            Chaos::Vanish { container } => self.vanish(container),
            Chaos::Blur { container, for_ever } => self.blur(container, for_ever),
            Chaos::Redefine { container } => self.redefine(container),
            Chaos::Evict => {
                let (reason, message) = ("Evicted".to_owned(), "the node is full".to_owned());
                self.pod = self.pod.clone().evicted(Eviction { reason, message, grace: None });
            }
            Chaos::Echo => self.outcomes.extend(self.told.clone()),
        }
    }

    /// Who forgets has also stopped whatever it did itself; the runtime goes on with what it was told.
    fn forget(&mut self) {
        let Some(status) = &self.status else { return };
        self.state = State::resumed(settings(), status);
        self.tasks.retain(|task, _| matches!(task, Task::Start(..) | Task::MakeSandbox(_) | Task::Stop(..)));
        self.promises.iter_mut().for_each(Promises::forget);
    }

    fn running(&mut self, container: usize) -> Option<&mut Instance> {
        let name = self.pod.each().nth(container)?.1.name.clone();
        let mut running = self.instances.iter_mut();
        running.find(|i| i.container == name && matches!(i.state, InstanceState::Running { .. }))
    }

    fn vanish(&mut self, container: usize) {
        let Some(gone) = self.running(container).cloned() else { return };
        self.instances.retain(|instance| *instance != gone);
        self.ends.remove(&(gone.container.to_string(), gone.attempt));
        self.tasks.remove(&Task::Stop(gone.container, gone.attempt));
    }

    fn blur(&mut self, container: usize, for_ever: bool) {
        let Some(instance) = self.running(container) else { return };
        instance.state = InstanceState::Unknown;
        let key = (instance.container.to_string(), instance.attempt);
        let task = Task::Stop(instance.container.clone(), instance.attempt);
        if !self.tasks.contains_key(&task) {
            self.ends.remove(&key);
        }
        if for_ever {
            self.blurred_for_ever.insert(key);
        }
    }

    fn redefine(&mut self, container: usize) {
        let mut spec = self.pod.spec().clone();
        let mut all = spec.init.iter_mut().chain(&mut spec.containers);
        let Some(container) = all.nth(container) else { return };
        container.revision += 1;
        let name = container.name.clone();
        let mut pod = Pod::new(spec).unwrap();
        if let Some(deletion) = self.pod.deletion() {
            pod = pod.deleted(*deletion);
        }
        if let Some(eviction) = self.pod.eviction() {
            pod = pod.evicted(eviction.clone());
        }
        self.pod = pod;
        self.promises.iter_mut().for_each(|promises| promises.excuse(name.clone()));
    }
}
