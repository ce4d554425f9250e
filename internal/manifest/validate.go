package manifest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxUID is the longest UID that an author may set: it becomes the name of directories and a label of the runtime's.
const maxUID = 128

// maxReceived is the longest UID, namespace or name of a received pod: the longest name that Kubernetes allows.
const maxReceived = validation.DNS1123SubdomainMaxLength

// validateAsWritten checks the fields that adopt overwrites.
func validateAsWritten(pod *v1.Pod, node string) field.ErrorList {
	var errs field.ErrorList
	meta := field.NewPath("metadata")
	switch {
	case pod.Name == "":
		errs = append(errs, field.Required(meta.Child("name"), "the node's name is appended to it"))
	default:
		full := fullName(pod.Name, node)
		for _, msg := range validation.IsDNS1123Subdomain(full) {
			errs = append(errs, field.Invalid(meta.Child("name"), full, "with the node's name appended: "+msg))
		}
	}
	if pod.UID != "" {
		errs = append(errs, invalid(meta.Child("uid"), string(pod.UID), checkUID(string(pod.UID)))...)
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nodeName"), pod.Spec.NodeName, fmt.Sprintf("this node is %q", node)))
	}
	return errs
}

func checkUID(uid string) []string { return checkElement(uid, maxUID) }

// checkElement checks a value that becomes an element of paths on every consumer's disk.
func checkElement(value string, most int) []string {
	if len(value) > most {
		return []string{validation.MaxLenError(most)}
	}
	if value == "." || value == ".." || !utf8.ValidString(value) || strings.ContainsFunc(value, func(c rune) bool {
		return c == '/' || c == '\\' || unicode.IsSpace(c) || !unicode.IsPrint(c)
	}) {
		return []string{"must be fit for the name of a directory: without slashes, white space and control characters, and not . or .."}
	}
	return nil
}

// validate checks an adopted pod, defaults filled in, against the rules of the API server (pkg/apis/core/validation)
// that a pod on this node can break.
func validate(pod *v1.Pod) field.ErrorList {
	errs := validateMeta(pod)
	spec, path := &pod.Spec, field.NewPath("spec")
	errs = append(errs, validateAnnotations(pod)...)
	volumes, volumeErrs := validateVolumes(spec.Volumes, path.Child("volumes"))
	errs = append(errs, volumeErrs...)
	errs = append(errs, validateContainers(spec, volumes)...)
	errs = append(errs, oneOf(path.Child("restartPolicy"), spec.RestartPolicy,
		v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)...)
	errs = append(errs, inRange(path.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds, 1, math.MaxInt32)...)
	errs = append(errs, sorted(metavalidation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector")))...)
	errs = append(errs, validateNames(spec, path)...)
	errs = append(errs, validateNetwork(spec, path)...)
	errs = append(errs, validateTolerations(spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, validatePodSecurity(spec, path)...)
	errs = append(errs, validateOverhead(spec.Overhead, path.Child("overhead"))...)
	errs = append(errs, validatePodResources(pod, path.Child("resources"))...)
	errs = append(errs, validateAffinity(spec.Affinity, path.Child("affinity"))...)
	errs = append(errs, validateSpread(spec.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, validateHostProcess(spec, path)...)
	return append(errs, validateOS(spec, path)...)
}

// validateMeta checks the metadata that validateAsWritten doesn't.
func validateMeta(pod *v1.Pod) field.ErrorList {
	path := field.NewPath("metadata")
	errs := invalid(path.Child("namespace"), pod.Namespace, validation.IsDNS1123Label(pod.Namespace))
	errs = append(errs, sorted(metavalidation.ValidateLabels(pod.Labels, path.Child("labels")))...)
	return append(errs, sorted(apivalidation.ValidateAnnotations(pod.Annotations, path.Child("annotations")))...)
}

// validateNames checks the fields that name other objects or kinds of them.
func validateNames(spec *v1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range spec.ReadinessGates {
		at := path.Child("readinessGates").Index(i).Child("conditionType")
		errs = append(errs, invalid(at, gate.ConditionType, validation.IsQualifiedName(string(gate.ConditionType)))...)
	}
	if spec.PriorityClassName != "" {
		errs = append(errs, invalid(path.Child("priorityClassName"), spec.PriorityClassName,
			validation.IsDNS1123Subdomain(spec.PriorityClassName))...)
	}
	if spec.RuntimeClassName != nil {
		errs = append(errs, invalid(path.Child("runtimeClassName"), *spec.RuntimeClassName,
			validation.IsDNS1123Subdomain(*spec.RuntimeClassName))...)
	}
	if p := spec.PreemptionPolicy; p != nil {
		errs = append(errs, oneOf(path.Child("preemptionPolicy"), *p, v1.PreemptLowerPriority, v1.PreemptNever)...)
	}
	return errs
}

// required returns the error of an empty field.
func required(at *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

// invalid returns one error for each message. A message, like every detail of an error, must not quote the manifest:
// inspectors see it, without the value.
func invalid(at *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range messages {
		errs = append(errs, field.Invalid(at, value, m))
	}
	return errs
}

// oneOf returns the error of a value that isn't among the valid ones.
func oneOf[T ~string](at *field.Path, value T, valid ...T) field.ErrorList {
	if slices.Contains(valid, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, valid)}
}

// inRange returns the error of a number out of its range. Nil is in every range.
func inRange[T int32 | int64](at *field.Path, value *T, least, most T) field.ErrorList {
	if value == nil || *value >= least && *value <= most {
		return nil
	}
	want := fmt.Sprintf("must be at least %d", least)
	if *value > most {
		want = fmt.Sprintf("must be at most %d", most)
	}
	return field.ErrorList{field.Invalid(at, *value, want)}
}

// sorted sorts errors that were found in the order of a map.
func sorted(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}
