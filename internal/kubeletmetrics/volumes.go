package kubeletmetrics

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

// PluginManagerTotalPlugins is of the kubelet's plugin manager.
var PluginManagerTotalPlugins = Gauge{
	Name: "plugin_manager_total_plugins", Help: "Registration sockets of plugins: found, and registered.", Labels: []string{"socket_path", "state"},
}
