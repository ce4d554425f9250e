package criconfig

// The labels and annotations on sandboxes and containers, as the kubelet names them (pkg/kubelet/kuberuntime/labels.go).
const (
	PodNameLabel       = "io.kubernetes.pod.name"
	PodNamespaceLabel  = "io.kubernetes.pod.namespace"
	PodUIDLabel        = "io.kubernetes.pod.uid"
	ContainerNameLabel = "io.kubernetes.container.name"

	ContainerHashAnnotation             = "io.kubernetes.container.hash"
	RestartCountAnnotation              = "io.kubernetes.container.restartCount"
	TerminationMessagePathAnnotation    = "io.kubernetes.container.terminationMessagePath"
	TerminationMessagePolicyAnnotation  = "io.kubernetes.container.terminationMessagePolicy"
	PreStopHandlerAnnotation            = "io.kubernetes.container.preStopHandler"
	PortsAnnotation                     = "io.kubernetes.container.ports"
	PodDeletionGracePeriodAnnotation    = "io.kubernetes.pod.deletionGracePeriod"
	PodTerminationGracePeriodAnnotation = "io.kubernetes.pod.terminationGracePeriod"

	ConfigSourceAnnotation = "kubernetes.io/config.source"

	// AgentAnnotation marks the sandboxes and containers of one podexecd. Those without it, or with another value, are never
	// touched.
	AgentAnnotation = "podstream.io/agent"

	// MemoryRequestAnnotation is how much memory a container asked for when it was made, in bytes, if it wants to start anew when that
	// changes: of what it is held to, nothing tells.
	MemoryRequestAnnotation = "podstream.io/memory-request"
)
