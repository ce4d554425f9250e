// Package podsetup makes what a pod needs on the node. It combines packages volume (mounts), podenv (environment),
// dns and hosts (name resolution), cgroup (resource limits) and userns (user namespaces) with the API server's data
// for pods.
//
// A pod worker calls SetUp before it starts anything of the pod, and again at each sync, and TearDown after all of
// the pod has ended. Package runtime requests the options of a sandbox or container when it creates one: a Manager is
// its runtime.PodSetup. There are no goroutines, and the Manager has no state.
package podsetup
