package apitest

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// page is the position of a list: a continue token.
type page struct {
	Version uint64
	After   string
}

// list returns a list, or an error.
func (s *Server) list(r Request) runtime.Object {
	selected, status := selectionOf(r)
	if status != nil {
		return status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cached := r.ResourceVersion == "0"
	at := page{Version: s.version}
	if cached {
		at.Version = s.cachedVersion()
	}
	objects := s.state.list(r.Resource, cached)
	if r.Continue != "" {
		var ok bool
		if at, ok = parsePage(r.Continue); !ok {
			return badRequest("continue key is not valid")
		}
		if objects, ok = s.snapshots[at.Version][r.Resource]; !ok {
			return expired("The provided continue parameter is too old")
		}
	} else if status := s.checkVersion(r.ResourceVersion); status != nil {
		return status
	}
	var found []Object
	for _, o := range objects {
		if key(o) > at.After && selected.matches(r.Resource, o) {
			found = append(found, o)
		}
	}
	listed := metav1.ListMeta{ResourceVersion: strconv.FormatUint(at.Version, 10)}
	if r.Limit > 0 && len(found) > r.Limit {
		if s.snapshots[at.Version] == nil {
			s.snapshots[at.Version] = map[string][]Object{}
		}
		s.snapshots[at.Version][r.Resource] = objects
		found = found[:r.Limit]
		listed.Continue = page{at.Version, key(found[r.Limit-1])}.String()
	}
	return asList(r.Resource, listed, found)
}

// get returns an object, or an error.
func (s *Server) get(r Request) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := s.objects
	if r.ResourceVersion == "0" && s.cache != nil {
		objects = s.cache.objects
	}
	if o := objects[r.Resource][r.Namespace+"/"+r.Name]; o != nil {
		return o
	}
	return notFound(r)
}

// checkVersion returns the error of a version that must not be older. The caller holds the lock.
func (s *Server) checkVersion(text string) *metav1.Status {
	if text == "" {
		return nil
	}
	version, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return badRequest("Invalid value: " + strconv.Quote(text) + ": resourceVersion isn't a number")
	case version > s.version:
		return tooLarge(version, s.version)
	default:
		return nil
	}
}

func asList(resource string, listed metav1.ListMeta, objects []Object) runtime.Object {
	switch resource {
	case "pods":
		return &v1.PodList{TypeMeta: listType("PodList"), ListMeta: listed, Items: items[v1.Pod](objects)}
	case "configmaps":
		return &v1.ConfigMapList{TypeMeta: listType("ConfigMapList"), ListMeta: listed, Items: items[v1.ConfigMap](objects)}
	default:
		return &v1.SecretList{TypeMeta: listType("SecretList"), ListMeta: listed, Items: items[v1.Secret](objects)}
	}
}

// asRequested returns the metadata of a list, if only that is requested.
func asRequested(r Request, answer runtime.Object) runtime.Object {
	list, ok := answer.(metav1.ListInterface)
	if !ok || !r.Metadata {
		return answer
	}
	out := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue()},
	}
	_ = meta.EachListItem(answer, func(item runtime.Object) error {
		o, err := meta.Accessor(item)
		if err == nil {
			out.Items = append(out.Items, *meta.AsPartialObjectMetadata(o))
		}
		return err
	})
	return out
}

func listType(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }

func items[T any](objects []Object) []T {
	out := make([]T, 0, len(objects))
	for _, o := range objects {
		if item, ok := any(o).(*T); ok {
			out = append(out, *item)
		}
	}
	return out
}

func (p page) String() string {
	text, _ := json.Marshal(p) // a number and a string: it can't fail
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePage(token string) (page, bool) {
	var p page
	text, err := base64.RawURLEncoding.DecodeString(token)
	return p, err == nil && json.Unmarshal(text, &p) == nil
}
