package validate

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxMode has all permission bits that a file in a volume can have.
const maxMode = 0o777

var hostPathTypes = []v1.HostPathType{
	v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory, v1.HostPathFileOrCreate,
	v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev,
}

// volumeNames are the volumes that containers can mount, by name.
type volumeNames map[string]*v1.VolumeSource

func (n volumeNames) has(name string) bool { return n[name] != nil }

// validateVolumes checks the volumes, and returns the names that containers can mount.
func validateVolumes(volumes []v1.Volume, path *field.Path) (volumeNames, field.ErrorList) {
	var errs field.ErrorList
	names := make(volumeNames, len(volumes))
	for i := range volumes {
		v, at := &volumes[i], path.Index(i)
		switch {
		case v.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case names.has(v.Name):
			errs = append(errs, field.Duplicate(at.Child("name"), v.Name))
		default:
			errs = append(errs, invalid(at.Child("name"), v.Name, validation.IsDNS1123Label(v.Name))...)
		}
		names[v.Name] = &v.VolumeSource
		if n := sources(v.VolumeSource); n != 1 {
			errs = append(errs, field.Forbidden(at, "must have exactly one source"))
		}
		errs = append(errs, validateSource(&v.VolumeSource, at)...)
		errs = append(errs, validateDisk(v.Name, &v.VolumeSource, at)...)
	}
	return names, errs
}

// sources counts the set members of a struct of pointers, including those that Kubernetes adds later.
func sources(of any) int {
	n := 0
	for _, f := range reflect.ValueOf(of).Fields() {
		if !f.IsNil() {
			n++
		}
	}
	return n
}

// validateSource checks the kinds of volumes that a node can set up by itself, and those that name an object or a
// server.
func validateSource(v *v1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := v.PersistentVolumeClaim; s != nil {
		at := path.Child("persistentVolumeClaim", "claimName")
		if errs = append(errs, required(at, s.ClaimName)...); s.ClaimName != "" {
			errs = append(errs, invalid(at, s.ClaimName, validation.IsDNS1123Subdomain(s.ClaimName))...)
		}
	}
	if s := v.HostPath; s != nil {
		at := path.Child("hostPath")
		errs = append(errs, required(at.Child("path"), s.Path)...)
		errs = append(errs, validateNoBacksteps(s.Path, at.Child("path"))...)
		errs = append(errs, oneOf(at.Child("type"), *s.Type, hostPathTypes...)...)
	}
	if s := v.EmptyDir; s != nil {
		errs = append(errs, validateEmptyDir(s, path.Child("emptyDir"))...)
	}
	if s := v.Secret; s != nil {
		at := path.Child("secret")
		errs = append(errs, required(at.Child("secretName"), s.SecretName)...)
		errs = append(errs, inRange(at.Child("defaultMode"), s.DefaultMode, 0, maxMode)...)
		errs = append(errs, validateKeys(s.Items, at.Child("items"))...)
	}
	if s := v.ConfigMap; s != nil {
		at := path.Child("configMap")
		errs = append(errs, required(at.Child("name"), s.Name)...)
		errs = append(errs, inRange(at.Child("defaultMode"), s.DefaultMode, 0, maxMode)...)
		errs = append(errs, validateKeys(s.Items, at.Child("items"))...)
	}
	if s := v.DownwardAPI; s != nil {
		at := path.Child("downwardAPI")
		errs = append(errs, inRange(at.Child("defaultMode"), s.DefaultMode, 0, maxMode)...)
		errs = append(errs, validateFiles(s.Items, at.Child("items"))...)
	}
	if s := v.Projected; s != nil {
		at := path.Child("projected")
		errs = append(errs, inRange(at.Child("defaultMode"), s.DefaultMode, 0, maxMode)...)
		for i := range s.Sources {
			errs = append(errs, validateProjection(&s.Sources[i], at.Child("sources").Index(i))...)
		}
		errs = append(errs, validateProjectedPaths(s.Sources, at.Child("sources"))...)
	}
	if s := v.Image; s != nil {
		at := path.Child("image")
		errs = append(errs, required(at.Child("reference"), s.Reference)...)
		errs = append(errs, oneOf(at.Child("pullPolicy"), s.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	}
	return errs
}

func validateEmptyDir(s *v1.EmptyDirVolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if size := s.SizeLimit; size != nil && size.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("sizeLimit"), size.String(), "must not be negative"))
	}
	at := path.Child("medium")
	if page, ok := strings.CutPrefix(string(s.Medium), string(v1.StorageMediumHugePagesPrefix)); ok {
		if size, ok := pageSize(page); !ok || size.Sign() <= 0 {
			errs = append(errs, field.Invalid(at, s.Medium, "must name a page size, such as HugePages-2Mi"))
		}
		return errs
	}
	return append(errs, oneOf(at, s.Medium, v1.StorageMediumDefault, v1.StorageMediumMemory, v1.StorageMediumHugePages)...)
}

func validateProjection(p *v1.VolumeProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if sources(*p) != 1 {
		errs = append(errs, field.Forbidden(path, "must have exactly one source"))
	}
	if s := p.Secret; s != nil {
		errs = append(errs, required(path.Child("secret", "name"), s.Name)...)
		errs = append(errs, validateKeys(s.Items, path.Child("secret", "items"))...)
	}
	if s := p.ConfigMap; s != nil {
		errs = append(errs, required(path.Child("configMap", "name"), s.Name)...)
		errs = append(errs, validateKeys(s.Items, path.Child("configMap", "items"))...)
	}
	if s := p.DownwardAPI; s != nil {
		errs = append(errs, validateFiles(s.Items, path.Child("downwardAPI", "items"))...)
	}
	return errs
}

// validateProjectedPaths refuses a path of two files.
func validateProjectedPaths(sources []v1.VolumeProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	add := func(p string, at *field.Path) {
		if p != "" && seen[p] {
			errs = append(errs, field.Duplicate(at, p))
		}
		seen[p] = true
	}
	addKeys := func(items []v1.KeyToPath, at *field.Path) {
		for i := range items {
			add(items[i].Path, at.Index(i).Child("path"))
		}
	}
	for i := range sources {
		at := path.Index(i)
		if s := sources[i].Secret; s != nil {
			addKeys(s.Items, at.Child("secret", "items"))
		}
		if s := sources[i].ConfigMap; s != nil {
			addKeys(s.Items, at.Child("configMap", "items"))
		}
		if s := sources[i].DownwardAPI; s != nil {
			for j := range s.Items {
				add(s.Items[j].Path, at.Child("downwardAPI", "items").Index(j).Child("path"))
			}
		}
	}
	return errs
}

// validateKeys checks the mapping of an object's keys to files.
func validateKeys(items []v1.KeyToPath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		at := path.Index(i)
		errs = append(errs, required(at.Child("key"), item.Key)...)
		errs = append(errs, validateFilePath(item.Path, at.Child("path"))...)
		errs = append(errs, inRange(at.Child("mode"), item.Mode, 0, maxMode)...)
	}
	return errs
}

// validateFiles checks the mapping of the pod's fields to files.
func validateFiles(items []v1.DownwardAPIVolumeFile, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		at := path.Index(i)
		errs = append(errs, validateFilePath(item.Path, at.Child("path"))...)
		errs = append(errs, inRange(at.Child("mode"), item.Mode, 0, maxMode)...)
		if ref := item.FieldRef; ref != nil {
			errs = append(errs, validateFieldRef(ref, fileFields, at.Child("fieldRef"))...)
		}
		if ref := item.ResourceFieldRef; ref != nil {
			errs = append(errs, required(at.Child("resourceFieldRef", "containerName"), ref.ContainerName)...)
			errs = append(errs, validateResourceFieldRef(ref, at.Child("resourceFieldRef"))...)
		}
		if (item.FieldRef == nil) == (item.ResourceFieldRef == nil) {
			errs = append(errs, field.Forbidden(at, "must have exactly one of fieldRef and resourceFieldRef"))
		}
	}
	return errs
}

// validateFilePath checks the path of a file in a volume. Names that begin with ".." are reserved for the versions of
// the volume.
func validateFilePath(p string, at *field.Path) field.ErrorList {
	if p == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := validateRelative(p, at)
	if len(errs) == 0 && strings.HasPrefix(p, "..") {
		errs = append(errs, field.Invalid(at, p, "must not begin with '..'"))
	}
	return errs
}
