package cgroup

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// name is where a cgroup is, whatever the driver: the names on the way to it. Each driver spells it in its own way.
type name []string

// parseName is the name of a path as --cgroup-root has it. "" and "/" are the root of all cgroups.
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

// cgroupfs is the name as a path: /kubepods/burstable/pod1-2.
func (n name) cgroupfs() string { return "/" + path.Join(n...) }

// systemd is the name as nested slices: /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice. A dash in the
// name of a slice leads one level down, so those of the parts become underscores.
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

// layout is the names of the cgroups that are shared by pods.
type layout struct{ kubepods, burstable, bestEffort name }

func newLayout(root string) layout {
	kubepods := parseName(root).child("kubepods")
	return layout{kubepods: kubepods, burstable: kubepods.child("burstable"), bestEffort: kubepods.child("besteffort")}
}

// pod is the name of the cgroup of a pod of that class. Guaranteed pods have no tier of their own.
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

// everywhere is the names that the pod's cgroup may have, if its class isn't known.
func (l layout) everywhere(uid types.UID) []name {
	return []name{l.pod(uid, v1.PodQOSGuaranteed), l.pod(uid, v1.PodQOSBurstable), l.pod(uid, v1.PodQOSBestEffort)}
}
