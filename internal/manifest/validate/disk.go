package validate

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the fields of disks.
const (
	// maxByte is the highest partition or logical unit.
	maxByte = 255
	// maxTenant is the longest tenant of Quobyte.
	maxTenant = 64
	// maxPortal is the longest name of an iSCSI volume with its portal, if it has an initiator's name.
	maxPortal = 64
)

// iscsiName is a qualified name, an EUI-64 or an NAA identifier.
var iscsiName = regexp.MustCompile(`^(iqn\.\d{4}-\d{2}\.[[:alnum:].-]+:[^,;*&$|\s]+|eui\.[[:alnum:]]{16}|naa\.[[:alnum:]]{32})$`)

// validateDisk checks the sources of disks and network volumes. A static pod with one that podexecd doesn't set up for it waits.
// Fields that the API server refuses are reported when the manifest is read.
func validateDisk(name string, v *v1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	need := func(value string, at ...string) {
		errs = append(errs, required(path.Child(at[0], at[1:]...), value)...)
	}
	if s := v.GCEPersistentDisk; s != nil {
		need(s.PDName, "gcePersistentDisk", "pdName")
		errs = append(errs, inRange(path.Child("gcePersistentDisk", "partition"), &s.Partition, 0, maxByte)...)
	}
	if s := v.AWSElasticBlockStore; s != nil {
		need(s.VolumeID, "awsElasticBlockStore", "volumeID")
		errs = append(errs, inRange(path.Child("awsElasticBlockStore", "partition"), &s.Partition, 0, maxByte)...)
	}
	if s := v.GitRepo; s != nil {
		need(s.Repository, "gitRepo", "repository")
		errs = append(errs, validateRelative(s.Directory, path.Child("gitRepo", "directory"))...)
	}
	if s := v.Cinder; s != nil {
		need(s.VolumeID, "cinder", "volumeID")
		errs = append(errs, requiredReference(s.SecretRef, path.Child("cinder", "secretRef"))...)
	}
	if s := v.VsphereVolume; s != nil {
		need(s.VolumePath, "vsphereVolume", "volumePath")
	}
	if s := v.PhotonPersistentDisk; s != nil {
		need(s.PdID, "photonPersistentDisk", "pdID")
	}
	if s := v.PortworxVolume; s != nil {
		need(s.VolumeID, "portworxVolume", "volumeID")
	}
	if s := v.AzureFile; s != nil {
		need(s.SecretName, "azureFile", "secretName")
		need(s.ShareName, "azureFile", "shareName")
	}
	if s := v.AzureDisk; s != nil {
		errs = append(errs, validateAzureDisk(s, path.Child("azureDisk"))...)
	}
	if s := v.ScaleIO; s != nil {
		need(s.Gateway, "scaleIO", "gateway")
		need(s.System, "scaleIO", "system")
		need(s.VolumeName, "scaleIO", "volumeName")
	}
	if s := v.FC; s != nil {
		errs = append(errs, validateFC(s, path.Child("fc"))...)
	}
	if s := v.ISCSI; s != nil {
		errs = append(errs, validateISCSI(name, s, path.Child("iscsi"))...)
	}
	return append(errs, validateShare(v, path)...)
}

// validateShare checks the volumes of file servers and clusters.
func validateShare(v *v1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	need := func(value string, at ...string) {
		errs = append(errs, required(path.Child(at[0], at[1:]...), value)...)
	}
	if s := v.NFS; s != nil {
		need(s.Server, "nfs", "server")
		if !strings.HasPrefix(s.Path, "/") {
			errs = append(errs, field.Invalid(path.Child("nfs", "path"), s.Path, "must be an absolute path"))
		}
	}
	if s := v.Glusterfs; s != nil {
		need(s.EndpointsName, "glusterfs", "endpoints")
		need(s.Path, "glusterfs", "path")
	}
	if s := v.CephFS; s != nil && len(s.Monitors) == 0 {
		need("", "cephfs", "monitors")
	}
	if s := v.RBD; s != nil {
		need(s.RBDImage, "rbd", "image")
		if len(s.CephMonitors) == 0 {
			need("", "rbd", "monitors")
		}
	}
	if s := v.Flocker; s != nil {
		at := path.Child("flocker")
		if (s.DatasetName == "") == (s.DatasetUUID == "") {
			errs = append(errs, field.Required(at, "must have exactly one of datasetName and datasetUUID"))
		}
		if strings.Contains(s.DatasetName, "/") {
			errs = append(errs, field.Invalid(at.Child("datasetName"), s.DatasetName, "must not have slashes"))
		}
	}
	if s := v.FlexVolume; s != nil {
		need(s.Driver, "flexVolume", "driver")
		errs = append(errs, validateFlexOptions(s.Options, path.Child("flexVolume", "options"))...)
	}
	if s := v.Quobyte; s != nil {
		errs = append(errs, validateQuobyte(s, path.Child("quobyte"))...)
	}
	if s := v.StorageOS; s != nil {
		at := path.Child("storageos")
		errs = append(errs, invalid(at.Child("volumeName"), s.VolumeName, validation.IsDNS1123Label(s.VolumeName))...)
		if s.VolumeNamespace != "" {
			errs = append(errs, invalid(at.Child("volumeNamespace"), s.VolumeNamespace, validation.IsDNS1123Label(s.VolumeNamespace))...)
		}
		errs = append(errs, requiredReference(s.SecretRef, at.Child("secretRef"))...)
	}
	return errs
}

// requiredReference returns the error of a reference without a name. Nil is valid.
func requiredReference(ref *v1.LocalObjectReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return required(at.Child("name"), ref.Name)
}

func validateAzureDisk(s *v1.AzureDiskVolumeSource, path *field.Path) field.ErrorList {
	errs := required(path.Child("diskName"), s.DiskName)
	errs = append(errs, required(path.Child("diskURI"), s.DataDiskURI)...)
	errs = append(errs, oneOf(path.Child("cachingMode"), *s.CachingMode,
		v1.AzureDataDiskCachingNone, v1.AzureDataDiskCachingReadOnly, v1.AzureDataDiskCachingReadWrite)...)
	errs = append(errs, oneOf(path.Child("kind"), *s.Kind, v1.AzureDedicatedBlobDisk, v1.AzureManagedDisk, v1.AzureSharedBlobDisk)...)
	begin := "https://"
	if *s.Kind == v1.AzureManagedDisk {
		begin = "/subscriptions/"
	}
	if !strings.HasPrefix(s.DataDiskURI, begin) {
		errs = append(errs, field.Invalid(path.Child("diskURI"), s.DataDiskURI, "must begin as the kind has it: a managed disk's with "+
			"/subscriptions/, others with https://"))
	}
	return errs
}

func validateFC(s *v1.FCVolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (len(s.TargetWWNs) == 0) == (len(s.WWIDs) == 0) {
		errs = append(errs, field.Required(path.Child("targetWWNs"), "must have exactly one of targetWWNs and wwids"))
	}
	if len(s.TargetWWNs) > 0 {
		if s.Lun == nil {
			errs = append(errs, field.Required(path.Child("lun"), "targetWWNs need it"))
		}
		errs = append(errs, inRange(path.Child("lun"), s.Lun, 0, maxByte)...)
	}
	return errs
}

func validateISCSI(name string, s *v1.ISCSIVolumeSource, path *field.Path) field.ErrorList {
	errs := required(path.Child("targetPortal"), s.TargetPortal)
	if !iscsiName.MatchString(s.IQN) {
		errs = append(errs, field.Invalid(path.Child("iqn"), s.IQN, "must be a name that begins with iqn., eui. or naa."))
	}
	errs = append(errs, inRange(path.Child("lun"), &s.Lun, 0, maxByte)...)
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		errs = append(errs, field.Required(path.Child("secretRef"), "CHAP needs it"))
	}
	if initiator := s.InitiatorName; initiator != nil {
		at := path.Child("initiatorName")
		if !iscsiName.MatchString(*initiator) {
			errs = append(errs, field.Invalid(at, *initiator, "must be a name that begins with iqn., eui. or naa."))
		}
		if len(name)+len(":")+len(s.TargetPortal) > maxPortal {
			errs = append(errs, field.Invalid(at, *initiator, "the volume's name and the portal must have less than 64 characters together"))
		}
	}
	return errs
}

// validateFlexOptions refuses the options that Kubernetes sets itself.
func validateFlexOptions(options map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(options)) {
		prefix, _, _ := strings.Cut(key, "/")
		prefix = "." + strings.ToLower(prefix)
		if strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io") {
			errs = append(errs, field.Invalid(path.Key(key), key, "kubernetes.io and k8s.io are reserved"))
		}
	}
	return errs
}

func validateQuobyte(s *v1.QuobyteVolumeSource, path *field.Path) field.ErrorList {
	errs := required(path.Child("volume"), s.Volume)
	if len(s.Tenant) > maxTenant {
		errs = append(errs, field.TooLong(path.Child("tenant"), s.Tenant, maxTenant))
	}
	for pair := range strings.SplitSeq(s.Registry, ",") {
		if _, _, err := net.SplitHostPort(pair); err != nil {
			return append(errs, field.Invalid(path.Child("registry"), s.Registry, "must be host:port, or several with commas between"))
		}
	}
	return errs
}
