package apitest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is a *v1.Pod, *v1.ConfigMap, *v1.Secret, *v1.Node or *v1.Service.
type Object interface {
	runtime.Object
	metav1.Object
}

// state is the objects, and their history. The Server's lock guards it.
type state struct {
	version uint64
	// oldest is the first version from which a watch is possible.
	oldest uint64
	// objects are by resource and by namespace/name. They are immutable.
	objects   map[string]map[string]Object
	events    []event
	snapshots map[uint64]map[string][]Object
	// cache answers resourceVersion=0. Nil: the current objects.
	cache *cache
}

// cache is the objects as they were at a version.
type cache struct {
	version uint64
	objects map[string]map[string]Object
}

// Snapshot is the objects of a Server at a version.
type Snapshot cache

// event is one change of an object. A created object has no before. A deleted one has, as after, its last state with
// the version of its deletion.
type event struct {
	version       uint64
	resource      string
	before, after Object
	deleted       bool
}

func newState() state {
	return state{
		version: 1, oldest: 1,
		objects:   map[string]map[string]Object{"pods": {}, "configmaps": {}, "secrets": {}, "nodes": {}, "services": {}},
		snapshots: map[uint64]map[string][]Object{},
	}
}

// seed adds Service default/kubernetes, with a new UID, in the first version.
func (s *state) seed() {
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: "kubernetes", UID: types.UID(uuid.NewString()), ResourceVersion: "1",
	}}
	service.SetGroupVersionKind(kinds["services"])
	s.objects["services"][key(service)] = service
}

// put stores a copy of the object, with the next version.
func (s *state) put(resource string, o Object) event {
	s.version++
	stored, _ := o.DeepCopyObject().(Object)
	stored.GetObjectKind().SetGroupVersionKind(kinds[resource])
	stored.SetResourceVersion(strconv.FormatUint(s.version, 10))
	before := s.objects[resource][key(o)]
	if stored.GetUID() == "" {
		stored.SetUID(types.UID(uuid.NewString()))
		if before != nil {
			stored.SetUID(before.GetUID())
		}
	}
	s.objects[resource][key(o)] = stored
	return s.record(event{resource: resource, before: before, after: stored})
}

func (s *state) remove(resource string, before Object) event {
	s.version++
	delete(s.objects[resource], key(before))
	after, _ := before.DeepCopyObject().(Object)
	after.SetResourceVersion(strconv.FormatUint(s.version, 10))
	return s.record(event{resource: resource, before: before, after: after, deleted: true})
}

func (s *state) record(e event) event {
	e.version = s.version
	s.events = append(s.events, e)
	return e
}

// compact drops the history.
func (s *state) compact() {
	s.oldest, s.events = s.version, nil
	clear(s.snapshots)
}

// lag keeps the cache as it is now.
func (s *state) lag() {
	s.cache = &cache{version: s.version, objects: copies(s.objects)}
}

func copies(of map[string]map[string]Object) map[string]map[string]Object {
	out := map[string]map[string]Object{}
	for resource, objects := range of {
		out[resource] = maps.Clone(objects)
	}
	return out
}

// list returns the objects of a resource in the order of their names, the current or the cached ones.
func (s *state) list(resource string, cached bool) []Object {
	objects := s.objects[resource]
	if cached && s.cache != nil {
		objects = s.cache.objects[resource]
	}
	return slices.SortedFunc(maps.Values(objects), func(a, b Object) int { return cmp.Compare(key(a), key(b)) })
}

// cachedVersion returns the version of the cache.
func (s *state) cachedVersion() uint64 {
	if s.cache != nil {
		return s.cache.version
	}
	return s.version
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func resourceOf(o Object) string {
	switch o.(type) {
	case *v1.Pod:
		return "pods"
	case *v1.ConfigMap:
		return "configmaps"
	case *v1.Secret:
		return "secrets"
	case *v1.Node:
		return "nodes"
	case *v1.Service:
		return "services"
	default:
		return ""
	}
}
