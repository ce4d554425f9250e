package nodediff

import (
	"maps"
	"regexp"
	"strings"
)

var (
	podSection = regexp.MustCompile(`^pod `)
	// podSlice matches the files of a pod's slice, and finds the pod's name.
	podSlice = regexp.MustCompile(`^kubepods\.slice/.*-podUID of ([a-z-]+)\.slice/[^/]+$`)
)

// pulledEvent is the event of the pod web whose image is on the node.
var pulledEvent = Fields{
	"[0].type": "Normal", "[0].namespace": "default", "[0].source": "kubelet node", "[0].reporter": "kubelet node",
	"[0].message": `Container image "localhost/podstream-sample:dev" already present on machine and can be accessed by the pod`,
	"[0].object":  "v1 default/web UID of web spec.containers{app}",
}

// podRules are the differences of pods and their events.
var podRules = []Rule{
	{
		Name:    "cgroupAfterVolumes",
		Reason:  "The kubelet makes a pod's cgroup before it mounts the pod's volumes, podexecd after that. A pod that waits for volumes has no process.",
		Section: cgroupsSection, Path: podSlice,
		When: func(d *Difference) bool {
			return d.Podstream == absent && d.of.podstream["event Pod/"+podSlice.FindStringSubmatch(d.Path)[1]+" FailedMount"] != nil
		},
	},
	{
		Name:    "messageOfWait",
		Reason:  "A container that waits for its pod's volumes or sandbox has the message of the event. With the kubelet it has none.",
		Section: podSection, Path: regexp.MustCompile(`^status\.containerStatuses\[\d+\]\.state\.waiting\.message$`),
		When: func(d *Difference) bool {
			events := "event Pod/" + strings.TrimPrefix(d.Section, "pod ")
			mount, sandbox := d.of.podstream[events+" FailedMount"], d.of.podstream[events+" FailedCreatePodSandBox"]
			return d.Kubelet == absent && (d.Podstream == mount["[0].message"] || "Failed to create pod sandbox: "+d.Podstream == sandbox["[0].message"])
		},
	},
	{
		Name: "limitOfEndedPod",
		Reason: "The kubelet reads a pod's actual limits from its cgroup, also when that is gone because the pod has ended. podexecd " +
			"reports those of its containers then.",
		Section: podSection, Path: regexp.MustCompile(`^status\.resources\.limits\.(cpu|memory)$`),
		When: func(d *Difference) bool {
			own := d.of.podstream[d.Section]
			ended := own["status.phase"] == "Failed" || own["status.phase"] == "Succeeded"
			return d.Kubelet == absent && ended && own["status.containerStatuses[0]."+strings.TrimPrefix(d.Path, "status.")] == d.Podstream
		},
	},
	{
		Name:    "imageBesideSandbox",
		Reason:  "podexecd pulls images while the sandbox is made, the kubelet when that is ready.",
		Section: regexp.MustCompile(`^event Pod/web Pulled$`), Path: noPath,
		When: func(d *Difference) bool {
			made, ready := d.of.kubelet["event Pod/web FailedCreatePodSandBox"] == nil, d.of.kubelet["event Pod/web FailedPodSandBoxStatus"] == nil
			return d.Kubelet == absent && d.Podstream == present && !(made && ready) && maps.Equal(d.of.podstream[d.Section], pulledEvent)
		},
	},
	{
		Name: "sandboxAfterContainers",
		Reason: "The kubelet stops a pod's sandbox although a container of it couldn't be stopped, which the runtime kills then. With podexecd a " +
			"container keeps its grace period and its network until it has ended.",
		Section: regexp.MustCompile(`^event Pod/web FailedKillPod$`), Path: regexp.MustCompile(`^\[0\]\.message$`),
		When: func(d *Difference) bool {
			const start = "error killing pod: "
			own, ok := strings.CutPrefix(d.Podstream, start)
			return ok && strings.HasPrefix(own, `failed to "KillContainer" for "app" with KillContainerError: "rpc error: `) &&
				d.Kubelet == start+"["+own+`, failed to "KillPodSandbox" for "UID of web" with KillPodSandboxError: `+
					`"rpc error: code = Internal desc = StopPodSandbox: the runtime has a planted fault"]`
		},
	},
	{
		Name:    "mirrorGeneration",
		Reason:  "podexecd reports of a mirror pod which generation of it the status is of. With the kubelet it has none.",
		Section: regexp.MustCompile(`^pod .*-node$`), Path: regexp.MustCompile(`^status\.observedGeneration$`),
		When: func(d *Difference) bool { return d.Kubelet == absent && d.Podstream == "1" },
	},
	{
		Name: "refusedManifest",
		Reason: "podexecd reports a manifest that podconfigd refuses by an event of the Node, as there is no pod. The kubelet only logs one that is " +
			"invalid.",
		Section: regexp.MustCompile(`^event Node/node FailedValidation$`), Path: noPath,
		When: func(d *Difference) bool {
			message := d.of.podstream[d.Section]["[0].message"]
			return d.Kubelet == absent && d.Podstream == present && refusedManifest.MatchString(message) &&
				maps.Equal(d.of.podstream[d.Section], nodeEventOf("Warning", message))
		},
	},
	{
		Name:    "refusedManifest",
		Reason:  "The kubelet's event of a second pod of one name is of the pod that it doesn't run.",
		Section: regexp.MustCompile(`^event Pod/twin-node FailedValidation$`), Path: noPath,
		When: func(d *Difference) bool {
			return d.Kubelet == present && d.Podstream == absent && d.of.podstream["event Node/node FailedValidation"] != nil &&
				strings.HasSuffix(d.of.kubelet[d.Section]["[0].message"], `due to duplicate pod name "twin-node", ignoring`)
		},
	},
	{
		Name: "criticalPodWaits",
		Reason: "The kubelet starts a critical pod although the pod that it evicted for it hasn't ended in time. podexecd starts it when that has ended: " +
			"until then the node is full.",
		Section: regexp.MustCompile(`^(pod high|event Pod/high (Created|Pulled|Started)|cgroups)$`),
		Path:    regexp.MustCompile(`^(|conditions.*|status\..*|kubepods\.slice/.*-podUID of high\.slice/[^/]+)$`),
		When: func(d *Difference) bool {
			waits := d.of.podstream["pod high"]["status.phase"] == "Pending" && d.of.podstream["event Pod/low ExceededGracePeriod"] != nil
			return waits && d.Section+d.Path != "cgroups" && d.Path != "status.qosClass" &&
				(d.Podstream == absent || d.Path == "conditions" && d.Podstream == "{}" || d.Path == "status.phase")
		},
	},
}

// refusedManifest matches the message of podexecd's event.
var refusedManifest = regexp.MustCompile(`^Error validating (document 1 of DIR/manifests/bad\.yaml from file, ignoring: podctl sources on the node shows the reason` +
	`|http://127\.0\.0\.1:5055/twins#default/twin \(2\) from http, ignoring: pod default/twin-node is defined by source http in \S+ already, ` +
	`which has precedence; this one waits until that is gone)$`)
