//! What a pod's fields mean inside of it, on a real containerd and on the built-in runtime.

use std::time::Instant;

use crate::run_support;

use run_support::{Node, Running, text};

/// One pod with as many fields as one pod can have; it prints what has come of each.
const ALL: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {colour: green, size: "7"}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop}
stringData: {password: hunter2}
---
apiVersion: v1
kind: Pod
metadata: {name: fields, namespace: shop, labels: {app: web}, annotations: {note: hello}}
spec:
  hostUsers: false
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  hostname: db
  subdomain: back
  setHostnameAsFQDN: true
  hostAliases: [{ip: 10.9.8.7, hostnames: [alias, alias.example]}]
  dnsPolicy: None
  dnsConfig: {nameservers: [10.1.2.3], searches: [a.example], options: [{name: ndots, value: "3"}]}
  shareProcessNamespace: true
  serviceAccountName: robot
  nodeSelector: {kubernetes.io/os: linux}
  priority: 5
  tolerations: [{operator: Exists}]
  securityContext:
    runAsUser: 1000
    runAsGroup: 2000
    runAsNonRoot: true
    fsGroup: 3000
    fsGroupChangePolicy: OnRootMismatch
    supplementalGroups: [4000]
    supplementalGroupsPolicy: Strict
    sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "81"}]
  volumes:
  - {name: scratch, emptyDir: {sizeLimit: 16Mi}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: config, configMap: {name: settings, defaultMode: 0440, items: [{key: colour, path: a/colour, mode: 0400}]}}
  - {name: tools, image: {reference: IMAGE, pullPolicy: IfNotPresent}}
  - {name: host, hostPath: {path: HOSTDIR, type: Directory}}
  - {name: maybe, secret: {secretName: nobody, optional: true}}
  - name: all
    projected:
      defaultMode: 0444
      sources:
      - {configMap: {name: settings, items: [{key: size, path: size}]}}
      - {secret: {name: key, items: [{key: password, path: password}]}}
      - {downwardAPI: {items: [{path: note, fieldRef: {fieldPath: "metadata.annotations['note']"}}, {path: cpu, resourceFieldRef: {containerName: app, resource: limits.cpu, divisor: 1m}}]}}
  initContainers:
  - {name: first, image: IMAGE, command: [sh, -c, "mkdir /scratch/sub && echo part > /scratch/sub/file"], volumeMounts: [{name: scratch, mountPath: /scratch}]}
  containers:
  - name: app
    image: IMAGE
    imagePullPolicy: IfNotPresent
    workingDir: /scratch
    command: [sh, -c]
    args:
    - |
      echo hostname $(hostname)
      echo hosts $(grep -e db -e alias /etc/hosts)
      echo resolv $(cat /etc/resolv.conf)
      echo ids $(id -u) $(id -g) $(id -G)
      echo group $(stat -c %g /scratch) $(stat -c '%a %g' /config/a/..data 2>/dev/null)
      echo file $(stat -L -c '%a' /config/a/colour)
      echo init $(cat /proc/1/comm)
      echo port $(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)
      echo pwd $(pwd)
      echo variables $PLAIN $CHAINED $COLOUR $PASSWORD $NODE $ACCOUNT $LABEL $MEMORY pre $PRE_colour $PRE_size $NAME
      echo own $POD_IP $HOST_IP
      echo part $(cat /part/file)
      echo expr $(cat /expr/file)
      echo maybe $(ls /maybe | wc -l)
      echo all $(cat /all/size /all/password /all/note /all/cpu)
      touch /part/x 2>/dev/null && echo part is writable
      touch /x 2>/dev/null && echo root is writable
      echo mode $(grep -e NoNewPrivs -e Seccomp: /proc/self/status)
      echo capabilities $(grep CapBnd /proc/self/status)
      echo memory $(df -k /memory | tail -1 | awk '{print $2}')
      echo tools $(ls /tools/bin/busybox) host $(cat /host/file)
      touch /host/x 2>/dev/null && echo host is writable
      echo gone > /tmp-words
      exit 3
    terminationMessagePath: /tmp-words
    terminationMessagePolicy: FallbackToLogsOnError
    resources: {limits: {cpu: 500m, memory: 64Mi}}
    securityContext:
      readOnlyRootFilesystem: true
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}
      seccompProfile: {type: RuntimeDefault}
    envFrom: [{prefix: PRE_, configMapRef: {name: settings}}, {secretRef: {name: nobody, optional: true}}]
    env:
    - {name: PLAIN, value: plain}
    - {name: PART, value: sub}
    - {name: CHAINED, value: "<$(PLAIN)>"}
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: key, key: password}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: ACCOUNT, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.serviceAccountName}}}
    - {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: scratch, mountPath: /part, subPath: sub, readOnly: true}
    - {name: scratch, mountPath: /expr, subPathExpr: $(PART)}
    - {name: memory, mountPath: /memory}
    - {name: config, mountPath: /config}
    - {name: maybe, mountPath: /maybe}
    - {name: all, mountPath: /all}
    - {name: tools, mountPath: /tools}
    - {name: host, mountPath: /host, readOnly: true, recursiveReadOnly: IfPossible, mountPropagation: None}
"#;

fn fields_are_kept(node: &Node) {
    let shared = node.path("shared");
    std::fs::create_dir_all(&shared).unwrap();
    std::fs::write(shared.join("file"), "of the host").unwrap();
    let file = node.manifest("pod.yaml", &ALL.replace("HOSTDIR", shared.to_str().unwrap()));
    let output = node.run(&[file.to_str().unwrap(), "--rm=false"]).output().unwrap();
    let (all, out) = (text(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(output.status.code(), Some(3), "{all}");
    let line = |start: &str| {
        let found = out.lines().find_map(|line| line.strip_prefix(&format!("fields/app | {start} ")));
        found.unwrap_or_else(|| panic!("no {start:?}: {all}")).to_owned()
    };
    let full = "db.back.shop.svc.cluster.local";
    assert_eq!(line("hostname"), full);
    let hosts = line("hosts");
    assert!(
        hosts.contains(&format!("{full} db")) && hosts.ends_with("10.9.8.7 alias alias.example"),
        "{hosts}"
    );
    let resolv = line("resolv");
    assert!(resolv.contains("nameserver 10.1.2.3") && resolv.contains("search a.example"), "{resolv}");
    assert!(resolv.contains("options ndots:3") && resolv.matches("nameserver").count() == 1, "{resolv}");
    assert_eq!(line("ids"), "1000 2000 2000 3000 4000");
    assert!(line("group").starts_with("3000"), "{all}");
    assert_eq!(line("file"), "440", "the group can read what its owner can: {all}");
    assert_eq!(line("port"), "81");
    assert_eq!(line("pwd"), "/scratch");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_lowercase();
    let variables = format!("plain <plain> green hunter2 {host} robot web 64 pre green 7 fields");
    assert_eq!(line("variables"), variables);
    assert_eq!(line("own").split(' ').count(), 2, "{all}");
    assert_eq!((line("part").as_str(), line("expr").as_str(), line("maybe").as_str()), ("part", "part", "0"));
    assert_eq!(line("all"), "7hunter2hello500");
    assert!(!out.contains("is writable"), "{all}");
    assert!(line("mode").contains("NoNewPrivs: 1 Seccomp: 2"), "{all}");
    assert!(line("capabilities").ends_with("0000000000000400"), "{all}");
    assert_eq!(line("memory"), "1024");
    assert_eq!(line("tools"), "/tools/bin/busybox host of the host");
    assert_ne!(line("init"), "sh", "processes are shared: the first is the sandbox's");
    let pod = &node.json(&["ps"])[0];
    let ended = &pod["status"]["containers"][0]["state"]["terminated"];
    assert_eq!((&ended["message"], &ended["code"]), (&"gone\n".into(), &3.into()), "{pod}");
    assert_eq!(pod["phase"], "Failed");
    let stop = stop(node, "fields");
    assert!(stop.contains("ended and removed"), "{stop}");
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

fn stop(node: &Node, pod: &str) -> String {
    let places = node.places();
    let words: Vec<&str> = ["stop", pod].into_iter().chain(places.iter().map(String::as_str)).collect();
    text(&node.command(&words).output().unwrap())
}

#[test]
fn a_pod_has_inside_what_its_fields_say_on_containerd() {
    fields_are_kept(&Node::new());
}

#[test]
fn a_pod_has_inside_what_its_fields_say_on_the_built_in_runtime() {
    fields_are_kept(&Node::built_in());
}

const OTHERS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: late}
spec:
  activeDeadlineSeconds: 1
  terminationGracePeriodSeconds: 1
  hostUsers: false
  containers:
  - {name: app, image: IMAGE, command: [sleep, "1000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  hostUsers: false
  restartPolicy: Never
  readinessGates: [{conditionType: example.com/open}]
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c, "echo oops; exit 4"]
    terminationMessagePolicy: FallbackToLogsOnError
    terminationMessagePath: /dev/termination-log
"#;

#[test]
fn a_deadline_ends_a_pod_a_gate_keeps_it_unready_and_last_words_can_be_its_logs() {
    let node = Node::new();
    let file = node.manifest("pods.yaml", OTHERS);
    let output = node.run(&[file.to_str().unwrap(), "--rm=false"]).output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
    let pods = node.json(&["ps"]);
    let find =
        |name: &str| pods.as_array().unwrap().iter().find(|p| p["name"] == name).unwrap()["status"].clone();
    let (late, gated) = (find("late"), find("gated"));
    assert_eq!((&late["phase"], &late["reason"]), (&"Failed".into(), &"DeadlineExceeded".into()), "{late}");
    assert_eq!(gated["containers"][0]["state"]["terminated"]["message"], "oops\n", "{gated}");
    let ready = gated["conditions"].as_array().unwrap().iter().find(|c| c["kind"] == "Ready").unwrap();
    assert_eq!(ready["status"], "False");
    let (late, gated) = (stop(&node, "late"), stop(&node, "gated"));
    assert!(late.contains("ended and removed") && gated.contains("ended and removed"), "{late}{gated}");
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

const SERVED: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: served}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 5
  volumes: [{name: www, emptyDir: {}}]
  containers:
  - name: web
    image: IMAGE
    command: [sh, -c, "echo ok > /www/well; trap 'exit 0' TERM; busybox httpd -f -p 8080 -h /www & wait"]
    ports: [{name: web, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /well, port: web, httpHeaders: [{name: X-A, value: b}]}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, initialDelaySeconds: 1}
    lifecycle: {postStart: {exec: {command: [touch, /www/begun]}}, preStop: {sleep: {seconds: 1}}}
    volumeMounts: [{name: www, mountPath: /www}]
  - name: asks
    image: IMAGE
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    readinessProbe: {httpGet: {path: /none, port: 8080}, periodSeconds: 1}
    lifecycle: {postStart: {httpGet: {path: /begun, port: 8080}}}
  - name: leads
    image: IMAGE
    command:
    - sh
    - -c
    - |
      mkdir /tmp/cgi-bin
      printf '#!/bin/sh\necho Status: 302 Found\necho Location: http://0.0.0.0/\necho\necho elsewhere' > /tmp/cgi-bin/away
      chmod 755 /tmp/cgi-bin/away
      trap 'exit 0' TERM
      busybox httpd -f -p 8081 -h /tmp & wait
    readinessProbe: {httpGet: {path: /cgi-bin/away, port: 8081}, periodSeconds: 1}
"#;

#[test]
fn probes_and_hooks_ask_a_server_that_the_pod_has() {
    let node = Node::new();
    let file = node.manifest("pod.yaml", SERVED);
    let mut running = Running(Some(node.run(&[file.to_str().unwrap(), "--quiet"]).spawn().unwrap()));
    let container = |n: usize| node.json(&["ps"])[0]["status"]["containers"][n].clone();
    // Containers behind one with a postStart hook wait for it: what it made is asked for by the next one's.
    node.await_that("both have started", || container(0)["ready"] == true && container(1)["started"] == true);
    assert_eq!((&container(1)["ready"], &container(1)["restarts"]), (&false.into(), &0.into()));
    assert_eq!(container(0)["restarts"], 0);
    node.await_that("a server that leads elsewhere is well", || container(2)["ready"] == true);
    let said = stop(&node, "served");
    assert!(said.contains("ended and removed"), "{said}");
    let output = running.0.take().unwrap().wait_with_output().unwrap();
    assert!(text(&output).contains("readiness probe of asks failed"), "{}", text(&output));
    let warning = "readiness probe of leads warning: Probe terminated redirects, Response body: elsewhere";
    assert!(text(&output).contains(warning), "{}", text(&output));
    assert!(!text(&output).contains("hook"), "{}", text(&output));
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

const LEAVING: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: leaving}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: out, hostPath: {path: HOSTDIR}}]
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c, "trap '' TERM; touch /out/begun; while :; do sleep 1; done"]
    lifecycle: {preStop: {exec: {command: [sh, -c, "touch /out/asked; sleep 2; touch /out/done"]}}}
    volumeMounts: [{name: out, mountPath: /out}]
"#;

/// Once the grace period is over, the container has two more seconds; its preStop command has them, too.
fn a_hook_goes_on(node: &Node) {
    let out = node.path("out");
    std::fs::create_dir_all(&out).unwrap();
    let file = node.manifest("pod.yaml", &LEAVING.replace("HOSTDIR", out.to_str().unwrap()));
    let running = Running(Some(node.run(&[file.to_str().unwrap(), "--quiet"]).spawn().unwrap()));
    node.await_that("its process runs", || out.join("begun").exists());
    let began = Instant::now();
    let said = stop(node, "leaving");
    assert!(said.contains("ended and removed"), "{said}");
    assert!(out.join("asked").exists(), "the hook was not run: {said}");
    assert!(out.join("done").exists(), "the hook ended with the grace period: {:?}: {said}", began.elapsed());
    drop(running);
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

#[test]
fn a_pre_stop_command_goes_on_while_its_container_stops_on_containerd() {
    a_hook_goes_on(&Node::new());
}

#[test]
fn a_pre_stop_command_goes_on_while_its_container_stops_on_the_built_in_runtime() {
    a_hook_goes_on(&Node::built_in());
}

#[test]
fn what_is_not_run_or_not_here_is_refused_before_any_pod_is_started() {
    let node = Node::new();
    let pod = |name: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  {more}\n  containers:\n  - {{name: app, image: IMAGE, command: [sleep, '1000']}}\n---\n"
        )
    };
    for (more, words, hint) in [
        (
            "resources: {limits: {cpu: '1'}}",
            "spec.resources: a limit for the pod as a whole is not run here",
            "give each container",
        ),
        ("schedulingGates: [{name: example.com/wait}]", "spec.schedulingGates", "take the gates away"),
        ("nodeName: elsewhere", "spec.nodeName: it is for node \"elsewhere\"", "leave the field out"),
        (
            "nodeSelector: {disk: ssd}",
            "spec.nodeSelector: this node has no label disk=ssd",
            "leave the field out",
        ),
        (
            "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]",
            "spec.volumes[0].persistentVolumeClaim: a volume that is kept elsewhere is not run here",
            "use emptyDir",
        ),
    ] {
        let file = node.manifest("pods.yaml", &(pod("good", "hostUsers: false") + &pod("bad", more)));
        let output = node.run(&[file.to_str().unwrap()]).output().unwrap();
        let all = text(&output);
        assert_eq!(output.status.code(), Some(1), "{all}");
        assert!(all.contains("pod default/bad: ") && all.contains(words) && all.contains(hint), "{all}");
        let explained = node.json(&["explain", file.to_str().unwrap()]);
        let verdict = |at: usize| explained["pods"][at]["verdict"].clone();
        assert_eq!((verdict(0), verdict(1)), ("runs".into(), "refused".into()), "{explained}");
        assert!(!all.contains("default/good"), "something was started: {all}");
    }
    assert_eq!(node.leftovers(), Vec::<String>::new());
}
