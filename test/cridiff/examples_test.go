package cridiff

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// example is a case of a rule: what both agents sent in one step, or that they have no step.
type example struct {
	rule               string
	change             func(*v1.Pod)
	step               string
	kubelet, podstream Fields
	// missing are both outcomes, if one agent has no such step. Its fields are nil.
	missing Fields
	// also are other steps of both.
	also Steps
	// neighbours are similar cases that are none of the rule. Each changes the example.
	neighbours map[string]func(*example)
}

const agentID = "c0ad5269-8800-42a8-80b2-3d5b8719c6be"

var examples = []example{
	{
		rule: "agentAnnotation", step: "RunPodSandbox",
		podstream: Fields{"config.annotations.podstream.io/agent": agentID},
		neighbours: map[string]func(*example){
			"the kubelet sends it": func(e *example) { e.kubelet = Fields{"config.annotations.podstream.io/agent": "x"} },
			"another annotation":   func(e *example) { e.podstream = Fields{"config.annotations.podstream.io/agents": agentID} },
			"a label":              func(e *example) { e.podstream = Fields{"config.labels.podstream.io/agent": agentID} },
		},
	},
	{
		rule: "agentAnnotation", step: "CreateContainer app",
		podstream: Fields{"sandboxConfig.annotations.podstream.io/agent": agentID},
	},
	{
		rule: "agentAnnotation", step: "RunPodSandbox", change: forgedAgent,
		kubelet: Fields{"config.annotations.podstream.io/agent": "forged"}, podstream: Fields{"config.annotations.podstream.io/agent": agentID},
		neighbours: map[string]func(*example){
			"not in the pod":                func(e *example) { e.change = nil },
			"podexecd keeps the pod's":      func(e *example) { e.podstream["config.annotations.podstream.io/agent"] = "forged " },
			"of a container":                func(e *example) { e.step = "CreateContainer app" },
			"the kubelet doesn't send it":   func(e *example) { e.kubelet = Fields{} },
			"podexecd doesn't send its own": func(e *example) { e.podstream = Fields{} },
		},
	},
	{
		rule: "firstSeenTime", step: "PullImage app:latest",
		kubelet:   Fields{"image.annotations.kubernetes.io/config.seen": "2026-11-23T07:16:25.698041089Z"},
		podstream: Fields{"image.annotations.kubernetes.io/config.seen": "2026-11-23T07:17:39Z"},
		neighbours: map[string]func(*example){
			"it is absent":     func(e *example) { e.podstream = Fields{} },
			"it isn't a time":  func(e *example) { e.podstream["image.annotations.kubernetes.io/config.seen"] = "yesterday" },
			"kubelet's absent": func(e *example) { e.kubelet = Fields{} },
		},
	},
	{
		rule: "terminationLogName", step: "CreateContainer app",
		kubelet: message("ROOT/pods/u1/containers/app/1c5e1f36"), podstream: message("ROOT/pods/u1/containers/app/00000000"),
		neighbours: map[string]func(*example){
			"another pod's":             func(e *example) { e.podstream = message("ROOT/pods/u2/containers/app/00000000") },
			"another container's":       func(e *example) { e.podstream = message("ROOT/pods/u1/containers/log/00000000") },
			"not the restart count":     func(e *example) { e.podstream = message("ROOT/pods/u1/containers/app/00000001") },
			"another kubelet directory": func(e *example) { e.kubelet = message("ROOT/pods/u1/volumes/app/1c5e1f36") },
			"another mount": func(e *example) {
				e.kubelet["config.mounts[1].containerPath"], e.podstream["config.mounts[1].containerPath"] = "/data", "/data"
			},
		},
	},
	{
		rule: "terminationLogName", step: "CreateContainer app",
		kubelet: message("ROOT/pods/u1/containers/app/1c5e1f36", "config.metadata.attempt", "2"), podstream: message("ROOT/pods/u1/containers/app/00000002", "config.metadata.attempt", "2"),
	},
	{
		rule: "maskedPathsOrder", step: "CreateContainer app",
		kubelet: list("config.linux.securityContext.maskedPaths", "/a", "/b"), podstream: list("config.linux.securityContext.maskedPaths", "/b", "/a"),
		neighbours: map[string]func(*example){
			"one is missing": func(e *example) { e.podstream = list("config.linux.securityContext.maskedPaths", "/b") },
			"one is twice":   func(e *example) { e.podstream = list("config.linux.securityContext.maskedPaths", "/b", "/b") },
			"read-only paths": func(e *example) {
				e.kubelet, e.podstream = list("config.linux.securityContext.readonlyPaths", "/a", "/b"), list("config.linux.securityContext.readonlyPaths", "/b", "/a")
			},
		},
	},
	{
		rule: "dnsOptionsOrder", step: "RunPodSandbox",
		kubelet: list("config.dnsConfig.options", "edns0", "ndots:2"), podstream: list("config.dnsConfig.options", "ndots:2", "edns0"),
		neighbours: map[string]func(*example){
			"another value": func(e *example) { e.podstream = list("config.dnsConfig.options", "ndots:3", "edns0") },
			"servers": func(e *example) {
				e.kubelet, e.podstream = list("config.dnsConfig.servers", "a", "b"), list("config.dnsConfig.servers", "b", "a")
			},
		},
	},
	{
		rule: "environmentOrder", step: "CreateContainer app", change: variables,
		kubelet: environment("B", "b", "A", "a"), podstream: environment("A", "a", "B", "b"),
		neighbours: map[string]func(*example){
			"not in the pod's order": func(e *example) { e.kubelet, e.podstream = e.podstream, e.kubelet },
			"another value":          func(e *example) { e.podstream = environment("A", "b", "B", "a") },
			"one more":               func(e *example) { e.podstream = environment("A", "a", "B", "b", "C", "c") },
			"one is twice":           func(e *example) { e.podstream = environment("A", "a", "A", "a") },
			"not in the pod":         func(e *example) { e.change = nil },
		},
	},
	{
		rule: "deprecatedAppArmorField", step: "CreateContainer app",
		kubelet:   appArmor("Localhost", "lo", "localhost/lo"),
		podstream: appArmor("Localhost", "lo", ""),
		neighbours: map[string]func(*example){
			"another profile in the current field": func(e *example) { e.podstream = appArmor("Localhost", "other", "") },
			"another kind in the current field":    func(e *example) { e.podstream = appArmor("Unconfined", "", "") },
			"no current field":                     func(e *example) { e.podstream = Fields{} },
			"another deprecated field":             func(e *example) { e.podstream = appArmor("Localhost", "lo", "localhost/other") },
		},
	},
	{
		rule: "deprecatedAppArmorField", step: "CreateContainer app",
		kubelet: appArmor("Unconfined", "", "unconfined"), podstream: appArmor("Unconfined", "", ""),
	},
	{
		rule: "deprecatedAppArmorField", step: "CreateContainer app",
		kubelet:   Fields{"config.linux.securityContext.apparmor": "{}", "config.linux.securityContext.apparmorProfile": "runtime/default"},
		podstream: Fields{"config.linux.securityContext.apparmor": "{}"},
	},
	{
		rule: "relabelWithoutSELinux", step: "CreateContainer app",
		kubelet:   Fields{"config.mounts[0].hostPath": "ROOT/pods/u1/etc-hosts"},
		podstream: Fields{"config.mounts[0].hostPath": "ROOT/pods/u1/etc-hosts", "config.mounts[0].selinuxRelabel": "true"},
		neighbours: map[string]func(*example){
			"a path of the node": func(e *example) {
				e.kubelet["config.mounts[0].hostPath"], e.podstream["config.mounts[0].hostPath"] = "/etc", "/etc"
			},
			"another pod's": func(e *example) {
				e.kubelet["config.mounts[0].hostPath"], e.podstream["config.mounts[0].hostPath"] = "ROOT/pods/u2/x", "ROOT/pods/u2/x"
			},
			"the kubelet relabels": func(e *example) { e.kubelet, e.podstream = e.podstream, e.kubelet },
		},
	},
	{
		rule: "groupWithoutUser", step: "RunPodSandbox", change: group,
		kubelet: Fields{"config.linux.securityContext.runAsGroup.value": "2000"},
		neighbours: map[string]func(*example){
			"with a user": func(e *example) {
				e.change = func(p *v1.Pod) { group(p); p.Spec.SecurityContext.RunAsUser = ptr.To[int64](1) }
			},
			"the container's": func(e *example) { e.step = "CreateContainer app" },
			"another group":   func(e *example) { e.podstream = Fields{"config.linux.securityContext.runAsGroup.value": "2"} },
			"no such pod":     func(e *example) { e.change = func(*v1.Pod) {} },
		},
	},
	{
		rule: "groupWithoutUser", step: "CreateContainer app", change: func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: ptr.To[int64](0)}
		},
		kubelet: Fields{"sandboxConfig.linux.securityContext.runAsGroup": "{}"},
	},
	{
		rule: "metadataOfServer", step: "CreateContainer app", change: ending,
		kubelet: Fields{"config.annotations.io.kubernetes.pod.deletionGracePeriod": "3"},
		neighbours: map[string]func(*example){
			"another time":   func(e *example) { e.kubelet = Fields{"config.annotations.io.kubernetes.pod.deletionGracePeriod": "4"} },
			"not in the pod": func(e *example) { e.change = func(*v1.Pod) {} },
			"the other annotation": func(e *example) {
				e.kubelet = Fields{"config.annotations.io.kubernetes.pod.terminationGracePeriod": "3"}
			},
		},
	},
	{
		rule: "metadataOfServer", step: "StopContainer app", change: ending,
		kubelet: Fields{"timeout": "3"}, podstream: Fields{"timeout": "7"},
		neighbours: map[string]func(*example){
			"another time":   func(e *example) { e.podstream = Fields{"timeout": "6"} },
			"no time":        func(e *example) { e.podstream = Fields{} },
			"not in the pod": func(e *example) { e.change = func(*v1.Pod) {} },
		},
	},
	{
		rule: "statusOfManifest", step: "RunPodSandbox", change: burstable,
		kubelet: Fields{"config.linux.cgroupParent": "/kubepods/burstable/podu1"}, podstream: Fields{"config.linux.cgroupParent": "/kubepods/podu1"},
		neighbours: map[string]func(*example){
			"another class": func(e *example) { e.podstream = Fields{"config.linux.cgroupParent": "/kubepods/besteffort/podu1"} },
			"no status":     func(e *example) { e.change = func(*v1.Pod) {} },
			"no cgroup":     func(e *example) { e.podstream = Fields{} },
		},
	},
	{
		rule: "statusOfManifest", step: "CreateContainer app", change: burstable,
		kubelet: Fields{"config.linux.resources.oomScoreAdj": "958"}, podstream: Fields{"config.linux.resources.oomScoreAdj": "-997"},
		neighbours: map[string]func(*example){
			"another score": func(e *example) { e.podstream = Fields{"config.linux.resources.oomScoreAdj": "-998"} },
			"no status":     func(e *example) { e.change = func(*v1.Pod) {} },
		},
	},
	{
		rule: "userNamespaceRange", step: "RunPodSandbox", kubelet: userRange("1336803328", "1336803328", "65536"), podstream: userRange("65536", "65536", "65536"),
		neighbours: map[string]func(*example){
			"the node's own IDs":      func(e *example) { e.podstream = userRange("0", "0", "65536") },
			"not at a multiple":       func(e *example) { e.podstream = userRange("65537", "65537", "65536") },
			"other IDs for groups":    func(e *example) { e.podstream = userRange("65536", "131072", "65536") },
			"more IDs":                func(e *example) { e.podstream = userRange("65536", "65536", "131072") },
			"the kubelet has no such": func(e *example) { e.kubelet = Fields{} },
		},
	},
	{
		rule: "directoryAboveVolumes", step: filesStep,
		kubelet:   Fields{"volumes/kubernetes.io~empty-dir": "drwxr-xr-x 0:0"},
		podstream: Fields{"volumes/kubernetes.io~empty-dir": "drwxr-x--- 0:0"},
		neighbours: map[string]func(*example){
			"a volume": func(e *example) {
				e.kubelet = Fields{"volumes/kubernetes.io~empty-dir/data": "drwxr-xr-x 0:0"}
				e.podstream = Fields{"volumes/kubernetes.io~empty-dir/data": "drwxr-x--- 0:0"}
			},
			"for others":    func(e *example) { e.podstream["volumes/kubernetes.io~empty-dir"] = "drwxrwxrwx 0:0" },
			"another owner": func(e *example) { e.podstream["volumes/kubernetes.io~empty-dir"] = "drwxr-x--- 1:0" },
		},
	},
	{
		rule: "downwardAPIOnDisk", step: filesStep,
		kubelet:   Fields{"volumes/kubernetes.io~downward-api/d": "dgtrwxrwxrwx 0:3000"},
		podstream: Fields{"volumes/kubernetes.io~downward-api/d": "dgrwxrwxrwx 0:3000"},
		neighbours: map[string]func(*example){
			"another owner": func(e *example) { e.podstream["volumes/kubernetes.io~downward-api/d"] = "dgrwxrwxrwx 0:0" },
			"another mode":  func(e *example) { e.podstream["volumes/kubernetes.io~downward-api/d"] = "dgrwxr-xr-x 0:3000" },
			"another volume": func(e *example) {
				e.kubelet = Fields{"volumes/kubernetes.io~empty-dir/d": "dtrwxrwxrwx 0:0"}
				e.podstream = Fields{"volumes/kubernetes.io~empty-dir/d": "drwxrwxrwx 0:0"}
			},
		},
	},
	{
		rule: "subPathOfOtherVolumes", step: "CreateContainer app", change: imageAndSubPath,
		kubelet: subPathMount("imageSubPath", "a/b"), podstream: subPathMount("containerPath", "/sub"),
		neighbours: map[string]func(*example){
			"no image volume": func(e *example) { e.change = func(p *v1.Pod) { imageAndSubPath(p); p.Spec.Volumes = nil } },
			"another subPath": func(e *example) { e.kubelet = subPathMount("imageSubPath", "a") },
			"of the image": func(e *example) {
				delete(e.podstream, "config.mounts[0].hostPath")
				delete(e.kubelet, "config.mounts[0].hostPath")
			},
			"podexecd sends it": func(e *example) { e.kubelet, e.podstream = e.podstream, e.kubelet },
		},
	},
	{
		rule: "runAsNonRootMessage", step: outcomeStep, change: named,
		kubelet:   Fields{"waiting.app.message": `container's runAsUser breaks non-root policy (pod: "web-node_shop(u1)", container: app)`},
		podstream: Fields{"waiting.app.message": "container's runAsUser breaks non-root policy"},
		neighbours: map[string]func(*example){
			"another pod": func(e *example) { e.change = nil },
			"another container": func(e *example) {
				e.kubelet["waiting.log.message"], e.podstream["waiting.log.message"] = e.kubelet["waiting.app.message"], e.podstream["waiting.app.message"]
			},
			"another cause": func(e *example) {
				e.podstream["waiting.app.message"] = "container has runAsNonRoot and image will run as root"
			},
		},
	},
	{
		rule: "appArmorMessage", step: outcomeStep,
		kubelet:   Fields{"message": `Cannot enforce AppArmor: invalid empty AppArmor profile name: "&AppArmorProfile{Type:Localhost,LocalhostProfile:*,}"`},
		podstream: Fields{"message": "Cannot enforce AppArmor: invalid empty AppArmor profile name"},
		neighbours: map[string]func(*example){
			"another cause": func(e *example) { e.podstream["message"] = "Cannot enforce AppArmor: it is disabled" },
			"no message":    func(e *example) { e.podstream = Fields{} },
		},
	},
	{
		rule: "memoryReservationPolicy", step: "CreateContainer app", change: memory("1Gi"),
		kubelet: Fields{"config.linux.resources.unified.memory.min": "1073741824"},
		neighbours: map[string]func(*example){
			"another request":   func(e *example) { e.change = memory("2Gi") },
			"podexecd's":        func(e *example) { e.kubelet, e.podstream = e.podstream, e.kubelet },
			"another file":      func(e *example) { e.kubelet = Fields{"config.linux.resources.unified.memory.low": "1073741824"} },
			"another container": func(e *example) { e.step = "CreateContainer log" },
		},
	},
	{
		rule: "throttledBestEffort", step: "CreateContainer app", podstream: Fields{"config.linux.resources.unified.memory.high": "22739410944"},
		neighbours: map[string]func(*example){
			"with a request":     func(e *example) { e.change = memory("1Gi") },
			"no page":            func(e *example) { e.podstream["config.linux.resources.unified.memory.high"] = "22739410945" },
			"another container":  func(e *example) { e.step = "CreateContainer log" },
			"the kubelet's high": func(e *example) { e.kubelet, e.podstream = e.podstream, Fields{} },
		},
	},
	sysAdmin, sidecarTime,
}
