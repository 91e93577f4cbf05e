//! The pod's network, which belongs to the host's user namespace.

use crate::nodes::{Setup, node};
use crate::support::pods::{Pod, Shaped};
use crate::support::wait_for;

pub(crate) fn a_pod_serves_on_port_80_as_an_ordinary_user(setup: Setup) {
    let node = node(setup);
    let pod = Pod::annotated(node, "web");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let script = "mkdir /tmp/www && echo hello > /tmp/www/index.html && httpd -f -p 80 -h /tmp/www";
    node.cri.run(&sandbox, &pod, pod.shell("web", script).user(1000)).expect("a container");
    let url = format!("http://{}/index.html", node.cri.address(&sandbox));
    let page = wait_for("port 80 answers", || {
        let output = node.testbed.command("curl").args(["-s", "--max-time", "5", &url]).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    });
    assert_eq!(page, "hello\n");
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

pub(crate) fn sysctls_of_the_network_are_set_inside_the_pod_only(setup: Setup) {
    let node = node(setup);
    let read = "cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ip_unprivileged_port_start";
    let outside = node.said("sh", &["-c", read]);
    let pod = Pod::annotated(node, "sysctls").sysctl("net.core.somaxconn", "77");
    let pod = pod.sysctl("net.ipv4.ip_unprivileged_port_start", "81");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let container = node.cri.run(&sandbox, &pod, pod.shell("main", "sleep 1000")).expect("a container");
    assert_eq!(node.cri.said(&container, read), "77\n81\n");
    assert_eq!(node.said("sh", &["-c", read]), outside, "the host's own have changed");
    // sysfs shows the pod's devices and no others, and nobody writes to it.
    assert_eq!(node.cri.said(&container, "ls /sys/class/net"), "eth0\nlo\n");
    let refused = node.cri.exec(&container, "echo 1 > /sys/class/net/eth0/mtu").unwrap();
    assert_ne!(refused.exit_code, 0, "sysfs was written");
    node.cri.remove_sandbox(&sandbox).expect("removed");
}
