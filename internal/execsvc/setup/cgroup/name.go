package cgroup

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// name is the path of a cgroup, independent of the driver.
type name []string

// parseName parses a --cgroup-root. "" and "/" are the root of all cgroups.
func parseName(root string) name {
	root = strings.TrimPrefix(path.Clean("/"+root), "/")
	if root == "" {
		return nil
	}
	return strings.Split(root, "/")
}

func (n name) child(part string) name {
	return append(n[:len(n):len(n)], part)
}

// cgroupfs returns the name as a path: /kubepods/burstable/pod1-2.
func (n name) cgroupfs() string { return "/" + path.Join(n...) }

// systemd returns the name as nested slices:
// /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice. A dash in a slice's name separates
// levels, so dashes in the parts become underscores.
func (n name) systemd() string {
	var full, prefix string
	for _, part := range n {
		part = strings.ReplaceAll(part, "-", "_")
		full += "/" + prefix + part + ".slice"
		prefix += part + "-"
	}
	if full == "" {
		return "/"
	}
	return full
}

// layout has the names of the cgroups that pods share.
type layout struct{ kubepods, burstable, bestEffort name }

func newLayout(root string) layout {
	kubepods := parseName(root).child("kubepods")
	return layout{kubepods: kubepods, burstable: kubepods.child("burstable"), bestEffort: kubepods.child("besteffort")}
}

// pod returns the name of the cgroup of a pod of that QoS class. Guaranteed pods have no tier.
func (l layout) pod(uid types.UID, class v1.PodQOSClass) name {
	part := "pod" + string(uid)
	switch class {
	case v1.PodQOSBurstable:
		return l.burstable.child(part)
	case v1.PodQOSBestEffort:
		return l.bestEffort.child(part)
	default:
		return l.kubepods.child(part)
	}
}

// everywhere returns all names that the pod's cgroup can have, for an unknown QoS class.
func (l layout) everywhere(uid types.UID) []name {
	return []name{l.pod(uid, v1.PodQOSGuaranteed), l.pod(uid, v1.PodQOSBurstable), l.pod(uid, v1.PodQOSBestEffort)}
}
