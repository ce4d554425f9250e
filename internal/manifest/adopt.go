package manifest

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations by which the kubelet records a pod's origin.
const (
	// HashAnnotation has a static pod's UID. It is part of the spec digest.
	HashAnnotation = "kubernetes.io/config.hash"
	// SourceAnnotation and SeenAnnotation are set by the merge; with MirrorAnnotation they aren't part of the spec
	// digest.
	SourceAnnotation = "kubernetes.io/config.source"
	SeenAnnotation   = "kubernetes.io/config.seen"
	MirrorAnnotation = v1.MirrorPodAnnotationKey
	// RelayPathAnnotation has the podconfigds that a relayed pod came through, as podconfig.v1.Pod.source defines it.
	// It isn't part of the spec digest.
	RelayPathAnnotation = "podstream.io/relay-path"
	// CallerAnnotation and SetAnnotation are on the pods of the source "applied" only, which sets them: the identity of
	// the caller that applied the pod, and its set.
	CallerAnnotation = "podstream.io/applied-by"
	SetAnnotation    = "podstream.io/applied-set"
)

// ownPrefixes are those of the annotations that the kubelet and Podstream set.
var ownPrefixes = []string{"kubernetes.io/config.", "podstream.io/"}

// checkOwn refuses metadata that only the node sets.
func checkOwn(m *metav1.ObjectMeta, r *report) {
	if m.UID != "" {
		r.errorf("metadata.uid", "is the node's to set: leave it out")
	}
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		if slices.ContainsFunc(ownPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			r.errorf("metadata.annotations["+key+"]", "is the node's to set: leave it out")
		}
	}
}

// adopt makes a pod as written this node's own, as the kubelet does (pkg/kubelet/config/common.go). Fields that only
// an API server may set are removed: a static pod with a deletionTimestamp, for instance, must not be deleted.
func adopt(pod *v1.Pod, opts Options, r *report) {
	adoptMeta(&pod.ObjectMeta, r)
	adoptAnnotations(&pod.ObjectMeta, r)

	pod.Name = fullName(pod.Name, opts.Node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = opts.Node
	if opts.OriginKind == FileKind {
		tolerateNoExecute(&pod.Spec)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
}

// fullName returns the name of a static pod, which has to be unique in a cluster.
func fullName(name, node string) string { return name + "-" + strings.ToLower(node) }

func adoptMeta(m *metav1.ObjectMeta, r *report) {
	kept := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, Labels: m.Labels, Annotations: m.Annotations,
	}
	for _, dropped := range []struct {
		field string
		set   bool
	}{
		{"creationTimestamp", !m.CreationTimestamp.IsZero()},
		{"deletionTimestamp", m.DeletionTimestamp != nil},
		{"deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds != nil},
		{"finalizers", len(m.Finalizers) > 0},
		{"generateName", m.GenerateName != ""},
		{"generation", m.Generation != 0},
		{"managedFields", len(m.ManagedFields) > 0},
		{"ownerReferences", len(m.OwnerReferences) > 0},
		{"resourceVersion", m.ResourceVersion != ""},
		{"selfLink", m.SelfLink != ""}, //nolint:staticcheck // An old manifest may have it.
	} {
		if dropped.set {
			r.warnf("metadata."+dropped.field, "is ignored: it means nothing in a manifest")
		}
	}
	*m = kept
}

func adoptAnnotations(m *metav1.ObjectMeta, r *report) {
	annotations := make(map[string]string, len(m.Annotations)+1)
	for k, v := range m.Annotations {
		annotations[k] = v
	}
	for _, own := range []string{SourceAnnotation, SeenAnnotation, MirrorAnnotation, HashAnnotation, RelayPathAnnotation, CallerAnnotation, SetAnnotation} {
		if _, ok := annotations[own]; ok {
			r.warnf("metadata.annotations["+own+"]", "is ignored: it is the node's to set")
			delete(annotations, own)
		}
	}
	annotations[HashAnnotation] = string(m.UID)
	m.Annotations = annotations
}

// tolerateNoExecute adds the toleration of every NoExecute taint, without a limit in time.
func tolerateNoExecute(spec *v1.PodSpec) {
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		if t.Key == "" && t.Value == "" && t.Operator == v1.TolerationOpExists && t.Effect == v1.TaintEffectNoExecute {
			t.TolerationSeconds = nil
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
}
