package kubeletmetrics

import "github.com/prometheus/client_golang/prometheus"

// storageBuckets are those of the kubelet's storage operations.
var storageBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}

// Volumes. The kubelet has these in packages of their own.
var (
	StorageOperationDuration = Histogram{
		Name: "storage_operation_duration_seconds", Help: "Duration of operations on volumes: volume_mount or volume_unmount.",
		Labels: []string{"volume_plugin", "operation_name", "status", "migrated"}, Buckets: storageBuckets,
	}
	VolumeManagerTotalVolumes = Gauge{
		Name: "volume_manager_total_volumes", Help: "Volumes of pods, by plugin: desired, and actually set up.",
		Labels: []string{"plugin_name", "state"},
	}
	CSIOperations = Histogram{
		Name: "csi_operations_seconds", Help: "Duration of calls of CSI drivers, by their status of gRPC.",
		Labels: []string{"driver_name", "method_name", "grpc_status_code", "migrated"}, Buckets: storageBuckets,
	}
)

// SELinux contexts of volumes, of the kubelet's volume manager. They are gauges in spite of their names, as in the kubelet.
var (
	SELinuxContainerErrors = Gauge{
		Name: "volume_manager_selinux_container_errors_total", Labels: selinuxLabels[1:],
		Help: "Attempts to set up a volume for a pod whose SELinux options have no label. The pod waits.",
	}
	SELinuxContainerWarnings = Gauge{
		Name: "volume_manager_selinux_container_warnings_total", Labels: selinuxLabels[1:],
		Help: "Attempts to set up a volume without a context for a pod whose SELinux options have no label.",
	}
	SELinuxPodMismatchErrors = Gauge{
		Name: "volume_manager_selinux_pod_context_mismatch_errors_total", Labels: selinuxLabels[1:],
		Help: "Attempts to set up a volume for containers of a pod with different SELinux contexts. The pod waits.",
	}
	SELinuxPodMismatchWarnings = Gauge{
		Name: "volume_manager_selinux_pod_context_mismatch_warnings_total", Labels: selinuxLabels[1:],
		Help: "Attempts to set up a volume without a context for containers of a pod with different SELinux contexts.",
	}
	SELinuxVolumeMismatchErrors = Gauge{
		Name: "volume_manager_selinux_volume_context_mismatch_errors_total", Labels: selinuxLabels,
		Help: "Attempts to set up a volume that another pod uses with another SELinux context. The pod waits.",
	}
	SELinuxVolumesAdmitted = Gauge{
		Name: "volume_manager_selinux_volumes_admitted_total", Labels: selinuxLabels,
		Help: "Volumes that were mounted with an SELinux context.",
	}
)

// selinuxLabels are a plugin's name with its driver's, and an access mode: "RWX", "ROX", "RWO", "RWOP" or "inline".
var selinuxLabels = []string{"volume_plugin", "access_mode"}

// claimLabels name a claim. Their values are names of objects of the API server; there are as many as claims of mounted volumes.
var claimLabels = []string{"namespace", "persistentvolumeclaim"}

// The usage of claims' volumes, of the kubelet's collectors.
var (
	VolumeStatsCapacity   = Gauge{Name: "kubelet_volume_stats_capacity_bytes", Help: "Capacity of a claim's volume.", Labels: claimLabels}
	VolumeStatsAvailable  = Gauge{Name: "kubelet_volume_stats_available_bytes", Help: "Bytes that are free in a claim's volume.", Labels: claimLabels}
	VolumeStatsUsed       = Gauge{Name: "kubelet_volume_stats_used_bytes", Help: "Bytes that are used in a claim's volume.", Labels: claimLabels}
	VolumeStatsInodes     = Gauge{Name: "kubelet_volume_stats_inodes", Help: "Inodes that a claim's volume can have.", Labels: claimLabels}
	VolumeStatsInodesFree = Gauge{Name: "kubelet_volume_stats_inodes_free", Help: "Inodes that are free in a claim's volume.", Labels: claimLabels}
	VolumeStatsInodesUsed = Gauge{Name: "kubelet_volume_stats_inodes_used", Help: "Inodes that are used in a claim's volume.", Labels: claimLabels}

	VolumeMetricCollection = Histogram{
		Name: "kubelet_volume_metric_collection_duration_seconds", Help: "How long it takes a CSI driver to say how full a volume is.",
		Labels: []string{"metric_source"}, Buckets: prometheus.DefBuckets,
	}
)

// PluginManagerTotalPlugins is of the kubelet's plugin manager.
var PluginManagerTotalPlugins = Gauge{
	Name: "plugin_manager_total_plugins", Help: "Registration sockets of plugins: found, and registered.", Labels: []string{"socket_path", "state"},
}
