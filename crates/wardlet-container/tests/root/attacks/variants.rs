//! The kinds of containers that an attack is tried from.

use container::{Console, Engine, NamespaceSpec};

use crate::support::{Box, Users, debians_runc};

/// Whose processes a container sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processes {
    Own,
    /// Those of another container of the pod as well.
    Shared,
}

#[derive(Debug, Clone)]
pub(crate) struct Variant {
    pub(crate) engine: Engine,
    pub(crate) users: Users,
    pub(crate) processes: Processes,
    pub(crate) console: Console,
}

/// A container of a variant, with whatever it shares.
pub(crate) struct Attacker {
    pub(crate) container: Box,
    _beside: Option<Box>,
}

impl Variant {
    /// Every engine, with the host's users and isolated, with and without shared processes and a terminal.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for engine in [Engine::Libcontainer, debians_runc()] {
            for users in [Users::Host, Users::Pod] {
                for processes in [Processes::Own, Processes::Shared] {
                    for console in [Console::Pipes, Console::Terminal] {
                        all.push(Self { engine: engine.clone(), users, processes, console });
                    }
                }
            }
        }
        all
    }

    /// Those of the built-in engine.
    pub(crate) fn built_in() -> Vec<Self> {
        Self::all().into_iter().filter(|one| one.engine == Engine::Libcontainer).collect()
    }

    /// A container that runs `args`, not started yet.
    pub(crate) fn container(&self, args: &[&str]) -> Attacker {
        let mut container = Box::new(self.engine.clone(), self.users, args);
        container.job.start.process.console = self.console;
        let beside = (self.processes == Processes::Shared).then(|| {
            let mut first = Box::new(Engine::Libcontainer, self.users, &["/bin/sleep", "1000"]);
            if self.users == Users::Pod {
                // Containers of one pod have one user namespace, which owns the namespace of their processes.
                first.job.start.namespaces = container.job.start.namespaces.clone();
                first.job.start.namespaces.pid = NamespaceSpec::New;
                first.job.start.ids.clone_from(&container.job.start.ids);
            }
            let init = first.started();
            container.job.start.namespaces.pid = NamespaceSpec::At(format!("/proc/{init}/ns/pid").into());
            first
        });
        Attacker { container, _beside: beside }
    }
}

impl Attacker {
    /// Starts it, with a terminal if it has one; what the program said of it.
    pub(crate) fn run(&mut self) -> serde_json::Value {
        match self.container.job.start.process.console {
            Console::Pipes => self.container.run(&[]),
            Console::Terminal => {
                let socket = self.container.path("console");
                let _ = std::fs::remove_file(&socket);
                // The terminal is kept for as long as the container is started.
                let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
                let answer = self.container.run(&["--console", socket.to_str().unwrap()]);
                drop(listener);
                answer
            }
        }
    }
}
