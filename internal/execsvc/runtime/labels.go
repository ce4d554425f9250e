package runtime

// The labels and annotations on sandboxes and containers, as the kubelet names them (pkg/kubelet/kuberuntime/labels.go).
const (
	podNameLabel       = "io.kubernetes.pod.name"
	podNamespaceLabel  = "io.kubernetes.pod.namespace"
	podUIDLabel        = "io.kubernetes.pod.uid"
	containerNameLabel = "io.kubernetes.container.name"

	containerHashAnnotation             = "io.kubernetes.container.hash"
	restartCountAnnotation              = "io.kubernetes.container.restartCount"
	terminationMessagePathAnnotation    = "io.kubernetes.container.terminationMessagePath"
	terminationMessagePolicyAnnotation  = "io.kubernetes.container.terminationMessagePolicy"
	preStopHandlerAnnotation            = "io.kubernetes.container.preStopHandler"
	portsAnnotation                     = "io.kubernetes.container.ports"
	podDeletionGracePeriodAnnotation    = "io.kubernetes.pod.deletionGracePeriod"
	podTerminationGracePeriodAnnotation = "io.kubernetes.pod.terminationGracePeriod"

	configSourceAnnotation = "kubernetes.io/config.source"

	// AgentAnnotation marks the sandboxes and containers of one podexecd. Those without it, or with another value, are never
	// touched.
	AgentAnnotation = "podstream.io/agent"
)
