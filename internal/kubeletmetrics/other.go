package kubeletmetrics

import "github.com/prometheus/client_golang/prometheus"

const (
	minute, hour, day = 60., 3600., 24 * 3600.
)

var httpLabels = []string{"method", "path", "server_type", "long_running"}

// The node's API (pkg/kubelet/server/metrics), and the checks of its health (k8s.io/component-base/metrics/prometheus/slis).
var (
	HTTPRequests = Counter{
		Name: "kubelet_http_requests_total", Help: "Requests that the node's API has received.", Labels: httpLabels,
	}
	HTTPInflightRequests = Gauge{
		Name: "kubelet_http_inflight_requests", Help: "Requests to the node's API under way.", Labels: httpLabels,
	}
	HTTPRequestsDuration = Histogram{
		Name: "kubelet_http_requests_duration_seconds", Help: "How long requests to the node's API took.", Labels: httpLabels,
		Buckets: prometheus.DefBuckets,
	}
	WebSocketRequests = Counter{
		Name: "kubelet_websocket_streaming_requests_total", Help: "WebSocket requests that were translated for the container runtime.",
		Labels: []string{"subresource"},
	}
	Healthcheck = Gauge{
		Name: "kubernetes_healthcheck", Help: "The last result of a check: 1 if it was successful.", Labels: []string{"name", "type"},
	}
	Healthchecks = Counter{
		Name: "kubernetes_healthchecks_total", Help: "Results of a check.", Labels: []string{"name", "type", "status"},
	}
	FeatureEnabled = Gauge{
		Name: "kubernetes_feature_enabled", Help: "The feature gates: 1 if podexecd has the feature.", Labels: []string{"name", "stage"},
	}
	// ProcessStart is for pages without the other metrics of the process.
	ProcessStart = Gauge{Name: "process_start_time_seconds", Help: "Start of the process, in Unix time."}
)

// The probes of containers (pkg/kubelet/prober). Series of pods that are gone are removed.
var (
	Probes = Counter{
		Name: "prober_probe_total", Help: "Probes of containers by their result: successful, failed, or unknown if the container couldn't be asked.",
		Labels: []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"},
	}
	ProbeDuration = Histogram{
		Name: "prober_probe_duration_seconds", Help: "Time that successful probes took.",
		Labels: []string{"probe_type", "container", "pod", "namespace"}, Buckets: prometheus.DefBuckets,
	}
)

// The node's certificates (pkg/kubelet/certificate).
var (
	ClientRenewErrors = Counter{
		Name: "kubelet_certificate_manager_client_expiration_renew_errors", Help: "Failed attempts to get a client certificate.",
	}
	ClientTTL = Gauge{
		Name: "kubelet_certificate_manager_client_ttl_seconds", Help: "Seconds until the client certificate expires; infinite if there is none.",
	}
	ServerRenewErrors = Counter{
		Name: "kubelet_server_expiration_renew_errors", Help: "Failed attempts to get a serving certificate.",
	}
	ServerTTL = Gauge{
		Name: "kubelet_certificate_manager_server_ttl_seconds", Help: "Seconds until the serving certificate expires; infinite if there is none.",
	}
	ServerRotation = Histogram{
		Name: "kubelet_certificate_manager_server_rotation_seconds", Help: "How old serving certificates were when they were replaced.",
		Buckets: []float64{minute, hour, 4 * hour, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 4 * 360 * day},
	}
)

// The records of image pulls (pkg/kubelet/images/pullmanager).
var (
	PullIntents = Gauge{
		Name: "kubelet_imagemanager_ondisk_pullintents", Help: "ImagePullIntents on the disk.",
	}
	PulledRecords = Gauge{
		Name: "kubelet_imagemanager_ondisk_pulledrecords", Help: "ImagePulledRecords on the disk.",
	}
	MustPullChecks = Counter{
		Name: "kubelet_imagemanager_image_mustpull_checks_total",
		Help: "Checks whether a pod may use an image that the node has, by result: credentialPolicyAllowed, credentialRecordFound, " +
			"mustAuthenticate or error.",
		Labels: []string{"result"},
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
	CredentialProviderConfigInfo = Gauge{
		Name: "kubelet_credential_provider_config_info", Help: "The configuration of the credential providers, by the hash of its files. Always 1.",
		Labels: []string{"hash"},
	}
)
