use std::path::PathBuf;

use agent::{LogFiles, LogSize};
use clap::{Args, Parser, Subcommand};
use images::Reference;
use ledger::Holder;
use plan::KubernetesVersion;
use wire::Endpoint;

use crate::check::write::PatchFormat;
use crate::output::Format;

const EXIT_CODES: &str = "\
Exit codes:
  0  it holds, or it was done
  1  it does not hold, or it was refused
  2  it could not be found out: wrong usage or configuration, or no access

Answers go to stdout, everything else to stderr.";

/// Runs pods with host user and group IDs that no other pod has.
#[derive(Debug, Parser)]
#[command(name = "wardlet", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Where the ledger is kept
    #[arg(long, global = true, value_name = "DIR", default_value = "/var/lib/wardlet")]
    pub(crate) state_dir: PathBuf,
    /// The root under which the host's /etc, /proc and /var are found
    #[arg(long, global = true, value_name = "DIR", default_value = "/")]
    pub(crate) host_root: PathBuf,
    /// The configuration [default: /etc/wardlet/config.yaml under the host root, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How answers are written
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The host's ID space: who has what, overlaps, leaks
    #[command(subcommand, after_help = EXIT_CODES)]
    Ids(IdsCommand),
    /// What would happen to the pods of these manifests here, and why
    #[command(after_help = examples("wardlet explain pod.yaml\n  wardlet explain manifests/ --kubernetes 1.36\n  kubectl get pods -A -o yaml | wardlet explain - -o json\n  wardlet explain pod.yaml --feature-gates UserNamespacesSupport=false\n\nNothing is started. Exit code 1 if a pod would be refused, 2 if a manifest cannot be understood."))]
    Explain(ExplainArgs),
    /// Whether this node can give pods user namespaces: each need tried, each failure with cause and fix
    #[command(after_help = examples("wardlet doctor\n  wardlet doctor -o json | jq '.checks[] | select(.holds | not)'\n  wardlet doctor --runtime-endpoint unix:///run/containerd/containerd.sock\n\nNothing is left of what is tried. Exit code 1 if something that pods need does not hold, 2 if nothing fails but\nsomething could not be found out, as without root."))]
    Doctor(DoctorArgs),
    /// Proof on the live node that every pod has its IDs, files and namespaces to itself
    #[command(after_help = examples("wardlet verify\n  wardlet verify default/web -o json | jq .violations\n  wardlet verify --runtime-endpoint unix:///run/containerd/containerd.sock\n  wardlet verify --watch=10\n\nWhat is seen from outside counts: /proc, namespaces, mounts and owners of files. It works without our ledger, and\non a node with only kubelet and containerd. Pods with the host's users are listed and are no violation unless\nthey asked for a user namespace. A violation counts if two looks in a row show it. Exit code 1 if there is any,\n2 if there is none but something could not be seen, as without root. Mounts are looked at from the root of each\nmount namespace, also those that others cover; a pod none of whose mounts was looked at, and a sandbox that is\nready and has no process, count as not seen."))]
    Verify(VerifyArgs),
    /// Images of the built-in runtime
    #[command(after_help = EXIT_CODES)]
    Image(ImageArgs),
    /// Runs pods here and now, each with host IDs of its own where it asks for them
    #[command(after_help = examples("wardlet run pod.yaml\n  wardlet run manifests/ --isolate\n  wardlet run pod.yaml --detach\n  wardlet run pod.yaml --runtime-endpoint unix:///run/containerd/containerd.sock\n\nConfigMaps and Secrets are taken from the same files, and what changes in them is seen inside. Ctrl-C ends all\npods, a second one hurries. The exit code is that of the first container that failed; 1 if a pod was refused, 2\nif a manifest cannot be understood, 130 after Ctrl-C. A pod that a killed process has left is taken over."))]
    Run(RunArgs),
    /// Pods that run here: state, host IDs, address
    #[command(after_help = examples("wardlet ps\n  wardlet ps -o json | jq '.[].uidMappings'"))]
    Ps,
    /// What a pod's containers print
    #[command(after_help = examples("wardlet logs web\n  wardlet logs web -c app -f"))]
    Logs(LogsArgs),
    /// Runs a command in a container of a pod, to its end
    #[command(after_help = examples("wardlet exec web -- cat /proc/self/uid_map\n  wardlet exec web -c app -- id\n  wardlet exec -it web -- sh\n  wardlet exec -i web -- sh -c 'cat > /scratch/file' < file\n\nThe exit code is the command's."))]
    Exec(ExecArgs),
    /// Ends pods and removes them
    #[command(after_help = examples("wardlet stop web\n  wardlet stop web db --grace 5\n  wardlet stop --all"))]
    Stop(StopArgs),
    /// The built-in runtime on a socket, for a kubelet or crictl
    #[command(after_help = examples("wardlet cri\n  wardlet cri --engine /usr/sbin/runc --network none\n  wardlet cri --listen unix:///run/test/cri.sock --state-dir /var/lib/test --run-dir /run/test\n  kubelet --container-runtime-endpoint unix:///run/wardlet/cri.sock ...\n\nIt serves until it is told to end (SIGTERM, Ctrl-C) and logs to stderr, one line per event.\nPods go on without it; the next one on the same directories takes them over. The socket is\nprinted when it serves."))]
    Cri(CriArgs),
    /// Which workloads can have user namespaces, and which volumes conflict after an upgrade
    #[command(after_help = examples("wardlet check manifests/\n  kubectl get pods,deploy,sts,ds,rs,jobs,cronjobs,pv,pvc,csidrivers,sc,runtimeclasses,nodes -A -o json | wardlet check -\n  wardlet check dump/ --to 1.37 --gate\n  wardlet check --cluster --to 1.37 -o html > report.html\n  wardlet check dump/ --write-patches patches --patch-format kustomize\n\nNothing is changed. With --gate, exit code 1 if the upgrade would break something, and 2 if it\nwould not as far as can be seen but not everything could be read. Without, 2 only if nothing\ncould be read."))]
    Check(CheckArgs),
    /// The configuration in effect, every default included, and the pool that follows from it
    #[command(after_help = examples("wardlet config\n  wardlet config > /etc/wardlet/config.yaml\n  wardlet config -o json --config new.yaml"))]
    Config,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IdsCommand {
    /// Give a holder a block of host IDs; asked again, the same one
    #[command(after_help = examples("wardlet ids lease web\n  wardlet ids lease db --ids 131072 --place /srv/db\n  wardlet ids lease job-1 --shared batch -o json"))]
    Lease(LeaseArgs),
    /// Give back what a holder has; the block is free once nothing uses it and it has rested
    #[command(after_help = examples("wardlet ids release web\n  wardlet ids release job-1 -o json"))]
    Release {
        /// Who gives back
        holder: Holder,
    },
    /// Every block that is not free, and a picture of the ID space
    #[command(after_help = examples("wardlet ids list\n  wardlet ids list -o json | jq '.[].holder'"))]
    List,
    /// What IDs inside a holder's user namespace are on the host, or the reverse
    #[command(after_help = examples("wardlet ids translate web --uid 1000 --gid 1000\n  wardlet ids translate web --uid 66536 --reverse\n\nAn ID that is not mapped: exit code 1, never a number."))]
    Translate(TranslateArgs),
    /// Who has, uses or claims a host ID; exit code 1 if nobody
    #[command(after_help = examples("wardlet ids owner 66536\n  wardlet ids owner 66536 -o json"))]
    Owner {
        /// The ID as the host sees it
        host_id: u64,
    },
    /// Everybody on the host who has IDs, with overlaps and leaks; exit code 1 if there are any
    #[command(after_help = examples("wardlet ids audit\n  wardlet ids audit -o json | jq .findings\n\nNeeds no ledger: a node with only kubelet and containerd can be audited.\nExit code 2 if nothing wrong was seen but not everything could be seen."))]
    Audit,
    /// Free what is vacant, and say what keeps the rest
    #[command(after_help = examples("wardlet ids gc --dry-run\n  wardlet ids gc --earlier-boots\n  wardlet ids gc --unpin 65536"))]
    Gc(GcArgs),
    /// Take over the blocks that a kubelet gave to its pods
    #[command(after_help = examples("wardlet ids import /var/lib/kubelet --dry-run\n  wardlet ids import /var/lib/kubelet"))]
    Import {
        /// The kubelet's root directory, or its pods directory
        dir: PathBuf,
        /// Only say what would be taken over
        #[arg(long)]
        dry_run: bool,
    },
    /// Hand blocks back to a kubelet: write the record of every lease whose pod it knows
    #[command(after_help = examples("wardlet ids export /var/lib/kubelet\n  wardlet ids export /var/lib/kubelet -o json"))]
    Export {
        /// The kubelet's root directory, or its pods directory
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    pub(crate) command: ImageCommand,
    /// How registries are reached, and limits [default: /etc/wardlet/registries.yaml, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) registries: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Take in the images of a file or directory: an OCI layout, or an archive as docker and podman save them
    #[command(after_help = examples("wardlet image import app.tar\n  wardlet image import layout/ --name registry.example/app:1\n  podman save app | wardlet image import /dev/stdin\n\nArchives may be compressed with gzip or zstd."))]
    Import {
        /// An archive, or a directory with an OCI layout
        #[arg(value_name = "FILE|DIR")]
        file: PathBuf,
        /// Its name, instead of the one that it has there
        #[arg(long, value_name = "REF")]
        name: Option<Reference>,
    },
    /// Fetch an image from its registry, or from a mirror
    #[command(after_help = examples("wardlet image pull registry.k8s.io/pause:3.10\n  wardlet image pull registry.example/app:1 --auth-file ~/.docker/config.json\n  wardlet image pull registry.example/app:1 --user robot < password\n\nWhat was fetched before it broke off is not fetched again."))]
    Pull(PullArgs),
    /// Every image, with its size and the highest IDs that its files belong to
    #[command(after_help = examples("wardlet image list\n  wardlet image list -o json | jq '.[].names'"))]
    List,
    /// Take a name away; with its last name the image goes
    #[command(after_help = examples("wardlet image rm registry.example/app:1\n  wardlet image rm 3f2a91c0d4e5"))]
    Rm {
        /// A name, an ID, or the first digits of one
        #[arg(value_name = "REF")]
        name: String,
    },
    /// Remove images that have no name and are not used, layers of no image, and broken-off downloads
    #[command(after_help = examples("wardlet image gc\n  wardlet image gc -o json"))]
    Gc,
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Which image: [REGISTRY/]PATH[:TAG][@DIGEST]
    #[arg(value_name = "REF")]
    pub(crate) reference: Reference,
    /// Credentials, as docker and podman write them
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    /// Log in as this user; the password is read from standard input
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Manifests, directories of manifests, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Facts of another node, in YAML or JSON, instead of this one's
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Feature gates that are not at their default: A=true,B=false
    #[arg(long, value_name = "GATES")]
    pub(crate) feature_gates: Vec<String>,
    /// The Kubernetes version whose gates' defaults hold
    #[arg(long, value_name = "VERSION", default_value_t = KubernetesVersion::NEWEST)]
    pub(crate) kubernetes: KubernetesVersion,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The CRI socket of the container runtime [default: the first that listens at
    /// /run/containerd/containerd.sock, /run/crio/crio.sock or /run/k3s/containerd/containerd.sock]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) runtime_endpoint: Option<Endpoint>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this pod: NAME, NAMESPACE/NAME or UID
    pub(crate) pod: Option<String>,
    /// The CRI socket of the container runtime, for the names of pods and what they asked for [default: all that
    /// listen in the usual places]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) runtime_endpoint: Option<Endpoint>,
    /// Look again every so many seconds and show only what changed [default: 5]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "5",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) watch: Option<u32>,
    /// How many files and directories of each mount are looked at, the uppermost first
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) files: usize,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Manifests, dumps, directories of them with all below, or - for standard input
    #[arg(required_unless_present = "cluster", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The objects of a live cluster, with read rights alone; paths are then looked at together with it
    #[arg(long)]
    pub(crate) cluster: bool,
    /// The kubeconfig for --cluster [default: KUBECONFIG, ~/.kube/config, or a pod's service account]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context for --cluster [default: its current one]
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pub(crate) context: Option<String>,
    /// With --cluster, only this namespace
    #[arg(short, long, value_name = "NAME", requires = "cluster")]
    pub(crate) namespace: Option<String>,
    /// The Kubernetes version before the upgrade [default: the one before --to]
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<KubernetesVersion>,
    /// The Kubernetes version after the upgrade
    #[arg(long, value_name = "VERSION", default_value_t = KubernetesVersion::NEWEST)]
    pub(crate) to: KubernetesVersion,
    /// Feature gates that are not at their default after the upgrade: A=true,B=false
    #[arg(long, value_name = "GATES")]
    pub(crate) feature_gates: Vec<String>,
    /// Facts of a node, as `wardlet explain -o json` shows them, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Exit with 1 if the upgrade would break something
    #[arg(long)]
    pub(crate) gate: bool,
    /// Write patches into this directory; nothing is applied
    #[arg(long, value_name = "DIR")]
    pub(crate) write_patches: Option<PathBuf>,
    /// How patches are written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "kubectl")]
    pub(crate) patch_format: PatchFormat,
}

#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Manifests, directories of manifests, or - for standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The CRI socket of containerd or CRI-O [default: the built-in runtime]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) runtime_endpoint: Option<Endpoint>,
    /// Give host IDs of their own to all pods that lose nothing by it, and say which were left
    #[arg(long)]
    pub(crate) isolate: bool,
    /// Leave the pods to a process in the background once they are up
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Whether everything of a pod but its images is removed at its end
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) rm: bool,
    /// Print no logs
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Also say what the built-in runtime does
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Rotate a container's log when it has this size
    #[arg(long, value_name = "SIZE", default_value_t)]
    pub(crate) container_log_max_size: LogSize,
    /// Keep at most as many files of a container's log, from 2 on
    #[arg(long, value_name = "N", default_value_t)]
    pub(crate) container_log_max_files: LogFiles,
    /// Where sockets and pinned namespaces are kept; gone with a reboot, and short
    #[arg(long, value_name = "DIR", default_value = "/run/wardlet")]
    pub(crate) run_dir: PathBuf,
    /// Where wardlet-container and wardlet-monitor are [default: beside this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// Write what runtime and kernel are asked for to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub(crate) calls: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The pod: its name, namespace/name or UID
    pub(crate) pod: String,
    /// Only this container
    #[arg(short, long, value_name = "NAME")]
    pub(crate) container: Option<String>,
    /// Go on until the pod ends
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The pod: its name, namespace/name or UID
    pub(crate) pod: String,
    /// In this container [default: the pod's first]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) container: Option<String>,
    /// Pass standard input on
    #[arg(short = 'i', long)]
    pub(crate) stdin: bool,
    /// Give the command a terminal
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The pods: name, namespace/name or UID
    #[arg(required_unless_present = "all", value_name = "POD")]
    pub(crate) pods: Vec<String>,
    /// All pods that run here
    #[arg(long, conflicts_with = "pods")]
    pub(crate) all: bool,
    /// Seconds from being asked to end to being killed [default: the pod's own]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace: Option<u64>,
    /// Where the built-in runtime keeps its sockets
    #[arg(long, value_name = "DIR", default_value = "/run/wardlet")]
    pub(crate) run_dir: PathBuf,
    /// Where wardlet-container and wardlet-monitor are [default: beside this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CriArgs {
    /// The socket that it serves on
    #[arg(long, value_name = "ENDPOINT", default_value = "unix:///run/wardlet/cri.sock")]
    pub(crate) listen: Endpoint,
    /// Where sockets and pinned namespaces are kept; gone with a reboot, and short
    #[arg(long, value_name = "DIR", default_value = "/run/wardlet")]
    pub(crate) run_dir: PathBuf,
    /// What starts containers: libcontainer, which is built in, or the path of an OCI runtime
    #[arg(long, value_name = "ENGINE", default_value = "libcontainer")]
    pub(crate) engine: String,
    /// Who makes the pods' network
    #[arg(long, value_enum, value_name = "KIND", default_value = "bridge")]
    pub(crate) network: NetworkKind,
    /// The bridge's name
    #[arg(long, value_name = "NAME", default_value = network::BRIDGE)]
    pub(crate) bridge_name: String,
    /// The pods' addresses, IPv4 or both, as 10.1.2.0/24,fd00:1:2::/64 [default: the kubelet's pod CIDR, else
    /// 10.244.77.0/24]
    #[arg(long, value_name = "SUBNETS")]
    pub(crate) bridge_subnet: Option<network::Subnets>,
    /// Where CNI's configuration is; the first file by name counts
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    pub(crate) cni_conf_dir: PathBuf,
    /// Where CNI's plugins are; may be given several times
    #[arg(long = "cni-bin-dir", value_name = "DIR", default_values = ["/opt/cni/bin", "/usr/lib/cni"])]
    pub(crate) cni_bin_dirs: Vec<PathBuf>,
    /// Where exec, attach and port-forward are served, without TLS; port 0 is any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) streaming_address: std::net::SocketAddr,
    /// The control group above pods that come without one; what is in it and unknown is removed
    #[arg(long, value_name = "PATH", default_value = "/wardlet")]
    pub(crate) cgroup: String,
    /// How an image's files become a pod's own
    #[arg(long, value_enum, value_name = "HOW", default_value = "idmap")]
    pub(crate) owners: OwnersHow,
    /// Where wardlet-container and wardlet-monitor are [default: beside this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// How registries are reached, and limits [default: /etc/wardlet/registries.yaml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) registries: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NetworkKind {
    /// A bridge of our own: an address for each pod, no outside tool
    Bridge,
    /// CNI plugins
    Cni,
    /// Loopback only
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OwnersHow {
    /// Seen through the pod's maps, or the container does not start
    Idmap,
    /// Seen through the pod's maps; given to the pod where the filesystem cannot do that
    IdmapOrChown,
    /// Given to the pod, file by file, in the container's own layer
    Chown,
}

#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// Who gets the block: a pod's UID, or a name of your choice
    pub(crate) holder: Holder,
    /// How many IDs [default: userNamespaces.idsPerPod]
    #[arg(long, value_name = "N")]
    pub(crate) ids: Option<u64>,
    /// Join the block of this name, which all who join it share
    #[arg(long, value_name = "NAME", conflicts_with = "write_record")]
    pub(crate) shared: Option<Holder>,
    /// The lease ends with this boot, released or not
    #[arg(long)]
    pub(crate) until_reboot: bool,
    /// A file or directory that these IDs will own; while it exists, the block is not free
    #[arg(long = "place", value_name = "PATH")]
    pub(crate) places: Vec<PathBuf>,
    /// With a pair of SELinux categories that no other lease has
    #[arg(long)]
    pub(crate) categories: bool,
    /// Also write the kubelet's record of the pod
    #[arg(long)]
    pub(crate) write_record: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TranslateArgs {
    /// Whose user namespace
    pub(crate) holder: Holder,
    /// A user ID
    #[arg(long, value_name = "N")]
    pub(crate) uid: Option<u64>,
    /// A group ID
    #[arg(long, value_name = "N")]
    pub(crate) gid: Option<u64>,
    /// From host IDs to those inside
    #[arg(long)]
    pub(crate) reverse: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Release leases of earlier boots that nothing uses or claims and that have nothing on disk
    #[arg(long)]
    pub(crate) earlier_boots: bool,
    /// Send the pinned block that starts at this host ID on its way to being free
    #[arg(long, value_name = "HOST_ID")]
    pub(crate) unpin: Vec<u32>,
}

fn examples(commands: &str) -> String {
    format!("Examples:\n  {commands}")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_word_of_the_command_line_is_in_order() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples_in_its_help() {
        let ids = Cli::command();
        let ids = ids.find_subcommand("ids").unwrap();
        for command in ids.get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.matches("\n  wardlet ids ").count() >= 2, "{}: {help}", command.get_name());
        }
        let image = Cli::command();
        for command in image.find_subcommand("image").unwrap().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.matches("\n  wardlet image ").count() >= 2, "{}: {help}", command.get_name());
        }
    }
}
