package cridiff

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// insideExamples are examples of insideRules.
var insideExamples = []example{
	{
		rule: "downwardAPIOnDisk", step: insideStep + "app", change: downAt("/down"),
		kubelet:   withOption("relatime", mounted("/down", "/", "tmpfs", "tmpfs", "rw,size=24673844k,noswap")),
		podstream: withOption("noatime", mounted("/down", "ROOT/pods/u1/volumes/kubernetes.io~downward-api/down-app", "ext4", "/dev/vda", "rw,discard")),
		neighbours: map[string]func(*example){
			"elsewhere":      func(e *example) { e.change = downAt("/up") },
			"not a volume":   func(e *example) { e.change = nil },
			"both in memory": func(e *example) { e.podstream["mounts[1].type"] = "tmpfs"; e.kubelet["mounts[1].type"] = "ramfs" },
			"another disk":   func(e *example) { e.podstream["mounts[1].source"] = "/dev/vdb" },
			"read-only":      func(e *example) { e.kubelet["mounts[1].super[0]"] = "ro,size=24673844k,noswap" },
			"no such option": func(e *example) { e.podstream["mounts[1].options[1]"] = "noexec" },
			"another option": func(e *example) { e.kubelet["mounts[1].options[1]"] = "noexec" },
			"not the volume": func(e *example) { e.podstream["mounts[1].root"] = "ROOT/pods/u1/volumes/kubernetes.io~downward-api/x" },
		},
	},
	{
		rule: "downwardAPIOnDisk", step: insideStep + "app", change: downAt("/down"),
		kubelet: Fields{"files./down.mode": "3777"}, podstream: Fields{"files./down.mode": "2777"},
		neighbours: map[string]func(*example){
			"elsewhere":    func(e *example) { e.change = downAt("/up") },
			"podexecd's":   func(e *example) { e.kubelet, e.podstream = e.podstream, e.kubelet },
			"another mode": func(e *example) { e.podstream["files./down.mode"] = "2755" },
			"a file": func(e *example) {
				e.kubelet, e.podstream = Fields{"files./down/a.mode": "3777"}, Fields{"files./down/a.mode": "2777"}
			},
			"without the setgid bit": func(e *example) { e.podstream["files./down.mode"] = "0777" },
		},
	},
	{
		rule: "accessInMountOptions", step: insideStep + "app", change: memoryAt("/memory", 3000),
		kubelet: inMemory("rw,size=1024k,noswap", "3777"), podstream: inMemory("rw,size=1024k,mode=3777,gid=3000,noswap", "3777"),
		neighbours: map[string]func(*example){
			"elsewhere":     func(e *example) { e.change = memoryAt("/data", 3000) },
			"another group": func(e *example) { e.change = memoryAt("/memory", 3001) },
			"another mode":  func(e *example) { e.podstream["mounts[1].super[0]"] = "rw,size=1024k,mode=1777,gid=3000,noswap" },
			"another size":  func(e *example) { e.podstream["mounts[1].super[0]"] = "rw,size=2048k,mode=3777,gid=3000,noswap" },
			"on the disk": func(e *example) {
				e.change = func(p *v1.Pod) { memoryAt("/memory", 3000)(p); p.Spec.Volumes[0].EmptyDir.Medium = "" }
			},
			"the kubelet's": func(e *example) { e.kubelet, e.podstream = e.podstream, e.kubelet },
		},
	},
}

func downAt(path string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		volume(&p.Spec, &p.Spec.Containers[0], "down", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}, v1.VolumeMount{MountPath: path})
	}
}

func memoryAt(path string, group int64) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To(group)}
		source := &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
		volume(&p.Spec, &p.Spec.Containers[0], "memory", v1.VolumeSource{EmptyDir: source}, v1.VolumeMount{MountPath: path})
	}
}

// mounted are the fields of the hosts file's mount, and of another one.
func mounted(point, root, kind, source, super string) Fields {
	return Fields{
		"mounts[0].point": "/etc/hosts", "mounts[0].root": "ROOT/pods/u1/etc-hosts", "mounts[0].type": "ext4", "mounts[0].source": "/dev/vda",
		"mounts[0].super[0]": "rw,discard",
		"mounts[1].point":    point, "mounts[1].root": root, "mounts[1].type": kind, "mounts[1].source": source, "mounts[1].super[0]": super,
	}
}

// withOption returns the fields with an option of the last mount. The hosts file's mount has noatime.
func withOption(option string, fields Fields) Fields {
	fields["mounts[0].options[1]"], fields["mounts[1].options[1]"] = "noatime", option
	return fields
}

// inMemory are the fields of a volume at /memory.
func inMemory(super, mode string) Fields {
	fields := mounted("/memory", "/", "tmpfs", "tmpfs", super)
	fields["files./memory.mode"] = mode
	return fields
}
