package validate

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AsWritten checks the fields that adoption overwrites. fullName is the pod's name with the node's name appended.
func AsWritten(pod *v1.Pod, fullName, node string) field.ErrorList {
	var errs field.ErrorList
	meta := field.NewPath("metadata")
	switch {
	case pod.Name == "":
		errs = append(errs, field.Required(meta.Child("name"), "the node's name is appended to it"))
	default:
		for _, msg := range validation.IsDNS1123Subdomain(fullName) {
			errs = append(errs, field.Invalid(meta.Child("name"), fullName, "with the node's name appended: "+msg))
		}
	}
	if pod.UID != "" {
		errs = append(errs, invalid(meta.Child("uid"), string(pod.UID), checkElement(string(pod.UID), maxUID))...)
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nodeName"), pod.Spec.NodeName, fmt.Sprintf("this node is %q", node)))
	}
	return errs
}

// Pod checks an adopted pod, defaults filled in, against the rules of the API server (pkg/apis/core/validation)
// that a pod on this node can break.
func Pod(pod *v1.Pod) field.ErrorList {
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

// validateMeta checks the metadata that AsWritten does not.
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
