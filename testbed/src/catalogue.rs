//! Every component: its pinned version, where it comes from, and the sets that the test tiers need.

use crate::manifests::{self, Module};
use crate::{Error, Result};

/// A module of ours that pins what a component is built from.
#[derive(Debug)]
pub struct GoModule {
    /// Its directory below `components/` or `peers/`.
    pub name: &'static str,
    /// Requirements, replacements.
    pub go_mod: &'static str,
    /// The checksums of everything that is built.
    pub go_sum: &'static str,
    /// Source files of its own, by name, where the program is ours and only its packages are theirs.
    pub files: &'static [(&'static str, &'static str)],
}

/// How a program is made from its package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// `go build`.
    Program,
    /// `go test -c`: upstream's end-to-end tests are a test binary.
    TestBinary,
}

/// One program of a component.
#[derive(Debug)]
pub struct Program {
    /// Its name in the cache.
    pub binary: &'static str,
    /// Its Go package.
    pub package: &'static str,
    /// How it is made.
    pub recipe: Recipe,
}

/// What is built from Go modules.
#[derive(Debug)]
pub struct GoSource {
    /// The pinning module.
    pub module: &'static GoModule,
    /// What is built.
    pub programs: &'static [Program],
    /// Build tags.
    pub tags: &'static str,
    /// `CGO_ENABLED`: 0 for what must be static to run in a container or a chroot.
    pub cgo: &'static str,
    /// Linker flags beyond `-s -w`.
    pub stamp: &'static str,
    /// What is changed in its source, and why there.
    pub edits: &'static [Edit],
}

/// Words of a source file that are replaced before it is built.
#[derive(Debug)]
pub struct Edit {
    /// The module that has the file.
    pub module: &'static str,
    /// The file in it.
    pub file: &'static str,
    /// What is there, once.
    pub from: &'static str,
    /// What is put there.
    pub to: &'static str,
}

/// Where a component comes from.
#[derive(Debug)]
pub enum Source {
    /// Go modules, built here.
    Go(GoSource),
    /// Files of Go modules, copied as they are.
    Files(&'static [Module]),
    /// Debian packages, each known by a file it brings.
    Debian(&'static [(&'static str, &'static str)]),
}

/// One component.
#[derive(Debug)]
pub struct Component {
    /// What it is called on the command line and in the cache.
    pub name: &'static str,
    /// Pinned; Debian's are what the release has.
    pub version: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// Disk that a first build takes, caches of Go included, in MB.
    pub megabytes: u64,
}

macro_rules! module {
    ($name:literal) => {
        &GoModule {
            name: $name,
            go_mod: include_str!(concat!("../components/", $name, "/go.mod")),
            go_sum: include_str!(concat!("../components/", $name, "/go.sum")),
            files: &[],
        }
    };
}

/// A program of ours that is linked with upstream's packages.
macro_rules! peer {
    ($name:literal, $($file:literal)*) => {
        &GoModule {
            name: $name,
            go_mod: include_str!(concat!("../peers/", $name, "/go.mod")),
            go_sum: include_str!(concat!("../peers/", $name, "/go.sum")),
            files: &[$(($file, include_str!(concat!("../peers/", $name, "/", $file)))),*],
        }
    };
}

const KUBERNETES: &GoModule = module!("kubernetes");
const KUBERNETES_E2E: &GoModule = module!("kubernetes-e2e");
/// Without it a node calls itself v0.0.0-master.
const KUBERNETES_STAMP: &str = "-X k8s.io/component-base/version.gitVersion=v1.37.1 \
     -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37";

/// gVisor's shim protects itself from the killer of processes, and does not start where that is not allowed, as on
/// a host without CAP_SYS_RESOURCE. There is no setting for it.
const SHIM_SCORE: Edit = Edit {
    module: "gvisor.dev/gvisor",
    file: "pkg/shim/v1/manager.go",
    from: "oomScoreMax = -999",
    to: "oomScoreMax = 0",
};

const fn program(binary: &'static str, package: &'static str) -> Program {
    Program { binary, package, recipe: Recipe::Program }
}

const fn go(module: &'static GoModule, programs: &'static [Program]) -> GoSource {
    GoSource { module, programs, tags: "", cgo: "1", stamp: "", edits: &[] }
}

const fn kubernetes(name: &'static str, programs: &'static [Program], megabytes: u64) -> Component {
    let source = GoSource { stamp: KUBERNETES_STAMP, ..go(KUBERNETES, programs) };
    Component { name, version: "1.37.1", source: Source::Go(source), megabytes }
}

/// All components, in the order in which they are best built: later ones profit from earlier ones.
pub static COMPONENTS: &[Component] = &[
    Component {
        name: "etcd",
        version: "3.7.3",
        source: Source::Go(go(module!("etcd"), &[program("etcd", "go.etcd.io/etcd/server/v3")])),
        megabytes: 700,
    },
    Component {
        name: "runc",
        version: "1.5.2",
        source: Source::Go(GoSource {
            tags: "seccomp",
            ..go(module!("runc"), &[program("runc", "github.com/opencontainers/runc")])
        }),
        megabytes: 300,
    },
    Component {
        name: "containerd",
        version: "2.4.2",
        source: Source::Go(go(
            module!("containerd"),
            &[
                program("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
                program(
                    "containerd-shim-runc-v2",
                    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
                ),
                program("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
            ],
        )),
        megabytes: 1_300,
    },
    kubernetes("kube-apiserver", &[program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver")], 3_500),
    Component {
        name: "api-validation",
        version: "1.37.1",
        // The API server's packages with its flags, so that all but the last link comes from Go's build cache.
        source: Source::Go(go(
            peer!("api-validation", "main.go" "judge.go"),
            &[program("api-validation", ".")],
        )),
        megabytes: 100,
    },
    kubernetes("kubectl", &[program("kubectl", "k8s.io/kubernetes/cmd/kubectl")], 400),
    Component {
        name: "registry",
        version: "3.1.2",
        source: Source::Go(go(
            module!("registry"),
            &[program("registry", "github.com/distribution/distribution/v3/cmd/registry")],
        )),
        megabytes: 1_500,
    },
    kubernetes("kubelet", &[program("kubelet", "k8s.io/kubernetes/cmd/kubelet")], 900),
    kubernetes(
        "kube-controller-manager",
        &[program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager")],
        900,
    ),
    kubernetes("kube-scheduler", &[program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler")], 400),
    kubernetes("kube-proxy", &[program("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy")], 300),
    Component {
        name: "coredns",
        version: "1.15.0",
        // Only the plugins that a cluster's DNS needs: with all of them the build takes the clients of three clouds.
        source: Source::Go(go(peer!("coredns", "main.go"), &[program("coredns", ".")])),
        megabytes: 500,
    },
    Component {
        name: "agnhost",
        version: "1.37.1",
        source: Source::Go(GoSource {
            cgo: "0",
            ..go(KUBERNETES_E2E, &[program("agnhost", "k8s.io/kubernetes/test/images/agnhost")])
        }),
        megabytes: 1_200,
    },
    Component {
        name: "e2e",
        version: "1.37.1",
        source: Source::Go(GoSource {
            stamp: KUBERNETES_STAMP,
            ..go(
                KUBERNETES_E2E,
                &[Program {
                    binary: "e2e.test",
                    package: "k8s.io/kubernetes/test/e2e",
                    recipe: Recipe::TestBinary,
                }],
            )
        }),
        megabytes: 3_000,
    },
    Component {
        name: "runsc",
        version: "20260527",
        source: Source::Go(GoSource {
            cgo: "0",
            ..go(module!("runsc"), &[program("runsc", "gvisor.dev/gvisor/runsc")])
        }),
        megabytes: 1_500,
    },
    Component {
        name: "runsc-shim",
        version: "20260527",
        source: Source::Go(GoSource {
            cgo: "0",
            edits: &[SHIM_SCORE],
            ..go(module!("runsc"), &[program("containerd-shim-runsc-v1", "gvisor.dev/gvisor/shim")])
        }),
        megabytes: 200,
    },
    Component {
        name: "csi-sanity",
        version: "5.6.0",
        source: Source::Go(go(
            module!("csi-sanity"),
            &[program("csi-sanity", "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity")],
        )),
        megabytes: 400,
    },
    Component {
        name: manifests::COMPONENT,
        version: "pinned",
        source: Source::Files(manifests::MODULES),
        megabytes: 400,
    },
    Component {
        name: manifests::POD_SECURITY,
        version: "pinned",
        source: Source::Files(manifests::POD_SECURITY_MODULES),
        megabytes: 50,
    },
    Component {
        name: manifests::KUBELET_TYPES,
        version: "pinned",
        source: Source::Files(manifests::KUBELET_TYPES_MODULES),
        megabytes: 400,
    },
    Component {
        name: "tools",
        version: "debian",
        source: Source::Debian(&[
            ("busybox-static", "busybox"),
            ("bash-static", "bash-static"),
            ("curl", "curl"),
            ("iproute2", "ip"),
            ("iptables", "iptables"),
            ("strace", "strace"),
            ("uidmap", "getsubids"),
            ("gcc", "gcc"),
            ("libc6-dev", "/usr/include/stdio.h"),
            ("pkg-config", "pkg-config"),
            ("libseccomp-dev", "/usr/include/seccomp.h"),
        ]),
        megabytes: 150,
    },
    Component {
        name: "cni",
        version: "debian",
        source: Source::Debian(&[
            ("containernetworking-plugins", "/usr/lib/cni/bridge"),
            ("conntrack", "conntrack"),
            ("socat", "socat"),
            ("ethtool", "ethtool"),
        ]),
        megabytes: 60,
    },
    Component {
        name: "old-pair",
        version: "debian",
        source: Source::Debian(&[("containerd", "/usr/bin/containerd"), ("runc", "/usr/sbin/runc")]),
        megabytes: 150,
    },
    Component {
        name: "podman",
        version: "debian",
        // What it only recommends it needs: for networks, and to hold the namespaces of a pod.
        source: Source::Debian(&[
            ("podman", "podman"),
            ("netavark", "/usr/lib/podman/netavark"),
            ("aardvark-dns", "/usr/lib/podman/aardvark-dns"),
            ("catatonit", "/usr/bin/catatonit"),
        ]),
        megabytes: 200,
    },
    Component { name: "crun", version: "debian", source: Source::Debian(&[("crun", "crun")]), megabytes: 10 },
    Component {
        name: "promtool",
        version: "debian",
        source: Source::Debian(&[("prometheus", "promtool")]),
        megabytes: 200,
    },
];

/// The sets, each with what it adds to the one before; `peers` stands alone.
const SETS: &[(&str, &[&str])] = &[
    (
        "test",
        &[
            "tools",
            "etcd",
            "runc",
            "containerd",
            "kube-apiserver",
            "api-validation",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
            "cni",
            "kubelet",
            "registry",
            "old-pair",
            "crun",
            "promtool",
            "runsc",
            "runsc-shim",
            manifests::COMPONENT,
            manifests::POD_SECURITY,
            manifests::KUBELET_TYPES,
        ],
    ),
    ("node", &["podman", "kube-proxy", "coredns"]),
    ("conformance", &["agnhost", "e2e"]),
];
const PEERS: &[&str] = &[
    "tools",
    "podman",
    "crun",
    "runsc",
    "old-pair",
    "cni",
    "containerd",
    "runc",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kubelet",
];

/// The component of this name.
///
/// # Errors
/// If there is none.
pub fn component(name: &str) -> Result<&'static Component> {
    COMPONENTS.iter().find(|component| component.name == name).ok_or_else(|| Error::Unknown {
        kind: "component",
        name: name.to_owned(),
        known: COMPONENTS.iter().map(|component| component.name).collect::<Vec<_>>().join(", "),
    })
}

/// The components of a set, or the one component of that name, in the order of building.
///
/// # Errors
/// If neither is known.
pub fn select(names: &[String]) -> Result<Vec<&'static Component>> {
    let mut chosen: Vec<&str> = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => chosen.extend(COMPONENTS.iter().map(|component| component.name)),
            "peers" => chosen.extend(PEERS),
            set if SETS.iter().any(|(known, _)| *known == set) => {
                let upto = SETS.iter().position(|(known, _)| *known == set).unwrap_or_default();
                chosen.extend(SETS.iter().take(upto + 1).flat_map(|(_, members)| members.iter().copied()));
            }
            other => chosen.push(component(other)?.name),
        }
    }
    // Debian's tools come first: runc needs libseccomp's headers.
    let (debian, go): (Vec<_>, Vec<_>) = COMPONENTS
        .iter()
        .filter(|component| chosen.contains(&component.name))
        .partition(|component| matches!(component.source, Source::Debian(_)));
    Ok(debian.into_iter().chain(go).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sets: &[&str]) -> Vec<&'static str> {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        select(&sets).expect("known sets").iter().map(|component| component.name).collect()
    }

    #[test]
    fn what_make_test_needs_has_a_whole_cluster_and_no_e2e() {
        let test = names(&["test"]);
        assert!(test.contains(&"kube-apiserver") && test.contains(&"old-pair"));
        assert!(test.contains(&"kubelet") && test.contains(&"cni"));
        assert!(test.contains(&"kube-scheduler") && test.contains(&"kube-controller-manager"));
        assert!(!test.contains(&"e2e"));
    }

    #[test]
    fn each_tier_holds_the_one_before() {
        let (test, node, conformance) = (names(&["test"]), names(&["node"]), names(&["conformance"]));
        assert!(test.iter().all(|name| node.contains(name)));
        assert!(node.iter().all(|name| conformance.contains(name)));
        assert!(conformance.len() > node.len() && node.len() > test.len());
    }

    #[test]
    fn headers_are_installed_before_what_is_built_with_them() {
        let all = names(&["all"]);
        assert_eq!(all.len(), COMPONENTS.len());
        let at = |name| all.iter().position(|known| *known == name);
        assert!(at("tools") < at("runc"));
    }

    #[test]
    fn a_misspelt_component_is_refused_with_the_known_ones() {
        let error = select(&["ectd".to_owned()]).expect_err("no such component");
        assert!(error.to_string().contains("etcd"), "{error}");
    }

    #[test]
    fn every_go_component_pins_its_checksums() {
        for component in COMPONENTS {
            let Source::Go(source) = &component.source else { continue };
            assert!(source.module.go_sum.lines().count() > 5, "{}", component.name);
            assert!(source.module.go_mod.contains("require"), "{}", component.name);
        }
    }
}
