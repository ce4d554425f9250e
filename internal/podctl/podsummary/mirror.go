package podsummary

import "slices"

// MirrorAnnotation is the kubelet's annotation of a mirror pod.
const MirrorAnnotation = "kubernetes.io/config.mirror"

// mirror reports whether the pod is a mirror pod: nothing runs under its UID.
func (p *Pod) mirror() bool {
	return p.Content != nil && p.Content.Annotations[MirrorAnnotation] != ""
}

// WithoutMirrors returns the pods without those mirror pods whose static pod is among them. A mirror pod that remains is
// that of a pod that has gone, or that the caller may not see.
func WithoutMirrors(pods []*Pod) []*Pod {
	static := map[string]bool{}
	for _, p := range pods {
		if !p.mirror() {
			static[FullName(p.Ref)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return p.mirror() && static[FullName(p.Ref)] })
}
