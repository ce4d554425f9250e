package cridiff

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

var inContainer = regexp.MustCompile(`^` + insideStep)

// insideRules are the differences of what the process of a container finds.
var insideRules = []Rule{
	{
		Name:   "downwardAPIOnDisk",
		Reason: "In its mount table a process finds the node's disk, with its options, where with the kubelet it finds a tmpfs.",
		Step:   inContainer, Path: regexp.MustCompile(`^mounts\[\d+\]\.(root|source|options\[\d+\]|super\[0\]|type)$`),
		When: diskForMemory,
	},
	{
		Name:   "downwardAPIOnDisk",
		Reason: "The root directory of a tmpfs has the sticky bit.",
		Step:   inContainer, Path: fileMode,
		When: func(d *Difference) bool {
			v := d.volumeAt(fileMode.FindStringSubmatch(d.Path)[1])
			k, err := strconv.ParseUint(d.Kubelet, 8, 32)
			return v != nil && v.DownwardAPI != nil && err == nil && k&0o1000 != 0 && d.Podstream == fmt.Sprintf("%04o", k&^0o1000)
		},
	},
	{
		Name: "accessInMountOptions",
		Reason: "podexecd mounts an emptyDir in memory with its mode and group, so that a crash leaves none without them. The kubelet sets " +
			"them on the mounted directory. A process finds the same directory, and these options in its mount table.",
		Step: inContainer, Path: regexp.MustCompile(`^mounts\[\d+\]\.super\[0\]$`),
		When: accessInOptions,
	},
}

// fileMode matches the mode of a file without a dot in its path.
var fileMode = regexp.MustCompile(`^files\.(/[^.]+)\.mode$`)

// volumeAt returns the volume that the container has at that path, or nil.
func (d *Difference) volumeAt(path string) *v1.Volume {
	c := d.container()
	if c == nil {
		return nil
	}
	for _, m := range c.VolumeMounts {
		if m.MountPath != path {
			continue
		}
		if i := slices.IndexFunc(d.Pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name }); i >= 0 {
			return &d.Pod.Spec.Volumes[i]
		}
	}
	return nil
}

// tmpfsOptions matches those that the kernel shows of a tmpfs with a size.
var tmpfsOptions = regexp.MustCompile(`^rw,size=\d+k(,noswap|,inode64)*$`)

// diskForMemory reports whether podexecd's mount is the directory of a downwardAPI volume on the disk that has the hosts
// file too, and the kubelet's is a tmpfs.
func diskForMemory(d *Difference) bool {
	v := d.volumeAt(d.sibling("point"))
	if v == nil || v.DownwardAPI == nil {
		return false
	}
	name := d.Path[strings.LastIndexByte(d.Path, '.')+1:]
	switch name {
	case "root":
		return d.Kubelet == "/" && d.Podstream == fmt.Sprintf("ROOT/pods/%s/volumes/kubernetes.io~downward-api/%s", d.UID, v.Name)
	case "type", "source":
		return d.Kubelet == "tmpfs" && d.Podstream == d.ofHosts(name)
	case "super[0]":
		return tmpfsOptions.MatchString(d.Kubelet) && d.Podstream == d.ofHosts(name)
	default: // an option
		return d.Kubelet == "relatime" && d.Podstream == d.ofHosts(name)
	}
}

// ofHosts returns a field of Podstream's mount of the hosts file.
func (d *Difference) ofHosts(name string) string {
	fields := d.of.podstream[d.Step]
	for path, point := range fields {
		if at, ok := strings.CutSuffix(path, ".point"); ok && point == "/etc/hosts" {
			return value(fields, at+"."+name)
		}
	}
	return absent
}

// accessInOptions reports whether only podexecd's mount has the options of the pod's group and of the mode that the
// directory has.
func accessInOptions(d *Difference) bool {
	point := d.sibling("point")
	v, sc := d.volumeAt(point), d.Pod.Spec.SecurityContext
	if v == nil || v.EmptyDir == nil || v.EmptyDir.Medium != v1.StorageMediumMemory || sc == nil || sc.FSGroup == nil {
		return false
	}
	before, after, has := strings.Cut(d.Podstream, fmt.Sprintf(",mode=%s,gid=%d", value(d.of.podstream[d.Step], "files."+point+".mode"), *sc.FSGroup))
	return has && d.Kubelet == before+after
}
