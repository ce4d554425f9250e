// Package nodediff compares what the kubelet and podexecd make of a node with the same configuration: the Node object and
// its events, the limits of cgroups, their own process's limits, the kernel's settings, what they say of pods, and for what
// they refuse to start.
//
// A Case is a KubeletConfiguration, with what happens on the node. Play plays it with one agent, as a process in a guest
// that is the test's own, with the guest's containerd, systemd and cgroup v2, and a kube-apiserver and etcd beside it. It
// waits until the kubelet's side has what the case is about (Case.Wants), and nothing changes any more, and returns what is
// Seen. podexecd plays the case next, from the same state of the machine, and has to show all that the kubelet did. A proxy
// before the runtime makes requests fail, where a case wants that.
//
// TestNode plays Cases. TestReserved plays ReservedCases, which need the controller cpuset and two processors: the kubelet
// sets no limits without it. TestValues starts both with invalid values of fields, outside a guest.
//
// Every difference has a Rule with a name and a reason, or fails the test. So does a rule without a difference. Each case
// is followed by a change of each field and section, one at a time, which the comparison must find. The tests that run
// agents have the build tag kubelet, because they need the kubelet's program: `make differential-node` runs them. The
// comparison and the rules have tests without it.
//
// What happens to pods is compared as far as their status, events and cgroups show it. test/cridiff compares the requests
// to the runtime.
//
// # Goroutines
//
// Each process has one that waits for it, and a cridiff.Proxy runs its server. All end with the Play that started them, or
// with the Server.
package nodediff
