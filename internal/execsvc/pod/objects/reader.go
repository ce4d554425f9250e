package objects

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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

// Claim is like ConfigMap, for a PersistentVolumeClaim.
func (r *Reader) Claim(name string) (*v1.PersistentVolumeClaim, error) {
	object, err := r.read(Ref{Kind: Claim, Source: r.source, Namespace: r.namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("persistentvolumeclaim %s/%s: %w", r.namespace, name, err)
	}
	return object.Claim, nil
}

// Volume is like ConfigMap, for a PersistentVolume. The pod has only those that its claims name.
func (r *Reader) Volume(name string) (*v1.PersistentVolume, error) {
	object, err := r.read(Ref{Kind: Volume, Source: r.source, Name: name})
	if err != nil {
		return nil, fmt.Errorf("persistentvolume %s: %w", name, err)
	}
	return object.Volume, nil
}

// Driver is like ConfigMap, for the CSIDriver of such a PersistentVolume.
func (r *Reader) Driver(name string) (*storagev1.CSIDriver, error) {
	object, err := r.read(Ref{Kind: Driver, Source: r.source, Name: name})
	if err != nil {
		return nil, fmt.Errorf("csidriver %s: %w", name, err)
	}
	return object.Driver, nil
}

func (r *Reader) read(ref Ref) (client.Object, error) {
	r.noteRef(ref)
	return r.objects.get(ref)
}

func (r *Reader) note(kind client.ObjectKind, name string) {
	r.noteRef(Ref{Kind: kind, Source: r.source, Namespace: r.namespace, Name: name})
}

func (r *Reader) noteRef(ref Ref) {
	r.objects.mu.Lock()
	defer r.objects.mu.Unlock()
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
