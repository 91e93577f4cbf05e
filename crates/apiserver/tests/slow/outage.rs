//! An API server that is killed, hangs, and comes back.

use apiserver::client::ErrorKind;
use apiserver::lease::{self, LeaseTiming, NAMESPACE};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use testbed::{Part, Parts, Testbed, faults};

use crate::support::{Agent, OFTEN, admin, eventually, image, is_ready, ready, run, settings, until};

#[test]
fn heartbeats_go_on_after_an_outage() {
    let testbed = Testbed::start(Parts::control_plane()).unwrap();
    run(&testbed, async || {
        let mut control = Testbed::attach(testbed.name()).unwrap();
        let agent = Agent::start(&testbed, settings("node1"), OFTEN, ready()).await;
        let timing = LeaseTiming { duration_seconds: 4 };
        let lease = lease::spawn(&agent.clients, "node1", timing, agent.handle.node());
        agent.node_with("registered", is_ready).await;
        let leases: Api<Lease> = Api::namespaced(admin(&testbed).await, NAMESPACE);
        let renewed = async || leases.get_opt("node1").await.ok()??.spec?.renew_time;
        eventually("a lease", renewed).await;
        let (mut status, mut heartbeat) = (agent.handle.problem(), lease.problem());

        faults::kill(&control, Part::Apiserver).unwrap();
        let problem = until(&mut heartbeat, "the lease fails", Option::is_some).await.unwrap();
        assert_eq!(problem.kind(), ErrorKind::Unreachable, "{problem}");
        // A change during the outage, and an agent that starts in it.
        let mut changed = ready();
        changed.facts.images.push(image("example.test/c:1", 30));
        agent.state.send_replace(changed);
        let late = Agent::start(&testbed, settings("node2"), OFTEN, ready()).await;
        let problem = until(&mut status, "the status fails", Option::is_some).await.unwrap();
        assert_eq!(problem.kind(), ErrorKind::Unreachable, "{problem}");
        until(&mut late.handle.problem(), "no registration", Option::is_some).await;

        control.restart(Part::Apiserver).unwrap();
        let back = k8s_openapi::jiff::Timestamp::now();
        until(&mut status, "the status is sent again", Option::is_none).await;
        let images = |node: &k8s_openapi::api::core::v1::Node| {
            node.status.as_ref().and_then(|status| status.images.as_ref().map(Vec::len))
        };
        agent.node_with("a third image", |node| images(node) == Some(3)).await;
        late.node_with("registered late", is_ready).await;
        let after = async || renewed().await.filter(|time| time.0 > back);
        eventually("a renewal after the outage", after).await;
        until(&mut heartbeat, "the lease is renewed", Option::is_none).await;

        // A server that hangs: connections stay, answers do not come.
        faults::stop(&control, Part::Apiserver).unwrap();
        let problem = until(&mut heartbeat, "the lease fails again", Option::is_some).await.unwrap();
        assert_eq!(problem.kind(), ErrorKind::Timeout, "{problem}");
        faults::resume(&control, Part::Apiserver).unwrap();
        until(&mut heartbeat, "the lease is renewed again", Option::is_none).await;
    });
}
