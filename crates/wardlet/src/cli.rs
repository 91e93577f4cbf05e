use std::path::PathBuf;

use agent::{LogFiles, LogSize};
use clap::{Args, Parser, Subcommand};
use cri::Endpoint;
use images::Reference;
use ledger::Holder;
use node::GateFlags;
use plan::KubernetesVersion;

use crate::log::LogArgs;
use crate::output::Format;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or the check passed
  1  the check failed, or the request was refused
  2  not determined: wrong usage or configuration, or no access

Results go to stdout, everything else to stderr.";

/// Run pods with host user and group IDs that no other pod has.
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
    /// Directory of the ledger
    #[arg(long, global = true, value_name = "DIR", default_value = "/var/lib/wardlet")]
    pub(crate) state_dir: PathBuf,
    /// Root directory of the host: its /etc, /proc and /var are read below it
    #[arg(long, global = true, value_name = "DIR", default_value = "/")]
    pub(crate) host_root: PathBuf,
    /// Configuration file [default: /etc/wardlet/config.yaml under the host root, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Output format
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The host's ID space: leases, owners, overlaps, leaks
    #[command(subcommand, after_help = EXIT_CODES)]
    Ids(IdsCommand),
    /// Show the plan for each pod of these manifests on this node, with reasons
    #[command(after_help = examples("wardlet explain pod.yaml\n  wardlet explain manifests/ --kubernetes 1.36\n  kubectl get pods -A -o yaml | wardlet explain - -o json\n  wardlet explain pod.yaml --kubernetes 1.35 --feature-gates UserNamespacesSupport=false\n\nNo pod is started. Exit code 1 if a pod would be refused, 2 if a manifest cannot be parsed."))]
    Explain(ExplainArgs),
    /// Check whether this node can run pods in user namespaces; each failure has a cause and a fix
    #[command(after_help = examples("wardlet doctor\n  wardlet doctor -o json | jq '.checks[] | select(.holds | not)'\n  wardlet doctor --runtime-endpoint unix:///run/containerd/containerd.sock\n\nThe tests leave nothing behind. Exit code 1 if a check that pods need fails, 2 if none fails but\none could not be determined, as without root."))]
    Doctor(DoctorArgs),
    /// Verify on the live node that no isolated pod shares IDs, files or namespaces with another
    #[command(after_help = examples("wardlet verify\n  wardlet verify default/web -o json | jq .violations\n  wardlet verify --runtime-endpoint unix:///run/containerd/containerd.sock\n  wardlet verify --watch=10\n\nIt reads /proc, namespaces, mounts and file owners. It needs no ledger and works on a node with only kubelet\nand containerd. Pods in the host's user namespace are listed; they are a violation only if they ask for a user\nnamespace. A violation is reported if two scans in a row find it. Exit code 1 if there is one, 2 if there is none\nbut something could not be read, as without root. Mounts are read from the root of each mount namespace, also\nthose that other mounts cover. A pod none of whose mounts could be read, and a ready sandbox without a process,\ncount as not read."))]
    Verify(VerifyArgs),
    /// Manage the images of the built-in runtime
    #[command(after_help = EXIT_CODES)]
    Image(ImageArgs),
    /// Run pods on this node, each with its own host IDs if it asks for them
    #[command(after_help = examples("wardlet run pod.yaml\n  wardlet run manifests/ --isolate\n  wardlet run pod.yaml --detach\n  wardlet run pod.yaml --runtime-endpoint unix:///run/containerd/containerd.sock\n\nConfigMaps and Secrets are read from the same files, and changes to them reach the containers. Ctrl-C stops all\npods; a second one kills them. The exit code is that of the first container that failed; 1 if a pod was refused, 2\nif a manifest cannot be parsed, 130 after Ctrl-C. A pod whose supervisor was killed is adopted."))]
    Run(RunArgs),
    /// Make this machine a node of a cluster, in the kubelet's place; in development
    #[command(after_help = examples("wardlet agent -- --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml\n  wardlet agent --builtin-runtime -- --kubeconfig=/etc/kubernetes/kubelet.conf --node-ip=10.0.0.5\n\nWhat follows -- are flags of a kubelet. The node registers itself, renews its lease, runs the pods that are bound to it\nand the static pods of its own directory (without --kubeconfig only those), and serves port 10250. Not there yet:\neviction, persistent volumes. SIGTERM stops it; pods keep running, and the next agent adopts them."))]
    Agent(AgentArgs),
    /// List pods of this node: state, host IDs, address
    #[command(after_help = examples("wardlet ps\n  wardlet ps -o json | jq '.[].uidMappings'"))]
    Ps,
    /// Print the logs of a pod's containers
    #[command(after_help = examples("wardlet logs web\n  wardlet logs web -c app -f"))]
    Logs(LogsArgs),
    /// Run a command in a container of a pod and wait for it
    #[command(after_help = examples("wardlet exec web -- cat /proc/self/uid_map\n  wardlet exec web -c app -- id\n  wardlet exec -it web -- sh\n  wardlet exec -i web -- sh -c 'cat > /scratch/file' < file\n\nThe exit code is the command's."))]
    Exec(ExecArgs),
    /// Stop pods and remove them
    #[command(after_help = examples("wardlet stop web\n  wardlet stop web db --grace 5\n  wardlet stop --all"))]
    Stop(StopArgs),
    /// Serve the built-in runtime as a CRI endpoint, for a kubelet or crictl
    #[command(after_help = examples("wardlet cri\n  wardlet cri --engine /usr/sbin/runc --network none\n  wardlet cri --state-dir /var/lib/test --run-dir /run/test --listen unix:///run/test/own.sock\n  kubelet --container-runtime-endpoint unix:///run/wardlet/cri.sock ...\n\nIt serves until SIGTERM or SIGINT (Ctrl-C) and logs to stderr, one line per event.\nPods keep running without it; the next server on the same directories adopts them. The socket\nis printed when it is ready."))]
    Cri(CriArgs),
    /// Show which workloads can have user namespaces, and which volumes conflict after an upgrade
    #[command(after_help = examples("wardlet check manifests/\n  kubectl get pods,deploy,sts,ds,rs,jobs,cronjobs,pv,pvc,csidrivers,sc,runtimeclasses,nodes -A -o json | wardlet check -\n  wardlet check dump/ --to 1.37 --gate\n  wardlet check --cluster --to 1.37 -o html > report.html\n  wardlet check dump/ --write-patches patches --patch-format kustomize\n  wardlet check --from-controller --gate\n\nNothing is changed. With --gate, exit code 1 if the upgrade would break something, and 2 if no\nbreak was found but not every object could be read. Without, 2 only if no object could be read."))]
    Check(CheckArgs),
    /// Watch a cluster for volumes with SELinux conflicts: metrics, events of pods, numbers for gates
    #[command(after_help = examples("wardlet controller\n  wardlet controller --kubeconfig ~/.kube/config --listen 127.0.0.1:8443\n  wardlet controller --listen 0.0.0.0:8443 --tls-cert-file tls.crt --tls-private-key-file tls.key\n  curl -k -H \"Authorization: Bearer $(kubectl create token prometheus)\" https://127.0.0.1:8443/metrics\n\nIt runs until SIGTERM. /metrics needs the right to get the path /metrics; /healthz, /livez and /readyz need none. Of\nseveral replicas one writes events and the ConfigMap wardlet-controller, which `wardlet check --from-controller`\nreads. A resource that it may not read is reported, and the rest works."))]
    Controller(ControllerArgs),
    /// Show the configuration in effect, with all defaults, and the pool that follows from it
    #[command(after_help = examples("wardlet config\n  wardlet config > /etc/wardlet/config.yaml\n  wardlet config -o json --config new.yaml"))]
    Config,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IdsCommand {
    /// Lease a block of host IDs to a holder; a repeated request returns the same block
    #[command(after_help = examples("wardlet ids lease web\n  wardlet ids lease db --ids 131072 --place /srv/db\n  wardlet ids lease job-1 --shared batch -o json"))]
    Lease(LeaseArgs),
    /// Release a holder's lease; the block is free once nothing uses it and its quarantine is over
    #[command(after_help = examples("wardlet ids release web\n  wardlet ids release job-1 -o json"))]
    Release {
        /// The holder
        holder: Holder,
    },
    /// List all blocks that are not free, with a map of the ID space
    #[command(after_help = examples("wardlet ids list\n  wardlet ids list -o json | jq '.[].holder'"))]
    List,
    /// Translate IDs of a holder's user namespace to host IDs, or the reverse
    #[command(after_help = examples("wardlet ids translate web --uid 1000 --gid 1000\n  wardlet ids translate web --uid 66536 --reverse\n\nAn ID that is not mapped: exit code 1, never a number."))]
    Translate(TranslateArgs),
    /// Show the owners of a host ID: leases, processes, claims; exit code 1 if there is none
    #[command(after_help = examples("wardlet ids owner 66536\n  wardlet ids owner 66536 -o json"))]
    Owner {
        /// The ID as the host sees it
        host_id: u64,
    },
    /// List all owners of IDs on the host, with overlaps and leaks; exit code 1 if there are any
    #[command(after_help = examples("wardlet ids audit\n  wardlet ids audit -o json | jq .findings\n\nNeeds no ledger: a node with only kubelet and containerd can be audited.\nExit code 2 if no violation was found but not everything could be read."))]
    Audit,
    /// Free vacant blocks, and show why the others are kept
    #[command(after_help = examples("wardlet ids gc --dry-run\n  wardlet ids gc --earlier-boots\n  wardlet ids gc --unpin 65536"))]
    Gc(GcArgs),
    /// Import the blocks that a kubelet allocated to its pods
    #[command(after_help = examples("wardlet ids import /var/lib/kubelet --dry-run\n  wardlet ids import /var/lib/kubelet"))]
    Import {
        /// The kubelet's root directory, or its pods directory
        dir: PathBuf,
        /// Only show what would be imported
        #[arg(long)]
        dry_run: bool,
    },
    /// Export leases to a kubelet: write the record of every lease whose pod it knows
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
    /// Registry configuration: mirrors, TLS and limits [default: /etc/wardlet/registries.yaml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) registries: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Import images from a file or directory: an OCI layout, or an archive of docker save or podman save
    #[command(after_help = examples("wardlet image import app.tar\n  wardlet image import layout/ --name registry.example/app:1\n  podman save app | wardlet image import /dev/stdin\n\nArchives may be compressed with gzip or zstd."))]
    Import {
        /// An archive, or a directory with an OCI layout
        #[arg(value_name = "FILE|DIR")]
        file: PathBuf,
        /// Name of the image, instead of the one in the file
        #[arg(long, value_name = "REF")]
        name: Option<Reference>,
    },
    /// Pull an image from its registry, or from a mirror
    #[command(after_help = examples("wardlet image pull registry.k8s.io/pause:3.10\n  wardlet image pull registry.example/app:1 --auth-file ~/.docker/config.json\n  wardlet image pull registry.example/app:1 --user robot < password\n\nAn interrupted pull is resumed: finished layers are not downloaded again."))]
    Pull(PullArgs),
    /// List images with their sizes and the highest IDs that own files in them
    #[command(after_help = examples("wardlet image list\n  wardlet image list -o json | jq '.[].names'"))]
    List,
    /// Remove a name of an image; with its last name the image is removed
    #[command(after_help = examples("wardlet image rm registry.example/app:1\n  wardlet image rm 3f2a91c0d4e5"))]
    Rm {
        /// A name, an ID, or the first digits of one
        #[arg(value_name = "REF")]
        name: String,
    },
    /// Remove unnamed images that are not in use, layers of no image, and interrupted downloads
    #[command(after_help = examples("wardlet image gc\n  wardlet image gc -o json"))]
    Gc,
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Image: [REGISTRY/]PATH[:TAG][@DIGEST]
    #[arg(value_name = "REF")]
    pub(crate) reference: Reference,
    /// Credentials file in the format of docker and podman
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
    /// The CRI socket of containerd or CRI-O [default: the built-in runtime, as for `run`]
    #[arg(long, value_name = "ENDPOINT", conflicts_with = "facts")]
    pub(crate) runtime_endpoint: Option<Endpoint>,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
}

#[derive(Debug, Default, Args)]
pub(crate) struct GateArgs {
    /// Feature gates that are not at their default: A=true,B=false
    #[arg(long, value_name = "GATES")]
    pub(crate) feature_gates: Vec<String>,
    /// Kubernetes version whose feature gates apply [default: kubernetesVersion of the configuration, 1.37]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes: Option<KubernetesVersion>,
}

impl GateArgs {
    pub(crate) fn flags(&self) -> GateFlags<'_> {
        GateFlags { version: self.kubernetes, requests: &self.feature_gates }
    }
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
    /// The CRI socket of the container runtime, for the names and requests of pods [default: all that
    /// listen in the usual places]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) runtime_endpoint: Option<Endpoint>,
    /// Scan again every so many seconds and show only changes [default: 5]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "5",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) watch: Option<u32>,
    /// How many files and directories of each mount are checked, the uppermost first
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) files: usize,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("live").args(["cluster", "from_controller"])))]
pub(crate) struct CheckArgs {
    /// Manifests, dumps, directories of them with all below, or - for standard input
    #[arg(required_unless_present_any = ["cluster", "from_controller"], conflicts_with = "from_controller", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Read the numbers that `wardlet controller` keeps in its ConfigMap instead of any object; with --gate, exit code 1
    /// if pods break, 2 if the numbers are old or not everything was read
    #[arg(long)]
    pub(crate) from_controller: bool,
    /// Read the objects of a live cluster (needs only the list verb); PATHs are checked together with them
    #[arg(long)]
    pub(crate) cluster: bool,
    /// The kubeconfig of the cluster [default: KUBECONFIG, ~/.kube/config, or a pod's service account]
    #[arg(long, value_name = "FILE", requires = "live")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, value_name = "NAME", requires = "live")]
    pub(crate) context: Option<String>,
    /// With --cluster, only this namespace; with --from-controller, the controller's [default: wardlet-system]
    #[arg(short, long, value_name = "NAME", requires = "live")]
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
    /// Format of the patches
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "kubectl")]
    pub(crate) patch_format: PatchFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// The kubeconfig of the cluster [default: KUBECONFIG, ~/.kube/config, or a pod's service account]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace of the controller's Lease and ConfigMap [default: that of the pod, or wardlet-system]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Address that serves metrics and health checks, with TLS; port 0 is any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8443")]
    pub(crate) listen: std::net::SocketAddr,
    /// Certificate chain of that address, PEM [default: a self-signed certificate]
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Private key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Maximum number of metric series that name two pods; further conflicts are only counted
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_conflict_series: usize,
    /// Also serve series of pods, claims, volumes and drivers, for the queries of KEP-1710
    #[arg(long)]
    pub(crate) object_series: bool,
    /// SELinux contexts of the nodes, if they are the same on all: their /etc/selinux/TYPE/contexts/lxc_contexts
    #[arg(long, value_name = "FILE")]
    pub(crate) selinux_contexts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Manifests, directories of manifests, or - for standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The CRI socket of containerd or CRI-O [default: the built-in runtime]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) runtime_endpoint: Option<Endpoint>,
    /// Isolate every pod that loses nothing by it, and show which ones are not isolated
    #[arg(long)]
    pub(crate) isolate: bool,
    /// Supervise the pods in the background once they run
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Remove everything of a pod except its images when it ends
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) rm: bool,
    /// Print no logs
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Rotate a container's log when it has this size
    #[arg(long, value_name = "SIZE", default_value_t)]
    pub(crate) container_log_max_size: LogSize,
    /// Maximum number of files of a container's log, at least 2
    #[arg(long, value_name = "N", default_value_t)]
    pub(crate) container_log_max_files: LogFiles,
    /// Directory for sockets and pinned namespaces: on a tmpfs, with a short path [default: /run/wardlet, and
    /// one of its own with another --state-dir]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Directory of wardlet-container and wardlet-monitor [default: that of this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// Write each request to the runtime and the kernel to this file, one JSON object a line
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
    /// Follow the logs until the pod ends
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
    /// Pass standard input to the command
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
    /// Grace period between SIGTERM and SIGKILL [default: the pod's own]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace: Option<u64>,
    /// Directory of the built-in runtime's sockets [default: that of `run`]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Directory of wardlet-container and wardlet-monitor [default: that of this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Run pods on the built-in runtime instead of the configured CRI socket
    #[arg(long)]
    pub(crate) builtin_runtime: bool,
    /// Give pods their network by the CNI plugins of /etc/cni/net.d [default: addresses of the Node's podCIDRs]
    #[arg(long, requires = "builtin_runtime")]
    pub(crate) cni: bool,
    /// Directory for sockets and pinned namespaces [default: as with `run`]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Directory of wardlet-container and wardlet-monitor [default: that of this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Flags of a kubelet, as --kubeconfig=FILE or --kubeconfig FILE
    #[arg(last = true, value_name = "FLAG")]
    pub(crate) flags: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CriArgs {
    /// The socket to listen on [default: cri.sock in the run directory, as unix:///run/wardlet/cri.sock]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) listen: Option<Endpoint>,
    /// Directory for sockets and pinned namespaces: on a tmpfs, with a short path [default: /run/wardlet, and one of
    /// its own with another --state-dir]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// What starts containers: libcontainer (built in), or the path of an OCI runtime
    #[arg(long, value_name = "ENGINE", default_value = "libcontainer")]
    pub(crate) engine: String,
    /// How pods get their network
    #[arg(long, value_enum, value_name = "KIND", default_value = "bridge")]
    pub(crate) network: NetworkKind,
    /// The bridge's name [default: wardlet0, and one of its own with another --state-dir]
    #[arg(long, value_name = "NAME")]
    pub(crate) bridge_name: Option<String>,
    /// The pods' addresses, IPv4 or both, as 10.1.2.0/24,fd00:1:2::/64 [default: the kubelet's pod CIDR, else
    /// 10.244.77.0/24, else another free one of 10.244.0.0/16]
    #[arg(long, value_name = "SUBNETS")]
    pub(crate) bridge_subnet: Option<network::Subnets>,
    /// Directory of the CNI configuration; the first file by name is used
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    pub(crate) cni_conf_dir: PathBuf,
    /// Directory of CNI plugins; may be given several times
    #[arg(long = "cni-bin-dir", value_name = "DIR", default_values = ["/opt/cni/bin", "/usr/lib/cni"])]
    pub(crate) cni_bin_dirs: Vec<PathBuf>,
    /// Address that serves exec, attach and port-forward, without TLS; port 0 is any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) streaming_address: std::net::SocketAddr,
    /// Parent cgroup of pods without one of their own; unknown cgroups in it are removed [default: /wardlet, and
    /// one of its own with another --state-dir]
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// How the files of an image get the pod's IDs
    #[arg(long, value_enum, value_name = "HOW", default_value = "idmap")]
    pub(crate) owners: OwnersHow,
    /// Directory of wardlet-container and wardlet-monitor [default: that of this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// Registry configuration: mirrors, TLS and limits [default: /etc/wardlet/registries.yaml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) registries: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NetworkKind {
    /// A built-in bridge: an address for each pod, without CNI plugins
    Bridge,
    /// CNI plugins
    Cni,
    /// Loopback only
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OwnersHow {
    /// By ID-mapped mounts; without them the container does not start
    Idmap,
    /// By ID-mapped mounts, or by chown where the filesystem does not support them
    IdmapOrChown,
    /// By chown of each file in the container's writable layer
    Chown,
}

#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// The holder of the block: a pod's UID, or a name of your choice
    pub(crate) holder: Holder,
    /// Number of IDs [default: userNamespaces.idsPerPod]
    #[arg(long, value_name = "N")]
    pub(crate) ids: Option<u64>,
    /// Join the block of this name, which all its members share
    #[arg(long, value_name = "NAME", conflicts_with = "write_record")]
    pub(crate) shared: Option<Holder>,
    /// The lease ends with this boot, released or not
    #[arg(long)]
    pub(crate) until_reboot: bool,
    /// A file or directory that these IDs will own; while it exists, the block is not free
    #[arg(long = "place", value_name = "PATH")]
    pub(crate) places: Vec<PathBuf>,
    /// Also lease a pair of SELinux categories that no other lease has
    #[arg(long)]
    pub(crate) categories: bool,
    /// Also write the kubelet's record of the pod
    #[arg(long)]
    pub(crate) write_record: bool,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("id").args(["uid", "gid"]).required(true).multiple(true)))]
pub(crate) struct TranslateArgs {
    /// The holder
    pub(crate) holder: Holder,
    /// A user ID
    #[arg(long, value_name = "N")]
    pub(crate) uid: Option<u64>,
    /// A group ID
    #[arg(long, value_name = "N")]
    pub(crate) gid: Option<u64>,
    /// Translate host IDs to IDs inside
    #[arg(long)]
    pub(crate) reverse: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Release leases of earlier boots that are not used or claimed and have no files
    #[arg(long)]
    pub(crate) earlier_boots: bool,
    /// Make the pinned block that starts at this host ID draining
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

/// How `check --write-patches` writes patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PatchFormat {
    /// One file for each object, for `kubectl patch --patch-file`
    Kubectl,
    /// The same with names in them, and a kustomization.yaml that is a component
    Kustomize,
}

impl From<PatchFormat> for report::patches::PatchFormat {
    fn from(format: PatchFormat) -> Self {
        match format {
            PatchFormat::Kubectl => Self::Kubectl,
            PatchFormat::Kustomize => Self::Kustomize,
        }
    }
}
