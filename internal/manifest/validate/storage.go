package validate

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// DirectoryClass is the storage class of claims that get a directory of the node.
const DirectoryClass = "podstream.io/directory"

// maxDriverName is the maximum length of a CSI driver's name.
const maxDriverName = 63

// maxModes bounds the modes in a list: more than there are, and few enough to name each one that is wrong.
const maxModes = 16

var accessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod}

// Claim checks the PersistentVolumeClaim of a manifest. Nothing provisions volumes for it: it names its PersistentVolume,
// or gets a directory of the node. Fields that need a controller are refused.
func Claim(c *v1.PersistentVolumeClaim) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateAccessModes(c.Spec.AccessModes, spec.Child("accessModes"))
	errs = append(errs, validateStorage(c.Spec.Resources.Requests, spec.Child("resources", "requests"))...)
	errs = append(errs, validateVolumeMode(c.Spec.VolumeMode, spec.Child("volumeMode"))...)
	errs = append(errs, validateClass(c.Spec.StorageClassName, spec.Child("storageClassName"))...)
	if name := c.Spec.VolumeName; name != "" {
		errs = append(errs, invalid(spec.Child("volumeName"), name, validation.IsDNS1123Subdomain(name))...)
	} else if class := ptr.Deref(c.Spec.StorageClassName, ""); class != "" && class != DirectoryClass {
		errs = append(errs, field.Forbidden(spec.Child("storageClassName"),
			"nothing makes volumes of a class for the claim of a manifest: set volumeName, or leave the class out to get a directory of the node"))
	}
	return append(errs, onlyFields(c.Spec, spec, "AccessModes", "Resources", "VolumeName", "StorageClassName", "VolumeMode")...)
}

// Volume checks the PersistentVolume of a manifest: one of a CSI driver, which is kept when nothing refers to it any more.
func Volume(v *v1.PersistentVolume) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateAccessModes(v.Spec.AccessModes, spec.Child("accessModes"))
	errs = append(errs, validateStorage(v.Spec.Capacity, spec.Child("capacity"))...)
	errs = append(errs, validateVolumeMode(v.Spec.VolumeMode, spec.Child("volumeMode"))...)
	if v.Spec.StorageClassName != "" {
		errs = append(errs, validateClass(&v.Spec.StorageClassName, spec.Child("storageClassName"))...)
	}
	if p := v.Spec.PersistentVolumeReclaimPolicy; p != v1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.NotSupported(spec.Child("persistentVolumeReclaimPolicy"), p,
			[]v1.PersistentVolumeReclaimPolicy{v1.PersistentVolumeReclaimRetain}))
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		at := spec.Child("claimRef")
		errs = append(errs, invalid(at.Child("name"), ref.Name, validation.IsDNS1123Subdomain(ref.Name))...)
		errs = append(errs, invalid(at.Child("namespace"), ref.Namespace, validation.IsDNS1123Label(ref.Namespace))...)
	}
	if n := sources(v.Spec.PersistentVolumeSource); n != 1 {
		errs = append(errs, field.Forbidden(spec, "must have exactly one source"))
	}
	if v.Spec.CSI == nil {
		errs = append(errs, field.Required(spec.Child("csi"), "only volumes of CSI drivers can be in manifests"))
	} else {
		errs = append(errs, validateCSI(v.Spec.CSI, spec.Child("csi"))...)
	}
	return append(errs, onlyFields(v.Spec, spec, "Capacity", "PersistentVolumeSource", "AccessModes", "ClaimRef",
		"PersistentVolumeReclaimPolicy", "StorageClassName", "MountOptions", "VolumeMode")...)
}

func validateCSI(s *v1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := validateDriverName(s.Driver, path.Child("driver"))
	errs = append(errs, required(path.Child("volumeHandle"), s.VolumeHandle)...)
	// A secret of a volume is read for each call, from the API server.
	return append(errs, onlyFields(*s, path, "Driver", "VolumeHandle", "ReadOnly", "FSType", "VolumeAttributes")...)
}

// Driver checks the CSIDriver of a manifest. Its volumes can't be attached, as no controller does that, and it gets no
// tokens, as no API server issues them.
func Driver(d *storagev1.CSIDriver) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateDriverName(d.Name, field.NewPath("metadata", "name"))
	if ptr.Deref(d.Spec.AttachRequired, true) {
		errs = append(errs, field.Invalid(spec.Child("attachRequired"), true, "must be false: nothing attaches the volumes of manifests to the node"))
	}
	errs = append(errs, oneOf(spec.Child("fsGroupPolicy"), ptr.Deref(d.Spec.FSGroupPolicy, storagev1.FileFSGroupPolicy),
		storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy)...)
	if n := len(d.Spec.VolumeLifecycleModes); n > maxModes {
		return append(errs, field.TooMany(spec.Child("volumeLifecycleModes"), n, maxModes))
	}
	for i, mode := range d.Spec.VolumeLifecycleModes {
		errs = append(errs, oneOf(spec.Child("volumeLifecycleModes").Index(i), mode, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)...)
	}
	return append(errs, onlyFields(d.Spec, spec, "AttachRequired", "PodInfoOnMount", "VolumeLifecycleModes", "FSGroupPolicy", "StorageCapacity")...)
}

func validateDriverName(name string, path *field.Path) field.ErrorList {
	if len(name) > maxDriverName {
		return field.ErrorList{field.TooLong(path, name, maxDriverName)}
	}
	if name == "" {
		return required(path, name)
	}
	return invalid(path, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))
}

func validateAccessModes(modes []v1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	switch {
	case len(modes) == 0:
		return field.ErrorList{field.Required(path, "at least one access mode is needed")}
	case len(modes) > maxModes:
		return field.ErrorList{field.TooMany(path, len(modes), maxModes)}
	}
	var errs field.ErrorList
	for i, mode := range modes {
		errs = append(errs, oneOf(path.Index(i), mode, accessModes...)...)
	}
	if len(modes) > 1 && slices.Contains(modes, v1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(path, "may not have ReadWriteOncePod with other access modes"))
	}
	return errs
}

func validateStorage(given v1.ResourceList, path *field.Path) field.ErrorList {
	size, ok := given[v1.ResourceStorage]
	switch at := path.Key(string(v1.ResourceStorage)); {
	case !ok:
		return field.ErrorList{field.Required(at, "")}
	case size.Sign() <= 0:
		return field.ErrorList{field.Invalid(at, size.String(), "must be greater than zero")}
	}
	return nil
}

func validateVolumeMode(mode *v1.PersistentVolumeMode, path *field.Path) field.ErrorList {
	return oneOf(path, ptr.Deref(mode, v1.PersistentVolumeFilesystem), v1.PersistentVolumeFilesystem)
}

// validateClass checks a class that is set. DirectoryClass has the form of a label's key, which no StorageClass has: it is
// none of a cluster.
func validateClass(class *string, path *field.Path) field.ErrorList {
	if class == nil || *class == "" || *class == DirectoryClass {
		return nil
	}
	return invalid(path, *class, validation.IsDNS1123Subdomain(*class))
}

// onlyFields refuses each field of a struct that is set and isn't named: it has no effect on this node, and Kubernetes may
// add more.
func onlyFields(of any, path *field.Path, names ...string) field.ErrorList {
	var errs field.ErrorList
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if slices.Contains(names, f.Name) || v.Field(i).IsZero() || v.Field(i).Kind() == reflect.Pointer && v.Field(i).Elem().IsZero() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		errs = append(errs, field.Forbidden(path.Child(name), "isn't supported in a manifest"))
	}
	return errs
}
