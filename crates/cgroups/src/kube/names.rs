//! Names of the cgroups of pods, for both drivers.

use crate::error::{Error, Result};

const KUBEPODS: &str = "kubepods";
const BURSTABLE: &str = "burstable";
const BEST_EFFORT: &str = "besteffort";
const POD: &str = "pod";
const SLICE: &str = ".slice";

/// The QoS class of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosClass {
    /// Every container has limits for CPU and memory, and equal requests.
    Guaranteed,
    /// At least one container has a request or a limit.
    Burstable,
    /// No container has a request or a limit.
    BestEffort,
}

impl QosClass {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Guaranteed, Self::Burstable, Self::BestEffort];

    /// The component of the class in names of cgroups; pods of class Guaranteed are right below `kubepods`.
    fn component(self) -> Option<&'static str> {
        match self {
            Self::Guaranteed => None,
            Self::Burstable => Some(BURSTABLE),
            Self::BestEffort => Some(BEST_EFFORT),
        }
    }
}

/// How cgroups are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `/kubepods/burstable/pod<uid>`
    Cgroupfs,
    /// `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice`
    Systemd,
}

/// The names of a node's cgroups, as paths from the root of each hierarchy. They are what CRI's `cgroup_parent` has for
/// both drivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeNames {
    form: Form,
    /// Components of the cgroup that `kubepods` is in; none for the root of the hierarchies.
    root: Vec<String>,
}

impl KubeNames {
    /// The names that the cgroupfs driver has below `root` (a kubelet's `cgroupRoot`): a path, or nothing or `/` for the
    /// root of the hierarchies.
    ///
    /// # Errors
    /// [`Error::Path`] if a component of the path is `.` or `..`.
    pub fn cgroupfs(root: &str) -> Result<Self> {
        Self::of(Form::Cgroupfs, root)
    }

    /// The names that the systemd driver has below `root`.
    ///
    /// # Errors
    /// [`Error::Path`] if a component of the path is `.` or `..`.
    pub fn systemd(root: &str) -> Result<Self> {
        Self::of(Form::Systemd, root)
    }

    fn of(form: Form, root: &str) -> Result<Self> {
        let root: Vec<String> = root.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        match root.iter().find(|part| [".", ".."].contains(&part.as_str())) {
            Some(part) => Err(Error::Path { path: part.clone(), why: "cgroupRoot must not contain . or .." }),
            None => Ok(Self { form, root }),
        }
    }

    /// Whether these are names of the systemd driver.
    pub(crate) fn is_systemd(&self) -> bool {
        self.form == Form::Systemd
    }

    /// The cgroup that `kubepods` is in; `None` if that is the root of the hierarchies.
    #[must_use]
    pub fn root(&self) -> Option<String> {
        (!self.root.is_empty()).then(|| self.path(&[]))
    }

    /// The cgroup of all pods.
    #[must_use]
    pub fn kubepods(&self) -> String {
        self.path(&[KUBEPODS])
    }

    /// The cgroup of all pods of a class.
    #[must_use]
    pub fn class(&self, class: QosClass) -> String {
        self.path(&Self::components(class))
    }

    /// The cgroup of a pod.
    #[must_use]
    pub fn pod(&self, class: QosClass, uid: &str) -> String {
        let pod = format!("{POD}{uid}");
        let mut components = Self::components(class);
        components.push(&pod);
        self.path(&components)
    }

    /// The UID of the pod whose cgroup has this name, as the last component of its path in the cgroup of the class.
    #[must_use]
    pub fn pod_uid(&self, class: QosClass, name: &str) -> Option<String> {
        let uid = match self.form {
            Form::Cgroupfs => name.strip_prefix(POD)?.to_owned(),
            Form::Systemd => {
                let above = self.class(class);
                let above = above.rsplit('/').next()?.strip_suffix(SLICE)?;
                let uid = name.strip_suffix(SLICE)?.strip_prefix(above)?.strip_prefix('-')?;
                uid.strip_prefix(POD)?.replace('_', "-")
            }
        };
        (!uid.is_empty()).then_some(uid)
    }

    fn components(class: QosClass) -> Vec<&'static str> {
        [Some(KUBEPODS), class.component()].into_iter().flatten().collect()
    }

    fn path(&self, below: &[&str]) -> String {
        let components = self.root.iter().map(String::as_str).chain(below.iter().copied());
        match self.form {
            Form::Cgroupfs => components.map(|part| format!("/{part}")).collect(),
            Form::Systemd => {
                let (mut path, mut slice) = (String::new(), String::new());
                for part in components {
                    if !slice.is_empty() {
                        slice.push('-');
                    }
                    // A dash in the name of a slice separates it from the slice that it is in.
                    slice.push_str(&part.replace('-', "_"));
                    path.push_str(&format!("/{slice}{SLICE}"));
                }
                path
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0f4d1e6a-22b1-4f0c-9d56-c1a1f1b9d6f0";
    const ESCAPED: &str = "0f4d1e6a_22b1_4f0c_9d56_c1a1f1b9d6f0";
    use QosClass::{BestEffort, Burstable, Guaranteed};

    #[test]
    fn cgroups_have_the_kubelets_names_with_cgroupfs() {
        for (root, above) in [("", ""), ("/", ""), ("/node/a-b", "/node/a-b"), ("/node/", "/node")] {
            let names = KubeNames::cgroupfs(root).unwrap();
            assert_eq!(names.root().unwrap_or_default(), above);
            assert_eq!(names.kubepods(), format!("{above}/kubepods"));
            assert_eq!(names.class(Guaranteed), format!("{above}/kubepods"));
            assert_eq!(names.class(Burstable), format!("{above}/kubepods/burstable"));
            assert_eq!(names.class(BestEffort), format!("{above}/kubepods/besteffort"));
            assert_eq!(names.pod(Guaranteed, UID), format!("{above}/kubepods/pod{UID}"));
            assert_eq!(names.pod(Burstable, UID), format!("{above}/kubepods/burstable/pod{UID}"));
            assert_eq!(names.pod(BestEffort, UID), format!("{above}/kubepods/besteffort/pod{UID}"));
        }
    }

    #[test]
    fn cgroups_have_the_kubelets_names_with_systemd() {
        let names = KubeNames::systemd("/").unwrap();
        let all = "/kubepods.slice";
        assert_eq!((names.root(), names.kubepods().as_str()), (None, all));
        assert_eq!(names.pod(Guaranteed, UID), format!("{all}/kubepods-pod{ESCAPED}.slice"));
        for (class, part) in [(Burstable, "burstable"), (BestEffort, "besteffort")] {
            let tier = format!("{all}/kubepods-{part}.slice");
            assert_eq!(names.class(class), tier);
            assert_eq!(names.pod(class, UID), format!("{tier}/kubepods-{part}-pod{ESCAPED}.slice"));
        }
        let below = KubeNames::systemd("/a-b/c").unwrap();
        assert_eq!(below.root().as_deref(), Some("/a_b.slice/a_b-c.slice"));
        assert_eq!(below.kubepods(), "/a_b.slice/a_b-c.slice/a_b-c-kubepods.slice");
    }

    #[test]
    fn a_pods_uid_is_found_in_its_cgroups_name_and_in_no_other() {
        for names in [KubeNames::cgroupfs("/n").unwrap(), KubeNames::systemd("/n-o").unwrap()] {
            for class in QosClass::ALL {
                let pod = names.pod(class, UID);
                let name = pod.rsplit('/').next().unwrap();
                assert_eq!(names.pod_uid(class, name).as_deref(), Some(UID));
            }
            // The cgroups of the classes are beside the pods of class Guaranteed.
            for class in [Burstable, BestEffort] {
                let name = names.class(class);
                assert_eq!(names.pod_uid(Guaranteed, name.rsplit('/').next().unwrap()), None);
            }
            for other in ["pod", "kubepods-pod.slice", "system.slice", ""] {
                assert_eq!(names.pod_uid(Guaranteed, other), None, "{other}");
            }
        }
        // The slice of a pod of another class, and of another root.
        let names = KubeNames::systemd("").unwrap();
        assert_eq!(names.pod_uid(Guaranteed, &format!("kubepods-burstable-pod{ESCAPED}.slice")), None);
        assert_eq!(names.pod_uid(Guaranteed, &format!("n-kubepods-pod{ESCAPED}.slice")), None);
    }

    #[test]
    fn a_root_that_climbs_is_refused() {
        for root in ["/a/..", "..", "/./a"] {
            assert!(matches!(KubeNames::cgroupfs(root), Err(Error::Path { .. })), "{root}");
        }
    }
}
