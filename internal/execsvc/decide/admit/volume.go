package admit

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// volume checks that package volume supports the volume's type.
func (c *checker) volume(path string, v *v1.Volume) {
	for _, source := range criconfig.UnsupportedSources(&v.VolumeSource) {
		c.volumeLack(path+"."+source, v, volumeNotYet)
	}
	switch {
	case v.EmptyDir != nil:
		c.emptyDir(path+".emptyDir", v)
	case v.Image != nil && !c.node.Runtime.ImageVolumes:
		c.volumeLack(path+".image", v, "the container runtime can't mount images")
	case v.VolumeSource == v1.VolumeSource{}:
		c.volumeLack(path, v, "it has no source")
	}
}

func (c *checker) emptyDir(path string, v *v1.Volume) {
	e := v.EmptyDir
	known := e.Medium == v1.StorageMediumDefault || e.Medium == v1.StorageMediumMemory || e.Medium == v1.StorageMediumHugePages ||
		strings.HasPrefix(string(e.Medium), string(v1.StorageMediumHugePagesPrefix))
	if !known {
		c.volumeLack(path+".medium", v, volumeNotYet)
	}
	// In memory the limit is the size of the file system; on disk the pod is evicted if it uses more. Huge pages are
	// bounded by the containers' limits only.
	hugePages := strings.HasPrefix(string(e.Medium), string(v1.StorageMediumHugePages))
	c.ignore(path+".sizeLimit", e.SizeLimit != nil && hugePages)
}
