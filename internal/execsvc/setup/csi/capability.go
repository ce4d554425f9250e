package csi

import (
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
)

// Capabilities are what a driver's node service can do, as NodeGetCapabilities says.
type Capabilities struct {
	// StageUnstage: volumes are staged before they are published.
	StageUnstage bool
	// VolumeStats: NodeGetVolumeStats.
	VolumeStats bool
	// Expand: NodeExpandVolume.
	Expand bool
	// SingleNodeMultiWriter: the access modes SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER.
	SingleNodeMultiWriter bool
	// VolumeMountGroup: the driver applies the pod's fsGroup.
	VolumeMountGroup bool
	// VolumeHealth: NodeGetVolumeHealth. StorageHealth: NodeGetStorageHealth. This package calls neither.
	VolumeHealth, StorageHealth bool
}

// capabilitiesOf returns the capabilities that an answer has. Unknown ones are left out.
func capabilitiesOf(answer *csipb.NodeGetCapabilitiesResponse) (c Capabilities) {
	for _, capability := range answer.GetCapabilities() {
		switch capability.GetRpc().GetType() {
		case csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			c.StageUnstage = true
		case csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			c.VolumeStats = true
		case csipb.NodeServiceCapability_RPC_EXPAND_VOLUME:
			c.Expand = true
		case csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			c.SingleNodeMultiWriter = true
		case csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			c.VolumeMountGroup = true
		case csipb.NodeServiceCapability_RPC_GET_VOLUME_HEALTH:
			c.VolumeHealth = true
		case csipb.NodeServiceCapability_RPC_GET_STORAGE_HEALTH:
			c.StorageHealth = true
		}
	}
	return c
}

// Access is how a volume is used: the VolumeCapability of the specification.
type Access struct {
	// Mode is the access mode of the PersistentVolume.
	Mode v1.PersistentVolumeAccessMode
	// Block: the volume is a block device. The fields below are for file systems only.
	Block bool
	// FSType is the type of the file system. Empty: the driver's default.
	FSType string
	// MountFlags are the mount options.
	MountFlags []string
	// FSGroup is the group that the driver applies. It must be nil if the driver lacks VolumeMountGroup.
	FSGroup *int64
}

// accessMode returns the access mode of a volume, as the kubelet maps it. A driver that can't tell one writer from several on a
// node gets SINGLE_NODE_WRITER for both.
func accessMode(mode v1.PersistentVolumeAccessMode, singleNodeMultiWriter bool) csipb.VolumeCapability_AccessMode_Mode {
	switch mode {
	case v1.ReadWriteOnce:
		if singleNodeMultiWriter {
			return csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		}
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	case v1.ReadWriteOncePod:
		if singleNodeMultiWriter {
			return csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		}
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	case v1.ReadOnlyMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case v1.ReadWriteMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	}
	return csipb.VolumeCapability_AccessMode_UNKNOWN
}

// volumeCapability returns the specification's form of the access.
func volumeCapability(a Access, c Capabilities) *csipb.VolumeCapability {
	out := &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: accessMode(a.Mode, c.SingleNodeMultiWriter)},
	}
	if a.Block {
		out.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
		return out
	}
	volume := &csipb.VolumeCapability_MountVolume{FsType: a.FSType, MountFlags: a.MountFlags}
	if a.FSGroup != nil {
		volume.VolumeMountGroup = strconv.FormatInt(*a.FSGroup, 10)
	}
	out.AccessType = &csipb.VolumeCapability_Mount{Mount: volume}
	return out
}
