// Package survival runs pods of every restart policy while the processes around them are killed, and checks
// that the pods are not harmed. podexecd, podconfigd, containerd and shims are killed with SIGKILL, at random
// moments and at each failpoint. Manifests change meanwhile.
//
//	storm: deeds at random           quiet: everything runs again        storm …
//	├─ kill and start daemons ─┐     ├─ wait until the look at the ─┐
//	├─ kill shims, containers  ├────▶│  node is as it should be     ├────▶      … end ──▶ Breaches
//	└─ write, change, remove ──┘     └─ and note that look ─────────┘
//	   manifests
//
// The tests record all actions (Deed), the observed state of the node (Look: CRI, directories, mounts, cgroups),
// podexecd's status of the pods (Status), and the runs of the containers (Run): the sample program keeps a diary in a
// directory of the host, so that starts and ends are known independently of runtime and agent. Together they are a
// History, and each promise has its own checker, a pure function in the file of its name:
//
//	once.go      each desired pod runs exactly once, a pod that is to end ends, and nothing else runs
//	clean.go     nothing is left of pods that aren't desired: no sandbox, container, directory, mount, link or cgroup
//	unharmed.go  no healthy container was restarted
//	grace.go     every termination honoured its grace period, over restarts too
//	steady.go    no pod stopped being ready without a cause
//
// # The runs
//
// TestStorms (storms_test.go) is the picture above, on two versions of containerd and on the simulated runtime.
// TestFailpoints kills a daemon at each point of package failpoint, while a pod with every kind of volume is added
// and removed, and prints the outcome; if an object is being made for that pod, the daemon dies a second time, and
// the pod is no longer desired after the restart. TestCrowd has many pods on a simulated runtime whose calls fail,
// hang and time out, that loses, doubles and reorders events, and loses pods. TestExecFaults (with the tag
// failpoints) adds a fault in podexecd for each checker, which must detect it. To run for any time, with 1,000 pods
// in the crowd:
//
//	ROBUSTNESS_TIME=1h go test -count=1 -timeout=0 -v ./test/survival
//
// Only the tests run goroutines or do I/O. A recorder has one goroutine that looks at the node and one that reads
// podexecd's stream; both end with their site.
package survival
