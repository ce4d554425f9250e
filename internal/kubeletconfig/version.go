package kubeletconfig

const (
	// Minor is the minor version of the kubelet whose behaviour Podstream has.
	Minor = "1.37"
	// Version is the version that the Node reports, and that `kubelet --version` prints.
	Version = "v" + Minor + ".2-podstream"
)
