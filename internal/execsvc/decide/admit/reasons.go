package admit

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// The reasons for which a pod is rejected, the kubelet's. Each becomes the reason of the pod's status.
const (
	// OutOf is followed by the name of the exhausted resource: OutOfcpu, OutOfpods.
	OutOf                    = "OutOf"
	NodeAffinity             = "NodeAffinity"
	NodeName                 = "NodeName"
	NodePorts                = "NodePorts"
	TaintToleration          = "TaintToleration"
	UnexpectedAdmissionError = "UnexpectedAdmissionError"
	// SysctlForbidden is for a sysctl that affects the whole node, or that the node's configuration does not allow.
	SysctlForbidden                      = "SysctlForbidden"
	AppArmor                             = "AppArmor"
	PodOSNotSupported                    = "PodOSNotSupported"
	PodOSSelectorNodeLabelDoesNotMatch   = "PodOSSelectorNodeLabelDoesNotMatch"
	SupplementalGroupsPolicyNotSupported = "SupplementalGroupsPolicyNotSupported"
	// PodFeatureUnsupported is for a pod that needs a feature that the node doesn't declare.
	PodFeatureUnsupported = "PodFeatureUnsupported"
	// Evicted is for a pod that can't be admitted while the node is short of a resource.
	Evicted = "Evicted"
	// NodeShutdown is for any pod while the machine shuts down.
	NodeShutdown = "NodeShutdown"
)

// rejections are the only reasons for which a pod is rejected: those for which the kubelet rejects a pod at admission,
// each with the function of pkg/kubelet that does so. A rejected pod of the API server becomes Failed, and its
// controller creates another one. A pod that needs any other feature that is missing here has Lacks, and waits.
var rejections = map[string]string{
	OutOf:                                "lifecycle.(*predicateAdmitHandler).Admit: InsufficientResourceError",
	NodeAffinity:                         "lifecycle.generalFilter: nodeaffinity.GetRequiredNodeAffinity",
	NodeName:                             "lifecycle.generalFilter: nodename.Fits",
	NodePorts:                            "lifecycle.generalFilter: nodeports.Fits",
	TaintToleration:                      "lifecycle.generalFilter: corev1.FindMatchingUntoleratedTaint",
	UnexpectedAdmissionError:             "lifecycle.(*predicateAdmitHandler).Admit: preemption.(*CriticalPodAdmissionHandler).HandleAdmissionFailure",
	SysctlForbidden:                      "sysctl.(*patternAllowlist).Admit",
	AppArmor:                             "lifecycle.(*appArmorAdmitHandler).Admit",
	PodOSNotSupported:                    "lifecycle.rejectPodAdmissionBasedOnOSField",
	PodOSSelectorNodeLabelDoesNotMatch:   "lifecycle.rejectPodAdmissionBasedOnOSSelector",
	SupplementalGroupsPolicyNotSupported: "lifecycle.rejectPodAdmissionBasedOnSupplementalGroupsPolicy",
	PodFeatureUnsupported:                "lifecycle.(*declaredFeaturesAdmitHandler).Admit",
	Evicted:                              "eviction.(*managerImpl).Admit",
	NodeShutdown:                         "nodeshutdown.(*managerImpl).Admit",
}

// Rejects reports whether the kubelet rejects a pod at admission for the reason.
func Rejects(reason string) bool {
	if strings.HasPrefix(reason, OutOf) {
		reason = OutOf
	}
	_, listed := rejections[reason]
	return listed
}

// RejectedPrefix begins the status message of a rejected pod, as in the kubelet.
const RejectedPrefix = "Pod was rejected: "

// Rejected reports whether the status is that of a rejected pod.
func Rejected(status *v1.PodStatus) bool { return strings.HasPrefix(status.Message, RejectedPrefix) }
