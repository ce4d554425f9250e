package criconfig

// The annotations on containers, most of them with the kubelet's keys (pkg/kubelet/kuberuntime/labels.go). Package
// podmeta has the labels.
const (
	ContainerHashAnnotation             = "io.kubernetes.container.hash"
	RestartCountAnnotation              = "io.kubernetes.container.restartCount"
	TerminationMessagePathAnnotation    = "io.kubernetes.container.terminationMessagePath"
	TerminationMessagePolicyAnnotation  = "io.kubernetes.container.terminationMessagePolicy"
	PreStopHandlerAnnotation            = "io.kubernetes.container.preStopHandler"
	PortsAnnotation                     = "io.kubernetes.container.ports"
	PodDeletionGracePeriodAnnotation    = "io.kubernetes.pod.deletionGracePeriod"
	PodTerminationGracePeriodAnnotation = "io.kubernetes.pod.terminationGracePeriod"

	// MemoryRequestAnnotation has a container's memory request at its creation, in bytes, if the container restarts
	// when that changes. The runtime reports the limit only.
	MemoryRequestAnnotation = "podstream.io/memory-request"
)
