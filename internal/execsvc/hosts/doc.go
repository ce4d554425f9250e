// Package hosts makes the /etc/hosts of a pod's containers, as the kubelet makes it (makeHostsMount of its
// pkg/kubelet/kubelet_pods.go): one file in the pod's directory, mounted into each container that mounts nothing of its own there.
//
// It is asked before each container is made, when the pod's sandbox has its addresses; calls for one pod must not meet. It runs no
// goroutines, and has no state but the file, which goes with the pod's directory. The file is the containers' too: they may write to
// it, and what they wrote is gone when the next one is made.
package hosts
