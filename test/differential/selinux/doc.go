// Package selinux compares the SELinux contexts with which podexecd has volumes mounted with the kubelet's
// (k8s.io/kubernetes/pkg/volume/util, 1.35), with the feature gate SELinuxMount on and off.
//
// Random pods, CSIDrivers and PersistentVolumes go to the kubelet's functions and, through the process labelpods, to package
// selinuxmount. Both sides have one policy. A case is repeated with -cases.seed=SEED -cases.first=NUMBER -cases=1. Each
// intended difference has a rule; each must occur, and everything else must be the same.
package selinux
