package differential

import (
	"fmt"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	_ "k8s.io/kubernetes/pkg/kubelet/config" // has the functions that are linked to
)

// The kubelet's own functions, which its package doesn't export.

//go:linkname tryDecodeSinglePod k8s.io/kubernetes/pkg/kubelet/config.tryDecodeSinglePod
func tryDecodeSinglePod(
	logger klog.Logger, data []byte, adopt func(klog.Logger, *core.Pod) error,
) (parsed bool, pod *v1.Pod, err error)

//go:linkname applyDefaults k8s.io/kubernetes/pkg/kubelet/config.applyDefaults
func applyDefaults(logger klog.Logger, pod *core.Pod, source string, isFile bool, node types.NodeName) error

// The kubelet allows privileged containers.
func init() { capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true}) }

// KubeletResult is the kubelet's result for a manifest.
type KubeletResult struct {
	// Err is the error of tryDecodeSinglePod. Nil means that the kubelet runs the pod.
	Err error
	// Pod is the pod, if it is valid. A valid pod is rejected if it refers to API objects.
	Pod *v1.Pod
	// Invalid are the validation errors.
	Invalid field.ErrorList
	// Reference is the kind of API objects for which the pod is rejected.
	Reference string
}

// Kubelet decodes, defaults and validates a manifest as the kubelet does with a static pod.
func Kubelet(m Manifest) KubeletResult {
	adopt := func(logger klog.Logger, p *core.Pod) error {
		return applyDefaults(logger, p, m.Origin, !m.URL, types.NodeName(m.Node))
	}
	_, p, err := tryDecodeSinglePod(klog.Logger{}, m.Text, adopt)
	if err == nil {
		return KubeletResult{Pod: p}
	}
	result := KubeletResult{Err: err}
	// The error is one text. The same steps, called one by one, show the reason.
	decoded, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), m.Text)
	if err != nil {
		return result
	}
	internal, ok := decoded.(*core.Pod)
	if !ok || internal.Name == "" || adopt(klog.Logger{}, internal) != nil {
		return result
	}
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	if result.Invalid = validation.ValidatePodCreate(internal, opts); len(result.Invalid) > 0 {
		return result
	}
	converted := &v1.Pod{}
	if err := corev1.Convert_core_Pod_To_v1_Pod(internal, converted, nil); err != nil {
		return result
	}
	result.Pod = converted
	if _, result.Reference, err = podutil.HasAPIObjectReference(internal); err != nil {
		result.Err = fmt.Errorf("%w; references: %w", result.Err, err)
	}
	return result
}
