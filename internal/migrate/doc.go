// Package migrate decides what happens to each pod of a kubelet when podexecd with --adopt-kubelet-pods replaces it. It is
// pure: `podctl migrate --dry-run` reads the container runtime and the list of pods, and calls Plan.
package migrate
