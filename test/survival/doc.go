// Package survival has pods of every restart policy live through the deaths of everything around them, and checks that they were none the
// worse for it. podexecd, podconfigd, containerd and shims die by SIGKILL, at random moments and at each failpoint; manifests change
// meanwhile.
//
//	storm: deeds at random           quiet: everything runs again        storm …
//	├─ kill and start daemons ─┐     ├─ wait until the look at the ─┐
//	├─ kill shims, containers  ├────▶│  node is as it should be     ├────▶      … end ──▶ Breaches
//	└─ write, change, remove ──┘     └─ and note that look ─────────┘
//	   manifests
//
// All the while is written down what was done (Deed), what the node looked like (Look: CRI, directories, mounts, cgroups), what
// podexecd showed (Status), and what the containers themselves lived through (Run): the sample program keeps a diary in a directory of the
// host, so that starts and ends are known apart from what runtime and agent say. Together they are a History, and each demand has a
// checker of its own, a pure function in the file of its name:
//
//	once.go      each desired pod runs exactly once, what is to end ends, and nothing else runs
//	clean.go     nothing is left of pods that aren't desired: no sandbox, container, directory, mount, link or cgroup
//	unharmed.go  no healthy container was restarted
//	grace.go     every termination honoured its grace period, over restarts too
//	steady.go    no pod stopped being ready without a cause
//
// # The runs
//
// TestStorms (storms_test.go) is the picture above, on two versions of containerd and on the simulated runtime. TestFailpoints has a daemon
// die at each point of package failpoint in turn, while a pod with every kind of volume comes and goes, and prints what came of it; where
// something is being made for that pod, it dies a second time, and nobody wants the pod any more when it lives again. TestCrowd has many
// pods on a simulated runtime whose calls fail, hang and time out, that loses, doubles and reorders events, and forgets pods.
// TestExecFaults (with the tag failpoints) plants a fault in podexecd for each checker, which must notice. For as long as one likes, with
// 1,000 pods in the crowd:
//
//	ROBUSTNESS_TIME=1h go test -count=1 -timeout=0 -v ./test/survival
//
// Nothing here but the tests runs goroutines or does I/O. Of the tests, a recorder has one goroutine that looks at the node and one that
// reads podexecd's stream; both end with their site.
package survival
