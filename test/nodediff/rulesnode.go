package nodediff

import (
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	node      = regexp.MustCompile(`^node$`)
	nodeEvent = regexp.MustCompile(`^event Node/`)
	noPath    = regexp.MustCompile(`^$`)
)

// nodeRules are the differences of a node and its events.
var nodeRules = []Rule{
	{
		Name:    "version",
		Reason:  "podexecd reports the version of Kubernetes that it follows, and its name.",
		Section: node, Path: regexp.MustCompile(`^info\.kubeletVersion$`),
		When: func(d *Difference) bool {
			return kubeletVersion.MatchString(d.Kubelet) && ownVersion.MatchString(d.Podstream)
		},
	},
	{
		Name: "nodeEventUID",
		Reason: "Events of a Node from the kubelet of 1.35 have no UID, so that `kubectl describe node` doesn't find them (kubernetes#138524). " +
			"podexecd writes the Node's name, which kubectl looks for too.",
		Section: nodeEvent, Path: regexp.MustCompile(`^\[\d+\]\.object$`),
		When: func(d *Difference) bool { return d.Kubelet == "v1 /node  " && d.Podstream == "v1 /node node " },
	},
	{
		Name: "readyAtOnce",
		Reason: "The kubelet registers its Node before it is ready, and reports the change. podexecd registers a Node that is ready, which is no change: " +
			"the kubelet reports none then either.",
		Section: regexp.MustCompile(`^event Node/node NodeReady$`), Path: noPath,
		When: func(d *Difference) bool {
			ready := d.of.podstream["node"]["conditions.Ready.status"] == "True" || d.of.podstream["event Node/node NodeNotReady"] != nil
			return d.Kubelet == present && d.Podstream == absent && ready
		},
	},
	{
		Name: "containersNotListed",
		Reason: "The kubelet lists containers once more to remove the exited ones, and reports that it can't. podexecd has the last list. " +
			"If that is old, the node isn't ready, for that reason.",
		Case: regexp.MustCompile(`^garbage$`), Section: regexp.MustCompile(`^event Node/node ContainerGCFailed$`), Path: noPath,
		When: func(d *Difference) bool {
			return d.Kubelet == present && d.Podstream == absent && strings.HasPrefix(d.of.podstream["node"]["conditions.Ready.message"], "PLEG is not healthy: ") &&
				d.of.kubelet[d.Section]["[0].message"] == "rpc error: code = Internal desc = ListContainers: the runtime has a planted fault"
		},
	},
	{
		Name: "shareIn32Bits",
		Reason: "The kubelet computes thresholds that are percentages with numbers of 32 bits. podexecd's are exact. " +
			"Of 4 GB, the difference is less than 100 bytes.",
		Section: node, Path: regexp.MustCompile(`^allocatable\.(memory|ephemeral-storage)$`),
		When: func(d *Difference) bool {
			kubelet, err := resource.ParseQuantity(d.Kubelet)
			podstream, err2 := resource.ParseQuantity(d.Podstream) // A multiple of 1024 ends in Ki.
			k, p := kubelet.AsApproximateFloat64(), podstream.AsApproximateFloat64()
			return err == nil && err2 == nil && k != p && k-p < k/4e7 && p-k < k/4e7
		},
	},
}

var (
	kubeletVersion = regexp.MustCompile(`^v1\.37\.\d+$`)
	ownVersion     = regexp.MustCompile(`^v1\.\d+\.\d+-podstream$`)
)

// umlRules are differences on a machine without the controller cpuset, such as User-Mode Linux.
var umlRules = []Rule{
	{
		Name: "noCpuset",
		Reason: "The kubelet sets the processors of all pods' cgroup, and fails without the controller cpuset, after it has set the rest. " +
			"podexecd sets none.",
		Section: regexp.MustCompile(`^event Node/node FailedNodeAllocatableEnforcement$`), Path: noPath,
		When: func(d *Difference) bool {
			return d.Kubelet == present && d.Podstream == absent && failsForCpuset(d.of.kubelet)
		},
	},
	{
		Name:    "noCpuset",
		Reason:  "The kubelet has the event FailedNodeAllocatableEnforcement instead.",
		Section: regexp.MustCompile(`^event Node/node NodeAllocatableEnforced$`), Path: noPath,
		When: func(d *Difference) bool {
			return d.Kubelet == absent && d.Podstream == present && failsForCpuset(d.of.kubelet) &&
				maps.Equal(d.of.podstream[d.Section], nodeEventOf("Normal", "Updated Node Allocatable limit across pods"))
		},
	},
	{
		Name: "oomLineWithoutCpuset",
		Reason: "The kubelet doesn't read the line of a cgroup's OOM of a kernel without cpusets, and so takes it for one of the system. " +
			"podexecd reads it.",
		Case: regexp.MustCompile(`^container-oom$`), Section: regexp.MustCompile(`^event Node/node SystemOOM$`), Path: noPath,
		When: func(d *Difference) bool {
			return d.Kubelet == present && d.Podstream == absent && strings.HasPrefix(d.of.kubelet[d.Section]["[0].message"], "System OOM encountered, victim process: sample")
		},
	},
}

// nodeEventOf returns the section of podexecd's event of the Node.
func nodeEventOf(kind, message string) Fields {
	return Fields{
		"[0].type": kind, "[0].message": message, "[0].namespace": "default", "[0].object": "v1 /node node ", "[0].source": "kubelet node",
		"[0].reporter": "kubelet node",
	}
}

// failsForCpuset reports whether the kubelet fails because there is no controller cpuset.
func failsForCpuset(kubelet Seen) bool {
	return strings.HasSuffix(kubelet["event Node/node FailedNodeAllocatableEnforcement"]["[0].message"], "/cpuset.cpus: no such file or directory")
}

// chanceRules are differences that not each run has.
var chanceRules = []Rule{
	{
		Name: "imageDiskNotYetKnown", ByChance: true,
		Reason: "The kubelet's first look for images to remove may come before it has measured the disk, and then has this event. " +
			"podexecd measures first.",
		Section: regexp.MustCompile(`^event Node/node InvalidDiskCapacity$`), Path: noPath,
		When: func(d *Difference) bool {
			return d.Kubelet == present && d.Podstream == absent && d.of.kubelet[d.Section]["[0].message"] == "invalid capacity 0 on image filesystem"
		},
	},
}

// valueRules are the differences of values that an agent refuses.
var valueRules = []Rule{
	{
		Name: "enforcesNothingByDefault",
		Reason: "The kubelet refuses cgroupsPerQOS: false unless enforceNodeAllocatable, whose default is pods, is set too. With podexecd its " +
			"default is none then: there is no cgroup to limit.",
		Section: regexp.MustCompile(`^value cgroupsPerQOS: false$`), Path: regexp.MustCompile(`^(refused|names the field)$`),
		When: func(d *Difference) bool {
			return d.Kubelet == "true" && d.of.podstream[d.Section]["refused"] == "false" && (d.Path == "refused" || d.Podstream == absent)
		},
	},
}
