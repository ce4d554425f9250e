package kubeletmetrics

import "github.com/prometheus/client_golang/prometheus"

// The container runtime, its pods and containers, and their images.
var (
	PLEGRelistDuration = Histogram{
		Name: "kubelet_pleg_relist_duration_seconds", Help: "How long it takes to list all pods.", Buckets: prometheus.DefBuckets,
	}
	PLEGRelistInterval = Histogram{
		Name: "kubelet_pleg_relist_interval_seconds", Help: "Time between the beginnings of two relists.", Buckets: prometheus.DefBuckets,
	}
	PLEGPodRelistDuration = Histogram{
		Name: "kubelet_pleg_pod_relist_duration_seconds", Help: "How long it takes to read one pod in full.", Buckets: prometheus.DefBuckets,
	}
	PLEGLastSeen = Gauge{
		Name: "kubelet_pleg_last_seen_seconds", Help: "Unix time of the last relist that went well.",
	}
	PLEGDiscardEvents = Counter{
		Name: "kubelet_pleg_discard_events", Help: "Events that were discarded. Always 0: none are.",
	}
	EventedPLEGErrors = Counter{
		Name: "kubelet_evented_pleg_connection_error_count", Help: "Times that the stream of the runtime's events failed or ended.",
	}
	EventedPLEGConnections = Counter{
		Name: "kubelet_evented_pleg_connection_success_count", Help: "Times that the stream of the runtime's events was opened.",
	}
	EventedPLEGLatency = Histogram{
		Name: "kubelet_evented_pleg_connection_latency_seconds", Help: "Time from a runtime's event to its arrival.", Buckets: prometheus.DefBuckets,
	}
	RuntimeOperations = Counter{
		Name: "kubelet_runtime_operations_total", Help: "Calls of the container runtime.", Labels: []string{"operation_type"},
	}
	RuntimeOperationsDuration = Histogram{
		Name: "kubelet_runtime_operations_duration_seconds", Help: "Duration of the calls of the container runtime.",
		Labels: []string{"operation_type"}, Buckets: operationBuckets,
	}
	RuntimeOperationsErrors = Counter{
		Name: "kubelet_runtime_operations_errors_total", Help: "Calls of the container runtime that failed.", Labels: []string{"operation_type"},
	}
	RunPodSandboxDuration = Histogram{
		Name: "kubelet_run_podsandbox_duration_seconds", Help: "How long it takes to run a sandbox, by the handler of its RuntimeClass.",
		Labels: []string{"runtime_handler"}, Buckets: prometheus.DefBuckets,
	}
	RunPodSandboxErrors = Counter{
		Name: "kubelet_run_podsandbox_errors_total", Help: "Sandboxes that could not be run, by the handler of their RuntimeClass.",
		Labels: []string{"runtime_handler"},
	}
	StartedPods = Counter{
		Name: "kubelet_started_pods_total", Help: "Sandboxes that were created, or tried to be.",
	}
	StartedPodsErrors = Counter{
		Name: "kubelet_started_pods_errors_total", Help: "Sandboxes that could not be created.",
	}
	StartedUserNamespacedPods = Counter{
		Name: "kubelet_started_user_namespaced_pods_total", Help: "Sandboxes with a user namespace that were created, or tried to be.",
	}
	StartedUserNamespacedPodsErrors = Counter{
		Name: "kubelet_started_user_namespaced_pods_errors_total",
		Help: "Syncs that created a sandbox with a user namespace, and failed.",
	}
	StartedContainers = Counter{
		Name: "kubelet_started_containers_total", Help: "Containers that were started, or tried to be.", Labels: []string{"container_type"},
	}
	StartedContainersErrors = Counter{
		Name: "kubelet_started_containers_errors_total", Help: "Containers that could not be started, by reason.",
		Labels: []string{"container_type", "code"},
	}
	TerminatedContainers = Counter{
		Name: "kubelet_terminated_containers_total", Help: "Containers that ended, by exit code and reason.",
		Labels: []string{"container_type", "exit_code", "reason"},
	}
	ImageVolumesRequested = Counter{
		Name: "kubelet_image_volume_requested_total", Help: "Image volumes that started containers have.",
	}
	ImageVolumesMounted = Counter{
		Name: "kubelet_image_volume_mounted_succeed_total", Help: "Mounts of image volumes that went well.",
	}
	ImageVolumesErrors = Counter{
		Name: "kubelet_image_volume_mounted_errors_total", Help: "Mounts of image volumes that failed.",
	}
	ImagePullDuration = Histogram{
		Name: "kubelet_image_pull_duration_seconds", Help: "Duration of successful pulls, their time in the queue included, by the image's size.",
		Labels: []string{"image_size_in_bytes"}, Buckets: pullBuckets,
	}
	ImageGarbageCollected = Counter{
		Name: "kubelet_image_garbage_collected_total", Help: "Removed unused images, by reason: space or age.", Labels: []string{"reason"},
	}
	LifecycleHTTPFallbacks = Counter{
		Name: "kubelet_lifecycle_handler_http_fallbacks_total", Help: "HTTPS hooks that were answered by HTTP, and succeeded over HTTP.",
	}
	SleepTerminatedEarly = Counter{
		Name: "kubelet_sleep_action_terminated_early_total", Help: "Sleep hooks that were ended before their time.",
	}
)

// The plugins that provide credentials for pulls (pkg/credentialprovider/plugin).
var (
	CredentialProviderDuration = Histogram{
		Name: "kubelet_credential_provider_plugin_duration", Help: "Duration of the runs of a credential provider, in seconds.",
		Labels: []string{"plugin_name"}, Buckets: prometheus.DefBuckets,
	}
	CredentialProviderErrors = Counter{
		Name: "kubelet_credential_provider_plugin_errors_total", Help: "Runs of a credential provider that failed.", Labels: []string{"plugin_name"},
	}
)
