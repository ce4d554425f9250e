package objects

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Reader is one pod's view of the objects. Each read is recorded for the pod, also if the object isn't available.
type Reader struct {
	objects           *Objects
	uid               types.UID
	source, namespace string
}

// For returns the pod's Reader.
func (o *Objects) For(pod *v1.Pod) *Reader {
	return &Reader{objects: o, uid: pod.UID, source: podmeta.Source(pod), namespace: pod.Namespace}
}

// ConfigMap returns the pod's ConfigMap of that name. It must not be changed. The error is ErrMissing or ErrUnknown.
func (r *Reader) ConfigMap(name string) (*v1.ConfigMap, error) {
	r.note(ConfigMap, name)
	return r.objects.ConfigMap(r.source, r.namespace, name)
}

// Secret is like ConfigMap, for a Secret.
func (r *Reader) Secret(name string) (*v1.Secret, error) {
	r.note(Secret, name)
	return r.objects.Secret(r.source, r.namespace, name)
}

func (r *Reader) note(kind client.ObjectKind, name string) {
	r.objects.mu.Lock()
	defer r.objects.mu.Unlock()
	ref := Ref{Kind: kind, Source: r.source, Namespace: r.namespace, Name: name}
	if !slices.Contains(r.objects.readers[ref], r.uid) {
		r.objects.readers[ref] = append(r.objects.readers[ref], r.uid)
	}
}

// ReadersOf returns the pods that have read one of these objects, each once, unordered.
func (o *Objects) ReadersOf(refs []Ref) []types.UID {
	o.mu.Lock()
	defer o.mu.Unlock()
	var uids []types.UID
	for _, ref := range refs {
		uids = append(uids, o.readers[ref]...)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// Drop removes the pod's reads: changes no longer wake it, and what podconfigd has withdrawn is no longer kept for it.
func (o *Objects) Drop(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref, uids := range o.readers {
		uids = slices.DeleteFunc(uids, func(u types.UID) bool { return u == uid })
		if len(uids) > 0 {
			o.readers[ref] = uids
			continue
		}
		delete(o.readers, ref)
		if _, ok := o.withdrawn[ref]; ok {
			o.drop(ref)
		}
	}
}
