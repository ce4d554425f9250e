// Package cridiff compares what the kubelet and podexecd do for the same pods: their CRI requests, field by field and in
// their order, the files that they make, what their APIs say of a pod that doesn't run, and what the processes of real
// containers find.
//
// Both agents run as processes, one after the other, as the kubelet removes pods that it doesn't know. A Proxy
// between agent and runtime records the requests that change something, also those that fail or don't end. The agents
// have their own mount namespaces (isolate.sh) and the same cgroup root. The pods are static, and have their UIDs in their
// manifests, except in TestResizes.
//
// Beside a simulated runtime, in a network namespace of its own, TestGoldenPods runs the golden pods of package criconfig,
// on all their nodes, and variants of some; TestRandomPods runs pods with fields at random; TestLives runs hooks, probes,
// failures and the rotation of logs. The last two also compare what the agents remove; the kubelet does it once a minute.
// TestResizes resizes running pods in place, which static pods can't be: each agent has a kube-apiserver and etcd in its
// network namespace, where the pods are created. The trace has the UIDs that were given instead of the server's.
// TestInside runs a few pods on one containerd: the kubelet first, then podexecd.
//
// No test makes an agent remove images, and only TestResizes makes it update resources: a RemoveImage or
// UpdateContainerResources of only one agent is a difference.
//
// With -machine.runtime the pods' cgroups are systemd's slices, and TestInside uses the containerd of the machine. A guest
// runs the tests so, with cgroup v2: hack/vm/cridiff.sh.
//
// Every difference has a Rule with a name and a reason, or fails the test. So does a rule without a difference among the
// golden pods, or those of TestResizes or TestInside. Each table is followed by a change of each field, request and place in the order,
// one at a time, which the comparison must find. These tests have the build tag kubelet, because they need the kubelet's
// program: `make differential-cri` runs them. The rules and faults have tests without it.
//
// # Goroutines
//
// A Proxy runs its server, and each process has one that waits for it. All end with the Play that started them.
package cridiff
