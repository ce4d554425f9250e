package kubeletmetrics

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	perPodBuckets    = prometheus.ExponentialBuckets(1, 2, 5)
	operationBuckets = prometheus.ExponentialBuckets(.005, 2.5, 14)
	startBuckets     = []float64{
		0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
	}
	pullBuckets       = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	statusSyncBuckets = []float64{0.010, 0.050, 0.100, 0.500, 1, 5, 10, 20, 30, 45, 60}
	resizeBuckets     = []float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000}
	deferredBuckets   = []float64{5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 300, 600, 1200, 1800, 3600}
)

// sizes are the lower bounds of image sizes, in bytes, with their labels in ImagePullDuration.
var sizes = []struct {
	above uint64
	label string
}{
	{100 << 30, "GT100GB"}, {60 << 30, "60GB-100GB"}, {40 << 30, "40GB-60GB"}, {30 << 30, "30GB-40GB"}, {20 << 30, "20GB-30GB"},
	{10 << 30, "10GB-20GB"}, {5 << 30, "5GB-10GB"}, {1 << 30, "1GB-5GB"}, {500 << 20, "500MB-1GB"}, {100 << 20, "100MB-500MB"},
	{10 << 20, "10MB-100MB"}, {0, "0-10MB"},
}

// SizeLabel returns the label of an image of that size; zero means that the size isn't known.
func SizeLabel(bytes uint64) string {
	for _, s := range sizes {
		if bytes > s.above {
			return s.label
		}
	}
	return "N/A"
}

// PriorityLabel returns the label of a pod's priority in the metrics of resizes. Nil is the default priority.
func PriorityLabel(priority *int32) string {
	switch {
	case priority == nil || *priority == 0:
		return "normal"
	case *priority >= 2_000_000_000:
		return "system-critical"
	case *priority >= 100_000:
		return "high"
	case *priority > 0:
		return "medium"
	case *priority > -1000:
		return "low"
	}
	return "very-low"
}

// StaticLabel returns the value of the label "static".
func StaticLabel(static bool) string {
	if static {
		return "true"
	}
	return ""
}

// The values of the label "container_type".
const (
	Container          = "container"
	InitContainer      = "init_container"
	EphemeralContainer = "ephemeral_container"
)

// rejections are the reasons of a rejection that become labels.
var rejections = []string{
	"AppArmor", "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "InvalidNodeInfo", "InitContainerRestartPolicyForbidden",
	"SupplementalGroupsPolicyNotSupported", "UnexpectedAdmissionError", "UnknownReason", "UnexpectedPredicateFailureType",
	"OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods", "PodLevelResourcesNotAdmittedReason", "PodFeatureUnsupported",
	"Evicted", "SysctlForbidden", "TopologyAffinityError", "NodeShutdown", "VolumeAttachmentLimitExceeded",
}

// RejectionLabel returns the label of a pod's rejection. A reason with the name of a resource could be any text.
func RejectionLabel(reason string) string {
	switch {
	case slices.Contains(rejections, reason):
		return reason
	case strings.HasPrefix(reason, "OutOf"):
		return "OutOfExtendedResources"
	}
	return "Other"
}

// ResourceLabel returns the label of a resource that is short on the node.
func ResourceLabel(name string) string {
	switch {
	case slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pods", ""}, name):
		return name
	case strings.HasPrefix(name, "hugepages-"):
		return "hugepages"
	}
	return Other
}

// ExitCodeLabel returns the label of a container's exit code.
func ExitCodeLabel(code int32) string {
	if code < 0 || code > 255 {
		return Other
	}
	return strconv.Itoa(int(code))
}
