package criconfig

import (
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// VolumeSourceName returns the manifest's name of the volume's source ("configMap"), also for one that a later
// Kubernetes adds.
func VolumeSourceName(source *v1.VolumeSource) string {
	for field, value := range reflect.ValueOf(source).Elem().Fields() {
		if !value.IsNil() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			return name
		}
	}
	return "a volume without a source"
}

// NotSupported returns the error of a volume whose source podexecd doesn't set up, by the source's name: that of VolumeSourceName. what is
// what has it, for the text.
func NotSupported(name, what string) error {
	switch name {
	case "fc":
		return fmt.Errorf("%s isn't supported: a CSI driver can attach disks of Fibre Channel", what)
	case "gitRepo":
		return fmt.Errorf("%s isn't supported: git would run the repository's code as the node's root; clone it to an emptyDir in an init container", what)
	default:
		return fmt.Errorf("%s isn't supported yet", what)
	}
}

// UnsupportedSources returns the paths, relative to the volume, of the sources for which podexecd sets up no volume, whatever the
// container runtime supports: attached volumes (fc, rbd), network volumes (cephfs, glusterfs and so on) and certificates
// of pods. Nil: there are none.
func UnsupportedSources(source *v1.VolumeSource) []string {
	switch {
	case source.Projected != nil:
		var paths []string
		for i := range source.Projected.Sources {
			if source.Projected.Sources[i].PodCertificate != nil {
				paths = append(paths, fmt.Sprintf("projected.sources[%d].podCertificate", i))
			}
		}
		return paths
	case source.HostPath != nil, source.ConfigMap != nil, source.Secret != nil, source.DownwardAPI != nil, source.EmptyDir != nil,
		source.Image != nil, *source == v1.VolumeSource{}, IsPersistent(source):
		return nil
	default:
		return []string{VolumeSourceName(source)}
	}
}

// IsPersistent reports whether package storage sets up the volume: a claim, a generic ephemeral volume, an inline volume of a CSI
// driver, a share of NFS, an iSCSI disk, or a volume that IsMigrated.
func IsPersistent(source *v1.VolumeSource) bool {
	return source.PersistentVolumeClaim != nil || source.Ephemeral != nil || source.CSI != nil || source.NFS != nil || source.ISCSI != nil ||
		IsMigrated(source)
}

// IsMigrated reports whether the source is that of an in-tree plugin whose volumes are a CSI driver's now.
func IsMigrated(source *v1.VolumeSource) bool {
	return source.AWSElasticBlockStore != nil || source.AzureDisk != nil || source.AzureFile != nil || source.Cinder != nil ||
		source.GCEPersistentDisk != nil || source.PortworxVolume != nil || source.VsphereVolume != nil
}
