//! Published manifests of other projects, for the test of what `wardlet check` says about them, and upstream's fixtures
//! of the Pod Security Standards; and the Go files that define the kubelet's configuration, flags and feature gates.
//!
//! None of them is in this repository. Each is a file or a directory of a Go module; `testbed install public-manifests
//! pod-security-fixtures kubelet-types` takes it out of the module and into the cache, unchanged. The tables name modules, versions,
//! paths and digests, and nothing else decides which bytes a test reads.

use std::fs;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

use crate::cache::{self, hex};
use crate::catalogue::component;
use crate::{Error, Result};

/// The component that the published manifests are installed as.
pub const COMPONENT: &str = "public-manifests";
/// The component that the pods of upstream's tests of the Pod Security Standards are installed as.
pub const POD_SECURITY: &str = "pod-security-fixtures";
/// The component that the definitions of the kubelet's configuration are installed as.
pub const KUBELET_TYPES: &str = "kubelet-types";

/// A Go module that files are taken from.
#[derive(Debug)]
pub struct Module {
    /// Its path.
    pub path: &'static str,
    /// Its version, with the `v`.
    pub version: &'static str,
    /// What is taken from it.
    pub files: &'static [ModuleFile],
}

/// One file of a Go module, or a directory with all files below it.
#[derive(Debug)]
pub struct ModuleFile {
    /// Its name in the cache.
    pub name: &'static str,
    /// Its path in the module.
    pub path: &'static str,
    /// SHA-256 in lower-case hexadecimal: of a file's content, or of a directory's list of files, which has a line
    /// for each, sorted by path: its SHA-256, two spaces, its path.
    pub sha256: &'static str,
}

impl ModuleFile {
    /// Checks that `path` holds what the table names.
    ///
    /// # Errors
    /// [`Error::Digest`] with the module, the path and both digests; or what cannot be read.
    pub(crate) fn verify(&self, module: &Module, path: &Path) -> Result<()> {
        let content = if path.is_dir() {
            listing(path)?.into_bytes()
        } else {
            fs::read(path).map_err(Error::file("read", path))?
        };
        let found = hex(digest(&SHA256, &content).as_ref());
        if found == self.sha256 {
            return Ok(());
        }
        Err(Error::Digest {
            module: format!("{}@{}", module.path, module.version),
            path: self.path.to_owned(),
            expected: self.sha256.to_owned(),
            found,
        })
    }
}

/// The paths of all files below `directory`, relative to it and sorted.
pub(crate) fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).map_err(Error::file("read", &next))? {
            let path = entry.map_err(Error::file("read", &next))?.path();
            if path.is_dir() {
                left.push(path);
            } else if let Ok(relative) = path.strip_prefix(directory) {
                found.push(relative.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A directory as its digest sees it.
fn listing(directory: &Path) -> Result<String> {
    let line = |path: PathBuf| {
        let whole = directory.join(&path);
        let content = fs::read(&whole).map_err(Error::file("read", whole))?;
        Ok(format!("{}  {}\n", hex(digest(&SHA256, &content).as_ref()), path.display()))
    };
    files_below(directory)?.into_iter().map(line).collect()
}

/// The directory with all manifests, each verified against its digest.
///
/// # Errors
/// If the component is not installed, or a file in the cache has another digest than the table says.
pub fn directory() -> Result<PathBuf> {
    verified(COMPONENT, MODULES)
}

/// The directory with upstream's fixtures of the Pod Security Standards, verified against their digest. A pod's path is
/// `LEVEL/vVERSION/pass/NAME.yaml`, or `fail` in place of `pass`.
///
/// # Errors
/// As [`directory`].
pub fn pod_security_fixtures() -> Result<PathBuf> {
    Ok(verified(POD_SECURITY, POD_SECURITY_MODULES)?.join("pods"))
}

/// The directory with the Go files that define the kubelet's configuration, its flags and the feature gates, verified
/// against their digests; [`KUBELET_TYPES_MODULES`] has their names.
///
/// # Errors
/// As [`directory`].
pub fn kubelet_types() -> Result<PathBuf> {
    verified(KUBELET_TYPES, KUBELET_TYPES_MODULES)
}

fn verified(name: &str, modules: &[Module]) -> Result<PathBuf> {
    let component = component(name)?;
    let missing = |file: &str| Error::NotInstalled {
        binary: file.to_owned(),
        component: name.to_owned(),
        version: component.version.to_owned(),
    };
    let files = cache::directory(component).ok_or_else(|| missing(name))?.join("files");
    for module in modules {
        verify(module, &files, missing)?;
    }
    Ok(files)
}

fn verify(module: &Module, files: &Path, missing: impl Fn(&str) -> Error) -> Result<()> {
    for file in module.files {
        let path = files.join(file.name);
        if !path.exists() {
            return Err(missing(file.name));
        }
        file.verify(module, &path)?;
    }
    Ok(())
}

/// The evaluator's own tests: for each level and version, pods that pass and pods that fail.
pub static POD_SECURITY_MODULES: &[Module] = &[Module {
    path: "k8s.io/pod-security-admission",
    version: "v0.37.1",
    files: &[ModuleFile {
        name: "pods",
        path: "test/testdata",
        sha256: "6a6a394a0bb0839bc85aeb343c3c9754f620bdda330e7c497f85bffa967cbc1d",
    }],
}];

/// The type KubeletConfiguration with the types of its fields, its defaults, the flags, and the list of feature gates.
pub static KUBELET_TYPES_MODULES: &[Module] = &[
    Module {
        path: "k8s.io/kubelet",
        version: "v0.37.1",
        files: &[ModuleFile {
            name: "config.go",
            path: "config/v1beta1/types.go",
            sha256: "3abd4719f96df831bd96177306ac1d4a735fd9b4bf08dd164d05d5517ab0b532",
        }],
    },
    Module {
        path: "k8s.io/component-base",
        version: "v0.37.1",
        files: &[
            ModuleFile {
                name: "logging.go",
                path: "logs/api/v1/types.go",
                sha256: "29676adfac2648808bae66fc05ec5e85c55fe49e00b6585714bb7f0001a6ed93",
            },
            ModuleFile {
                name: "logging-flags.go",
                path: "logs/api/v1/options.go",
                sha256: "bb98a81156d67aa0280191e5e1edf15ccc91bdef646863eb56ad04ee171f246a",
            },
            ModuleFile {
                name: "tracing.go",
                path: "tracing/api/v1/types.go",
                sha256: "3ec3932832e539b2b8fa1aa1fc148f18b290e40c23d87e04c624b0d529fe3b37",
            },
        ],
    },
    Module {
        path: "k8s.io/api",
        version: "v0.37.1",
        files: &[ModuleFile {
            name: "core.go",
            path: "core/v1/types.go",
            sha256: "64b70c914fe25eba63bfb325401a551bbd0871e37eb7fd9b9878283a53e6e062",
        }],
    },
    Module {
        path: "k8s.io/kubernetes",
        version: "v1.37.1",
        files: &[
            ModuleFile {
                name: "defaults.go",
                path: "pkg/kubelet/apis/config/v1beta1/defaults.go",
                sha256: "e92bb04df3750111d64ddfac4859298bde0330206ef4ffea7a77fc74066ab6bb",
            },
            ModuleFile {
                name: "flags.go",
                path: "cmd/kubelet/app/options/options.go",
                sha256: "552b3cbaf098da7ef3e897671979119323268c3b35e7bdcb8cb518ea29d0ef16",
            },
            ModuleFile {
                name: "feature-gates.yaml",
                path: "test/compatibility_lifecycle/reference/versioned_feature_list.yaml",
                sha256: "16884579eec1804d882401cb4fc37b9e3a24805ecc1f517c26bbe9086f1e5549",
            },
        ],
    },
];

/// Small modules, and Kubernetes itself, which other components are built from.
pub static MODULES: &[Module] = &[
    Module {
        path: "k8s.io/kubernetes",
        version: "v1.37.1",
        files: &[
            ModuleFile {
                name: "cassandra.yaml",
                path: "test/e2e/testing-manifests/statefulset/cassandra/statefulset.yaml",
                sha256: "be2233d99cd012ccf187259d46380f03b677153342fa4a5e8b3be3bd0ea6952c",
            },
            ModuleFile {
                name: "csi-hostpath-driverinfo.yaml",
                path: "test/e2e/testing-manifests/storage-csi/hostpath/hostpath/csi-hostpath-driverinfo.yaml",
                sha256: "464307265464b77189bd4b339774cd2de69589458a62a740028b248f248c7e9a",
            },
            ModuleFile {
                name: "csi-hostpath-plugin.yaml",
                path: "test/e2e/testing-manifests/storage-csi/hostpath/hostpath/csi-hostpath-plugin.yaml",
                sha256: "c04e3c63bb1b54c592a484ab5e4d9ab02980264534e9d6dc6fd17af71c5060d3",
            },
            ModuleFile {
                name: "csi-mock-driver.yaml",
                path: "test/e2e/testing-manifests/storage-csi/mock/csi-mock-driver.yaml",
                sha256: "bc10ba02d19071e6f460402f6454388e850db33d12e25204f4c20756394b945e",
            },
            ModuleFile {
                name: "gce-pd-node.yaml",
                path: "test/e2e/testing-manifests/storage-csi/gce-pd/node_ds.yaml",
                sha256: "a1137fafb4377dcac7e36408ac7c1be497574f53586634816e7ffb81ff519139",
            },
            ModuleFile {
                name: "hello-populator.yaml",
                path: "test/e2e/testing-manifests/storage-csi/any-volume-datasource/hello-populator-deploy.yaml",
                sha256: "08ea46a76016c623c114f822ee1e598bfb2369dc7c3b302389bc05beba8ce492",
            },
            ModuleFile {
                name: "ip-masq-agent.yaml",
                path: "cluster/addons/ip-masq-agent/ip-masq-agent.yaml",
                sha256: "134b3958032c2ef391ccafbdb63a50afa3f3ce70eaabc9c5d707bd4a5f6a117e",
            },
            ModuleFile {
                name: "kube-network-policies.yaml",
                path: "cluster/addons/kube-network-policies/kube-network-policies.yaml",
                sha256: "69e763ba99442d7f36a0a9393e58a4d139c18bd0b99d41601e5fe2726392f950",
            },
            ModuleFile {
                name: "mysql-upgrade.yaml",
                path: "test/e2e/testing-manifests/statefulset/mysql-upgrade/statefulset.yaml",
                sha256: "408de0b9b78b773b6e13a43dce214513210c32499e6f2bfa571adb0b3aa526c7",
            },
            ModuleFile {
                name: "nvidia-gpu-device-plugin.yaml",
                path: "test/e2e/testing-manifests/gpu/gce/nvidia-gpu-device-plugin.yaml",
                sha256: "1cfe44d33a9d51c65082ee9e2ccbfa5d4247d31ccbf2cadf1c130deedc093643",
            },
            ModuleFile {
                name: "sample-device-plugin.yaml",
                path: "test/e2e/testing-manifests/sample-device-plugin/sample-device-plugin.yaml",
                sha256: "1cd34905d1544ea8746fdb306401a3595bd826e981a8f0fc4cb4d1e0b79c44b6",
            },
            ModuleFile {
                name: "volume-snapshot-controller.yaml",
                path: "cluster/addons/volumesnapshots/volume-snapshot-controller/volume-snapshot-controller-deployment.yaml",
                sha256: "bd5364117513ea7df92e8337ac75df0912cda5bf6db9c06aced317c942f3d8a5",
            },
        ],
    },
    Module {
        path: "github.com/google/cadvisor",
        version: "v0.60.6",
        files: &[ModuleFile {
            name: "cadvisor.yaml",
            path: "deploy/kubernetes/base/daemonset.yaml",
            sha256: "f5a0652ae1914b94440d0dfc1e3760d26cc01a9c4dba34693019e563faa3ebeb",
        }],
    },
    Module {
        path: "github.com/projectcalico/calico",
        version: "v1.11.0-cni-plugin.0.20250813170300-a0db560f0520",
        files: &[ModuleFile {
            name: "calico.yaml",
            path: "manifests/calico.yaml",
            sha256: "206678e7adb2e931bb97385300c408490635616f371941d68468207d6e0f9713",
        }],
    },
    Module {
        path: "github.com/prometheus-operator/prometheus-operator",
        version: "v0.85.0",
        files: &[ModuleFile {
            name: "prometheus-operator.yaml",
            path: "example/rbac/prometheus-operator/prometheus-operator-deployment.yaml",
            sha256: "aa1c9930cd7d1d5cec43b74b14bd99109b54c2bbf9fb26ea8a4a82598ef0d39c",
        }],
    },
    Module {
        path: "github.com/rancher/local-path-provisioner",
        version: "v0.0.30",
        files: &[
            ModuleFile {
                name: "local-path-provisioner.yaml",
                path: "deploy/local-path-storage.yaml",
                sha256: "fe682186b00400fe7e2b72bae16f63e47a56a6dcc677938c6642139ef670045e",
            },
            ModuleFile {
                name: "local-path-shared-fs.yaml",
                path: "examples/shared-fs/deployment.yaml",
                sha256: "3b50a220178deabc017856ad033036c29c6168fe3d380462860a729680055660",
            },
        ],
    },
    Module {
        path: "k8s.io/ingress-nginx",
        version: "v0.0.0-20240708192948-52c50467d67d",
        files: &[ModuleFile {
            name: "ingress-nginx.yaml",
            path: "deploy/static/provider/baremetal/deploy.yaml",
            sha256: "e2cb62f3b871841ca60cd5a1c3cc5f9951253523166e935300a9b32c1d035f60",
        }],
    },
    Module {
        path: "sigs.k8s.io/descheduler",
        version: "v0.36.0",
        files: &[ModuleFile {
            name: "descheduler.yaml",
            path: "kubernetes/cronjob/cronjob.yaml",
            sha256: "316f10eda883dbadffa75dd8ffc43398a4bf070a5db033bbf43b3d391d036d2a",
        }],
    },
    Module {
        path: "sigs.k8s.io/metrics-server",
        version: "v0.9.0",
        files: &[ModuleFile {
            name: "metrics-server.yaml",
            path: "manifests/base/deployment.yaml",
            sha256: "18970227f17d0c6cb8e7a4a1cdde847117703afd3b0777badf8a006cfea252c2",
        }],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_manifest_has_a_name_of_its_own_a_path_in_its_module_and_a_digest() {
        let mut names = BTreeSet::new();
        let modules = MODULES.iter().chain(POD_SECURITY_MODULES).chain(KUBELET_TYPES_MODULES);
        for file in modules.flat_map(|module| module.files) {
            assert!(names.insert(file.name), "{} is there twice", file.name);
            assert!(!file.path.starts_with('/') && !file.path.contains(".."), "{}", file.path);
            let digits = file.sha256.bytes().filter(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            assert_eq!((file.sha256.len(), digits.count()), (64, 64), "{}", file.name);
        }
    }

    #[test]
    fn another_content_is_refused_with_module_path_and_both_digests() {
        // The digest of nothing.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let file = ModuleFile { name: "one.yaml", path: "deploy/one.yaml", sha256: empty };
        let module = Module { path: "example.com/one", version: "v1.2.3", files: &[] };
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("one.yaml");
        fs::write(&path, "").expect("write");
        file.verify(&module, &path).expect("the content of the table");
        fs::write(&path, "abc").expect("write");
        match file.verify(&module, &path).expect_err("another content") {
            Error::Digest { module, path, expected, found } => {
                assert_eq!((module.as_str(), path.as_str()), ("example.com/one@v1.2.3", "deploy/one.yaml"));
                assert_eq!(expected, empty);
                assert_eq!(found, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn the_digest_of_a_directory_changes_with_a_content_a_name_and_a_file_more() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two) = (dir.path().join("b/one.yaml"), dir.path().join("a.yaml"));
        fs::create_dir(dir.path().join("b")).expect("a directory");
        fs::write(&one, "").expect("write");
        fs::write(&two, "abc").expect("write");
        let list = listing(dir.path()).expect("a list");
        let names: Vec<&str> = list.lines().filter_map(|line| line.split("  ").nth(1)).collect();
        assert_eq!(names, ["a.yaml", "b/one.yaml"]);
        let mut seen = BTreeSet::from([list]);
        fs::write(&one, "x").expect("write");
        assert!(seen.insert(listing(dir.path()).expect("another content")));
        fs::rename(&two, dir.path().join("c.yaml")).expect("rename");
        assert!(seen.insert(listing(dir.path()).expect("another name")));
        fs::write(dir.path().join("b/two.yaml"), "").expect("write");
        assert!(seen.insert(listing(dir.path()).expect("a file more")));
    }

    #[test]
    fn a_manifest_that_is_missing_or_changed_in_the_cache_is_an_error() {
        let module = MODULES.first().expect("modules");
        let name = module.files.first().expect("files").name;
        let missing = |name: &str| Error::Absent { name: name.to_owned() };
        let cache = tempfile::tempdir().expect("a directory");
        assert!(
            matches!(verify(module, cache.path(), missing), Err(Error::Absent { name: found }) if found == name)
        );
        fs::write(cache.path().join(name), "apiVersion: v1\n").expect("write");
        assert!(matches!(verify(module, cache.path(), missing), Err(Error::Digest { .. })));
    }
}
