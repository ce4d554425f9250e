package nodediff

const (
	uml            = "event Node/node FailedNodeAllocatableEnforcement"
	enforced       = "event Node/node NodeAllocatableEnforced"
	umlMessage     = `Failed to update Node Allocatable Limits ["kubepods"]: openat2 /sys/fs/cgroup/kubepods.slice/cpuset.cpus: no such file or directory`
	systemOOMOf    = "event Node/node SystemOOM"
	mountFailed    = "event Pod/web FailedMount"
	ofWaiting      = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID of web.slice/cpu.weight"
	waitingMessage = "status.containerStatuses[0].state.waiting.message"
	badCapacity    = "event Node/node InvalidDiskCapacity"
)

const (
	unlisted       = "rpc error: code = Internal desc = ListContainers: the runtime has a planted fault"
	killFailed     = "event Pod/web FailedKillPod"
	containerStays = `failed to "KillContainer" for "app" with KillContainerError: "rpc error: code = Internal desc = StopContainer: no"`
	sandboxStays   = `failed to "KillPodSandbox" for "UID of web" with KillPodSandboxError: ` +
		`"rpc error: code = Internal desc = StopPodSandbox: the runtime has a planted fault"`
)

// examples are examples of all rules.
var examples = []example{
	{
		rule:    "version",
		kubelet: field("node", "info.kubeletVersion", "v1.37.2"), podstream: field("node", "info.kubeletVersion", "v1.37.2-podstream"),
		neighbours: map[string]func(k, p Seen){
			"another field": func(_, p Seen) { p["node"]["info.kernelVersion"] = "6.12" },
			"another agent": func(_, p Seen) { p["node"]["info.kubeletVersion"] = "v1.37.2+other" },
		},
	},
	{
		rule:    "nodeEventUID",
		kubelet: field("event Node/node Starting", "[0].object", "v1 /node  "), podstream: field("event Node/node Starting", "[0].object", "v1 /node node "),
		neighbours: map[string]func(k, p Seen){
			"another node": func(_, p Seen) { p["event Node/node Starting"]["[0].object"] = "v1 /node2 node2 " },
			"a namespace":  func(_, p Seen) { p["event Node/node Starting"]["[0].object"] = "v1 default/node node " },
		},
	},
	{
		rule:      "enforcesNothingByDefault",
		kubelet:   Seen{"value cgroupsPerQOS: false": {"refused": "true", "names the field": "true"}},
		podstream: field("value cgroupsPerQOS: false", "refused", "false"),
		neighbours: map[string]func(k, p Seen){
			"both refuse": func(_, p Seen) {
				p["value cgroupsPerQOS: false"]["refused"], p["value cgroupsPerQOS: false"]["names the field"] = "true", "false"
			},
			"the kubelet accepts it": func(k, p Seen) {
				k["value cgroupsPerQOS: false"]["refused"], p["value cgroupsPerQOS: false"]["refused"] = "false", "true"
			},
		},
	},
	{
		rule: "containersNotListed", of: "garbage",
		kubelet:   Seen{"event Node/node ContainerGCFailed": {"[0].message": unlisted}, "node": {"conditions.Ready.message": "PLEG is not healthy: m"}},
		podstream: field("node", "conditions.Ready.message", "PLEG is not healthy: m"),
		neighbours: map[string]func(k, p Seen){
			"another failure": func(k, _ Seen) { k["event Node/node ContainerGCFailed"]["[0].message"] = "m" },
			"a ready node":    func(k, p Seen) { delete(k, "node"); delete(p, "node") },
		},
	},
	{
		rule:      "readyAtOnce",
		kubelet:   Seen{"event Node/node NodeReady": {"[0].type": "Normal"}, "event Node/node NodeNotReady": {"[0].type": "Normal"}},
		podstream: field("event Node/node NodeNotReady", "[0].type", "Normal"),
	},
	{
		rule:      "readyAtOnce",
		kubelet:   Seen{"event Node/node NodeReady": {"[0].type": "Normal"}, "node": {"conditions.Ready.status": "True"}},
		podstream: Seen{"node": {"conditions.Ready.status": "True"}},
		neighbours: map[string]func(k, p Seen){
			"a node that isn't ready": func(k, p Seen) {
				k["node"]["conditions.Ready.status"], p["node"]["conditions.Ready.status"] = "False", "False"
			},
		},
	},
	{
		rule:    "shareIn32Bits",
		kubelet: field("node", "allocatable.ephemeral-storage", "3789707668"), podstream: field("node", "allocatable.ephemeral-storage", "3789707674"),
		neighbours: map[string]func(k, p Seen){
			"a page": func(_, p Seen) { p["node"]["allocatable.ephemeral-storage"] = "3789711770" },
			"of a capacity": func(k, p Seen) {
				k["node"]["capacity.memory"], p["node"]["capacity.memory"] = "3789707668", "3789707674"
			},
			"another format": func(_, p Seen) { p["node"]["allocatable.ephemeral-storage"] = "3700886Ki" },
		},
	},
	{
		rule: "shareIn32Bits", kubelet: field("node", "allocatable.memory", "2783340542"), podstream: field("node", "allocatable.memory", "2718106Ki"),
	},
	{
		rule: "noCpuset", kubelet: Seen{uml: {"[0].message": umlMessage}}, podstream: Seen{enforced: nodeEventOf("Normal", "Updated Node Allocatable limit across pods")},
		neighbours: map[string]func(k, p Seen){
			"another failure": func(k, _ Seen) { k[uml]["[0].message"] = "Failed to update: permission denied" },
			"another success": func(_, p Seen) { p[enforced]["[0].message"] = "Updated limits on system reserved cgroup /a" },
		},
	},
	{
		rule: "oomLineWithoutCpuset", of: "container-oom", podstream: Seen{},
		kubelet: field(systemOOMOf, "[0].message", "System OOM encountered, victim process: sample, pid: PID"),
		neighbours: map[string]func(k, p Seen){
			"another victim": func(k, _ Seen) {
				k[systemOOMOf]["[0].message"] = "System OOM encountered, victim process: etcd, pid: PID"
			},
			"only podexecd's": func(k, p Seen) {
				p[systemOOMOf] = k[systemOOMOf]
				delete(k, systemOOMOf)
			},
		},
	},
	{
		rule:    "limitOfEndedPod",
		kubelet: Seen{"pod hog": {"status.phase": "Failed", "status.containerStatuses[0].resources.limits.memory": "48Mi"}},
		podstream: Seen{"pod hog": {
			"status.phase": "Failed", "status.containerStatuses[0].resources.limits.memory": "48Mi", "status.resources.limits.memory": "48Mi",
		}},
		neighbours: map[string]func(k, p Seen){
			"the pod runs":  func(k, p Seen) { k["pod hog"]["status.phase"], p["pod hog"]["status.phase"] = "Running", "Running" },
			"another limit": func(_, p Seen) { p["pod hog"]["status.resources.limits.memory"] = "64Mi" },
			"only the kubelet's": func(k, p Seen) {
				k["pod hog"]["status.resources.limits.memory"] = "48Mi"
				delete(p["pod hog"], "status.resources.limits.memory")
			},
		},
	},
	{
		rule: "imageDiskNotYetKnown", podstream: Seen{},
		kubelet: field(badCapacity, "[0].message", "invalid capacity 0 on image filesystem"),
		neighbours: map[string]func(k, p Seen){
			"another capacity": func(k, _ Seen) { k[badCapacity]["[0].message"] = "available 5 is larger than capacity 4" },
		},
	},
	{
		rule:      "allProcessors",
		kubelet:   Seen{"cgroups": {"kubepods.slice/cpuset.cpus": "0-1"}, "node": {"capacity.cpu": "2"}},
		podstream: Seen{"cgroups": {"kubepods.slice/cpuset.cpus": ""}, "node": {"capacity.cpu": "2"}},
		neighbours: map[string]func(k, p Seen){
			"some processors": func(k, _ Seen) { k["cgroups"]["kubepods.slice/cpuset.cpus"] = "0" },
			"one processor":   func(_, p Seen) { p["cgroups"]["kubepods.slice/cpuset.cpus"] = "1" },
		},
	},
	{
		rule:      "unlimitedHugePages",
		kubelet:   field("cgroups", "kubepods.slice/kubepods-burstable.slice/hugetlb.2MB.rsvd.max", unlimitedPages),
		podstream: field("cgroups", "kubepods.slice/kubepods-burstable.slice/hugetlb.2MB.rsvd.max", "max"),
		neighbours: map[string]func(k, p Seen){
			"a limit": func(_, p Seen) { p["cgroups"]["kubepods.slice/kubepods-burstable.slice/hugetlb.2MB.rsvd.max"] = "0" },
		},
	},
	{
		rule: "hugePagesOfCompressible", of: "enforced-compressible",
		kubelet: field("cgroups", "sysres.slice/hugetlb.2MB.max", "0"), podstream: field("cgroups", "sysres.slice/hugetlb.2MB.max", "max"),
		neighbours: map[string]func(k, p Seen){
			"a limit": func(_, p Seen) { p["cgroups"]["sysres.slice/hugetlb.2MB.max"] = "4194304" },
			"the pods'": func(k, p Seen) {
				k["cgroups"]["kubepods.slice/hugetlb.2MB.max"], p["cgroups"]["kubepods.slice/hugetlb.2MB.max"] = "0", "max"
			},
		},
	},
	{
		rule:      "hugePagesOfAllPods",
		kubelet:   Seen{"cgroups": {"kubepods.slice/hugetlb.2MB.max": unlimitedPages}, "node": {"allocatable.hugepages-2Mi": "0"}},
		podstream: Seen{"cgroups": {"kubepods.slice/hugetlb.2MB.max": "0"}, "node": {"allocatable.hugepages-2Mi": "0"}},
		neighbours: map[string]func(k, p Seen){
			"a node with pages": func(k, p Seen) {
				k["node"]["allocatable.hugepages-2Mi"], p["node"]["allocatable.hugepages-2Mi"] = "4Mi", "4Mi"
			},
		},
	},
	{
		rule:      "cgroupAfterVolumes",
		kubelet:   Seen{"cgroups": {ofWaiting: "1"}, mountFailed: {"[0].message": "m"}},
		podstream: Seen{"cgroups": {}, mountFailed: {"[0].message": "m"}},
		neighbours: map[string]func(k, p Seen){
			"a pod that waits for nothing": func(k, p Seen) { delete(k, mountFailed); delete(p, mountFailed) },
			"another weight":               func(_, p Seen) { p["cgroups"][ofWaiting] = "2" },
			"another pod's": func(k, _ Seen) {
				k["cgroups"]["kubepods.slice/kubepods-podUID of other.slice/cpu.weight"] = "1"
			},
		},
	},
	{
		rule:      "messageOfWait",
		kubelet:   Seen{"pod web": {}, mountFailed: {"[0].message": "m"}},
		podstream: Seen{"pod web": {waitingMessage: "m"}, mountFailed: {"[0].message": "m"}},
		neighbours: map[string]func(k, p Seen){
			"another message":  func(_, p Seen) { p["pod web"][waitingMessage] = "n" },
			"both have one":    func(k, _ Seen) { k["pod web"][waitingMessage] = "n" },
			"without an event": func(k, p Seen) { delete(k, mountFailed); delete(p, mountFailed) },
		},
	},
	{
		rule: "mirrorGeneration", kubelet: Seen{"pod web-node": {}}, podstream: field("pod web-node", "status.observedGeneration", "1"),
		neighbours: map[string]func(k, p Seen){
			"another generation": func(_, p Seen) { p["pod web-node"]["status.observedGeneration"] = "2" },
			"a pod of the API server": func(k, p Seen) {
				k["pod web"], p["pod web"] = Fields{}, Fields{"status.observedGeneration": "1"}
			},
		},
	},
	{
		rule: "refusedManifest", kubelet: field("event Pod/twin-node FailedValidation", "[0].message",
			`Error validating pod twin-node_default(f7) from http due to duplicate pod name "twin-node", ignoring`),
		podstream: Seen{"event Node/node FailedValidation": nodeEventOf("Warning", "Error validating http://127.0.0.1:5055/twins#default/twin (2) from http, "+
			"ignoring: pod default/twin-node is defined by source http in http://127.0.0.1:5055/twins#default/twin already, which has precedence; "+
			"this one waits until that is gone")},
		neighbours: map[string]func(k, p Seen){
			"not reported": func(_, p Seen) { delete(p, "event Node/node FailedValidation") },
			"another pod": func(_, p Seen) {
				p["event Node/node FailedValidation"]["[0].message"] = "Error validating x from file, ignoring: y"
			},
		},
	},
	{
		rule: "imageBesideSandbox", kubelet: Seen{"event Pod/web FailedCreatePodSandBox": {"[0].message": "m"}},
		podstream: Seen{"event Pod/web FailedCreatePodSandBox": {"[0].message": "m"}, "event Pod/web Pulled": pulledEvent},
		neighbours: map[string]func(k, p Seen){
			"a sandbox that runs": func(k, p Seen) {
				delete(k, "event Pod/web FailedCreatePodSandBox")
				delete(p, "event Pod/web FailedCreatePodSandBox")
			},
			"another image": func(_, p Seen) { p["event Pod/web Pulled"]["[0].message"] = "m" },
		},
	},
	{
		rule: "imageBesideSandbox", kubelet: Seen{"event Pod/web FailedPodSandBoxStatus": {"[0].message": "m"}},
		podstream: Seen{"event Pod/web FailedPodSandBoxStatus": {"[0].message": "m"}, "event Pod/web Pulled": pulledEvent},
	},
	{
		rule: "sandboxAfterContainers", kubelet: field(killFailed, "[0].message", "error killing pod: ["+containerStays+", "+sandboxStays+"]"),
		podstream: field(killFailed, "[0].message", "error killing pod: "+containerStays),
		neighbours: map[string]func(k, p Seen){
			"only the sandbox":  func(_, p Seen) { p[killFailed]["[0].message"] = "error killing pod: " + sandboxStays },
			"another container": func(_, p Seen) { p[killFailed]["[0].message"] += "." },
			"another sandbox's error": func(k, _ Seen) {
				k[killFailed]["[0].message"] = "error killing pod: [" + containerStays + ", " + sandboxStays + ", and more]"
			},
		},
	},
	{
		rule: "criticalPodWaits",
		kubelet: Seen{
			"pod high": {"status.phase": "Running", "conditions.Ready.status": "True"}, "event Pod/high Started": {"[0].type": "Normal"},
			"cgroups": {"kubepods.slice/kubepods-podUID of high.slice/pids.max": "max"}, "event Pod/low ExceededGracePeriod": {"[0].type": "Warning"},
		},
		podstream: Seen{"pod high": {"status.phase": "Pending", "conditions": "{}"}, "cgroups": {}, "event Pod/low ExceededGracePeriod": {"[0].type": "Warning"}},
		neighbours: map[string]func(k, p Seen){
			"a pod that has failed": func(_, p Seen) { p["pod high"]["status.phase"] = "Failed" },
			"a pod that has ended": func(k, p Seen) {
				delete(k, "event Pod/low ExceededGracePeriod")
				delete(p, "event Pod/low ExceededGracePeriod")
			},
			"another pod": func(k, _ Seen) { k["event Pod/low Started"] = Fields{"[0].type": "Normal"} },
			"no class":    func(k, _ Seen) { k["pod high"]["status.qosClass"] = "BestEffort" },
		},
	},
}
