package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// volume refuses all kinds of volumes but those that package volume has: claims, CSI and inline ephemeral volumes, those that are
// attached (iscsi, fc, rbd, the clouds' disks) and those of the network (nfs, cephfs, glusterfs and so on).
func (c *checker) volume(path string, v *v1.Volume) {
	switch {
	case v.HostPath != nil, v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil:
	case v.EmptyDir != nil:
		c.emptyDir(path+".emptyDir", v.EmptyDir)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			source, at := &v.Projected.Sources[i], fmt.Sprintf("%s.projected.sources[%d]", path, i)
			c.unsupported(at+".podCertificate", source.PodCertificate != nil)
		}
	case v.Image != nil:
		if !c.node.Runtime.ImageVolumes {
			c.refuseFor(UnsupportedFeature, path+".image", "the container runtime can't mount images")
		}
	default:
		c.refuseFor(UnsupportedFeature, path, fmt.Sprintf("%s isn't supported yet", criconfig.VolumeSourceName(&v.VolumeSource)))
	}
}

func (c *checker) emptyDir(path string, e *v1.EmptyDirVolumeSource) {
	known := e.Medium == v1.StorageMediumDefault || e.Medium == v1.StorageMediumMemory || e.Medium == v1.StorageMediumHugePages ||
		strings.HasPrefix(string(e.Medium), string(v1.StorageMediumHugePagesPrefix))
	c.unsupported(path+".medium", !known)
	// In memory it is the file system's size, on the disk the pod is evicted for more. Huge pages are bounded by the containers' limits only.
	hugePages := strings.HasPrefix(string(e.Medium), string(v1.StorageMediumHugePages))
	c.ignore(path+".sizeLimit", e.SizeLimit != nil && hugePages)
}
