package cridiff

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Rule is an intended difference between what the kubelet and Podstream do.
type Rule struct {
	Name string
	// Reason is what the kubelet does, and why Podstream does something else.
	Reason string
	// Step and Path must match the difference.
	Step, Path *regexp.Regexp
	// When decides on the values.
	When func(d *Difference) bool
	// ByChance: a run may have no such difference.
	ByChance bool
}

// configs matches the part of a path before the fields of a sandbox's configuration, which is in several requests.
const configs = `^(config|sandboxConfig)\.`

var (
	anyRequest      = regexp.MustCompile(`^(RunPodSandbox|PullImage .*|CreateContainer .*)$`)
	createContainer = regexp.MustCompile(`^CreateContainer `)
	stopContainer   = regexp.MustCompile(`^StopContainer `)
)

// Rules are all intended differences. Each has examples in TestRules.
var Rules = slices.Concat(requestRules, lifeRules, insideRules, resizeRules)

// requestRules are the differences of requests, and of what an agent makes and says itself.
var requestRules = []Rule{
	{
		Name:   "agentAnnotation",
		Reason: "podexecd marks its sandboxes and containers with its ID, and touches no others.",
		Step:   anyRequest, Path: regexp.MustCompile(configs + `annotations\.podstream\.io/agent$`),
		When: func(d *Difference) bool {
			of, given := d.Pod.Annotations["podstream.io/agent"]
			given = given && d.sandboxOf()
			return uuid.MatchString(d.Podstream) && (!given && d.Kubelet == absent || given && d.Kubelet == of)
		},
	},
	{
		Name:   "firstSeenTime",
		Reason: "The agents read the manifest at different times.",
		Step:   anyRequest, Path: regexp.MustCompile(`^(config|sandboxConfig|image|config\.mounts\[\d+\]\.image)\.annotations\.kubernetes\.io/config\.seen$`),
		When: func(d *Difference) bool { return isTime(d.Kubelet) && isTime(d.Podstream) },
	},
	{
		Name:   "terminationLogName",
		Reason: "The kubelet's file for the termination message has a random name. podexecd's has the restart count, to find it again.",
		Step:   createContainer, Path: regexp.MustCompile(`^config\.mounts\[\d+\]\.hostPath$`),
		When: terminationLog,
	},
	{
		Name:   "maskedPathsOrder",
		Reason: "The order of the hidden paths has no effect, as none is beneath another.",
		Step:   createContainer, Path: regexp.MustCompile(`^config\.linux\.securityContext\.maskedPaths\[\d+\]$`),
		When: sameElements,
	},
	{
		Name:   "dnsOptionsOrder",
		Reason: "The kubelet merges the node's and the pod's resolver options in a random order. podexecd's is theirs.",
		Step:   anyRequest, Path: regexp.MustCompile(configs + `dnsConfig\.options\[\d+\]$`),
		When: sameElements, ByChance: true,
	},
	{
		Name:   "environmentOrder",
		Reason: "The kubelet sends the variables in a random order, podexecd in the pod's.",
		Step:   createContainer, Path: regexp.MustCompile(`^config\.envs\[\d+\]\.(key|value)$`),
		When: sameVariables, ByChance: true,
	},
	{
		Name: "deprecatedAppArmorField",
		Reason: "The kubelet sends the profile in the deprecated field too. Every runtime of CRI v1 prefers the current one, which " +
			"podexecd sends.",
		Step: createContainer, Path: regexp.MustCompile(`^config\.linux\.securityContext\.apparmorProfile$`),
		When: deprecatedAppArmor,
	},
	{
		Name: "relabelWithoutSELinux",
		Reason: "Without SELinux the kubelet doesn't ask for relabelled volumes. podexecd asks on each node; a runtime without SELinux " +
			"relabels nothing.",
		Step: createContainer, Path: regexp.MustCompile(`^config\.mounts\[\d+\]\.selinuxRelabel$`),
		When: func(d *Difference) bool {
			return d.Kubelet == absent && d.Podstream == "true" && strings.HasPrefix(d.sibling("hostPath"), "ROOT/pods/"+d.UID+"/")
		},
	},
	{
		Name: "groupWithoutUser",
		Reason: "The kubelet sends a sandbox's group without a user, for which runtimes must return an error: the pod never starts. " +
			"podexecd leaves the sandbox's group out; the containers have it.",
		Step: anyRequest, Path: regexp.MustCompile(configs + `linux\.securityContext\.runAsGroup(\.value)?$`),
		When: func(d *Difference) bool {
			sc := d.Pod.Spec.SecurityContext
			return d.Podstream == absent && sc != nil && sc.RunAsUser == nil && sc.RunAsGroup != nil && d.sandboxOf() &&
				(d.Kubelet == decimal(sc.RunAsGroup) || d.Kubelet == "{}" && *sc.RunAsGroup == 0)
		},
	},
	{
		Name:   "metadataOfServer",
		Reason: "The kubelet keeps a static pod's deletionGracePeriodSeconds. podconfigd leaves out metadata that only an API server sets.",
		Step:   createContainer, Path: regexp.MustCompile(`^config\.annotations\.io\.kubernetes\.pod\.deletionGracePeriod$`),
		When: func(d *Difference) bool {
			return d.Podstream == absent && d.Kubelet == decimal(d.Pod.DeletionGracePeriodSeconds)
		},
	},
	{
		Name:   "metadataOfServer",
		Reason: "The kubelet stops such a pod in that time, podexecd in its terminationGracePeriodSeconds.",
		Step:   stopContainer, Path: regexp.MustCompile(`^timeout$`),
		When: func(d *Difference) bool {
			return d.Kubelet == decimal(d.Pod.DeletionGracePeriodSeconds) && d.Podstream == decimal(d.Pod.Spec.TerminationGracePeriodSeconds)
		},
	},
	{
		Name:   "statusOfManifest",
		Reason: "The kubelet takes a static pod's QoS class from a status in the manifest. podconfigd leaves the status out: only the node knows it.",
		Step:   anyRequest, Path: regexp.MustCompile(`^((config|sandboxConfig)\.linux\.cgroupParent|config\.linux\.resources\.oomScoreAdj)$`),
		When: func(d *Difference) bool {
			class := d.Pod.Status.QOSClass
			if d.Path == "config.linux.resources.oomScoreAdj" {
				return class == v1.PodQOSBurstable && d.Podstream == "-997" && burstableScore.MatchString(d.Kubelet)
			}
			return class != "" && strings.Replace(d.Kubelet, "/"+strings.ToLower(string(class)), "", 1) == d.Podstream
		},
	},
	{
		Name: "userNamespaceRange",
		Reason: "Both give a pod 65,536 IDs that no other pod has. The kubelet takes the first free ones from a random place on, podexecd " +
			"from the lowest.",
		Step: anyRequest,
		Path: regexp.MustCompile(`^((config|sandboxConfig)\.linux\.securityContext\.namespaceOptions\.usernsOptions\.(uids|gids)|config\.mounts\[\d+\]\.(uid|gid)Mappings)\[0\]\.hostId$`),
		When: func(d *Difference) bool {
			return d.hasRange(d.of.kubelet, d.Kubelet) && d.hasRange(d.of.podstream, d.Podstream)
		},
	},
	{
		Name: "directoryAboveVolumes",
		Reason: "The kubelet makes the directory of a plugin's volumes with 0755, podexecd with 0750 like all directories above it, which " +
			"are the kubelet's too: only root comes to it.",
		Step: regexp.MustCompile(`^` + filesStep + `$`), Path: regexp.MustCompile(`^volumes/kubernetes\.io~[a-z-]+$`),
		When: func(d *Difference) bool { return d.Kubelet == "drwxr-xr-x 0:0" && d.Podstream == "drwxr-x--- 0:0" },
	},
	{
		Name: "downwardAPIOnDisk",
		Reason: "The kubelet has the files of a downwardAPI volume in memory, like a secret's. podexecd has them on the disk, like a " +
			"ConfigMap's: they are no secrets. A process finds the same files, and the volume's directory has no sticky bit.",
		Step: regexp.MustCompile(`^` + filesStep + `$`), Path: regexp.MustCompile(`^volumes/kubernetes\.io~downward-api/[^/]+$`),
		When: func(d *Difference) bool {
			return strings.Replace(d.Kubelet, "t", "", 1) == d.Podstream && stickyDirectory.MatchString(d.Kubelet)
		},
	},
	{
		Name:   "subPathOfOtherVolumes",
		Reason: "In a pod with an image volume the kubelet sends the subPath of other volumes as an image's too. Runtimes read it with an image only.",
		Step:   createContainer, Path: regexp.MustCompile(`^config\.mounts\[\d+\]\.imageSubPath$`),
		When: func(d *Difference) bool {
			images := slices.ContainsFunc(d.Pod.Spec.Volumes, func(v v1.Volume) bool { return v.Image != nil })
			c, at := d.container(), d.sibling("containerPath")
			return d.Podstream == absent && images && d.sibling("hostPath") != absent && c != nil &&
				slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool {
					return m.SubPath == d.Kubelet && (m.MountPath == at || "/"+m.MountPath == at)
				})
		},
	},
	{
		Name: "sidecarTime", ByChance: true,
		Reason: "A sidecar's grace period is less the whole seconds that the main containers took to end. That isn't always the same.",
		Step:   stopContainer, Path: regexp.MustCompile(`^timeout$`),
		When: restOfGrace,
	},
	{
		Name:   "runAsNonRootMessage",
		Reason: "The kubelet's message names the pod and the container in whose status it is. podexecd's doesn't.",
		Step:   regexp.MustCompile(`^` + outcomeStep + `$`), Path: regexp.MustCompile(`^waiting\.[^.]+\.message$`),
		When: func(d *Difference) bool {
			container := strings.TrimSuffix(strings.TrimPrefix(d.Path, "waiting."), ".message")
			of := fmt.Sprintf(" (pod: %q, container: %s)", fmt.Sprintf("%s-%s_%s(%s)", d.Pod.Name, nodeName, d.Pod.Namespace, d.UID), container)
			return nonRoot.MatchString(d.Podstream) && d.Kubelet == d.Podstream+of
		},
	},
	{
		Name:   "appArmorMessage",
		Reason: "The kubelet's message ends with the profile as a Go value, with a pointer.",
		Step:   regexp.MustCompile(`^` + outcomeStep + `$`), Path: regexp.MustCompile(`^message$`),
		When: func(d *Difference) bool {
			return strings.HasSuffix(d.Podstream, "invalid empty AppArmor profile name") &&
				d.Kubelet == d.Podstream+`: "&AppArmorProfile{Type:Localhost,LocalhostProfile:*,}"`
		},
	},
	{
		Name: "memoryReservationPolicy",
		Reason: "With the gate MemoryQoS, Kubernetes 1.35 protects each memory request by memory.min. Since 1.36 memoryReservationPolicy, None " +
			"by default, decides.",
		Step: createContainer, Path: regexp.MustCompile(`^config\.linux\.resources\.unified\.memory\.min$`),
		When: func(d *Difference) bool {
			c := d.container()
			return d.Podstream == absent && c != nil && d.Kubelet == strconv.FormatInt(c.Resources.Requests.Memory().Value(), 10)
		},
	},
	{
		Name:   "throttledBestEffort",
		Reason: "Kubernetes 1.35 throttles no container without a memory request and limit, 1.37 does.",
		Step:   createContainer, Path: regexp.MustCompile(`^config\.linux\.resources\.unified\.memory\.high$`),
		When: func(d *Difference) bool {
			c := d.container()
			high, err := strconv.ParseInt(d.Podstream, 10, 64)
			return d.Kubelet == absent && err == nil && high > 0 && high%4096 == 0 && c != nil &&
				c.Resources.Requests.Memory().IsZero() && c.Resources.Limits.Memory().IsZero()
		},
	},
	{
		Name:   "sysAdminWithoutPrefix",
		Reason: "Kubernetes 1.37 refuses SYS_ADMIN with allowPrivilegeEscalation false, 1.35 only CAP_SYS_ADMIN.",
		Step:   regexp.MustCompile(`^$`), Path: regexp.MustCompile(`^$`),
		When: func(d *Difference) bool {
			return d.Kubelet == made && d.Podstream == absent && slices.ContainsFunc(d.Pod.Spec.Containers, func(c v1.Container) bool {
				sc := ptr.Deref(c.SecurityContext, v1.SecurityContext{})
				return !ptr.Deref(sc.AllowPrivilegeEscalation, true) && sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "SYS_ADMIN")
			})
		},
	},
}

// Explain returns the name of the rule that explains a difference, or an empty string.
func Explain(d *Difference) string {
	for i := range Rules {
		if r := &Rules[i]; r.Step.MatchString(d.Step) && r.Path.MatchString(d.Path) && r.When(d) {
			return r.Name
		}
	}
	return ""
}
