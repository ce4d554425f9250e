// Package placement moves processes to the cgroups that the configuration names for them, as the kubelet does
// (ensureStateFunc of pkg/kubelet/cm): podexecd itself to kubeletCgroups, and the processes in the root cgroup, except the
// first one and the kernel's threads, to systemCgroups.
//
// podexecd makes one Placer if either is set. Run, one goroutine, moves them once a minute until its context ends, as new
// processes may be in the root cgroup. The cgroups are created, directly beneath the root of all cgroups and not by
// systemd. A process that can't be moved stays where it is, and the reason is logged when it changes. The package never
// moves processes of pods, which are in other cgroups, and sets no limits.
package placement
