// Package hosts writes the /etc/hosts of a pod's containers, as the kubelet does (makeHostsMount in
// pkg/kubelet/kubelet_pods.go): one file in the pod's directory, mounted into each container without a mount of its
// own there.
//
// It is called before each container is created, when the pod's sandbox has its addresses; calls for one pod must not
// overlap. It runs no goroutines, and its only state is the file, which is removed with the pod's directory.
// Containers may write to the file, and the next creation of a container overwrites their changes.
package hosts
