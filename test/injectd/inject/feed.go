package inject

import (
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
)

// feed is one source.
type feed struct {
	// mu is held while a set is applied, so that the sets of a source are applied one after another.
	mu sync.Mutex
	// origins are the origins of the last set without an error, by their JSON.
	origins map[string]*manifest.Origin
}

// set returns the request as a source would hand it over. The feed stores its origins.
func (f *feed) set(req request) (manifest.Set, error) {
	set := manifest.Set{Source: req.Source, ReadTime: time.Now()}
	if req.Error != "" {
		if len(req.Origins) > 0 {
			return manifest.Set{}, errors.New("a source that can't be read has no origins")
		}
		set.Err = errors.New(req.Error)
		return set, nil
	}
	names := make(map[string]bool, len(req.Origins))
	origins := make(map[string]*manifest.Origin, len(req.Origins))
	for i, text := range req.Origins {
		o := f.origins[string(text)]
		if o == nil {
			var err error
			if o, err = newOrigin(text); err != nil {
				return manifest.Set{}, fmt.Errorf("origins[%d]: %w", i, err)
			}
		}
		if names[o.Name] {
			return manifest.Set{}, fmt.Errorf("origins[%d]: there are two of the name %q", i, o.Name)
		}
		names[o.Name], origins[string(text)] = true, o
		set.Origins = append(set.Origins, o)
	}
	f.origins = origins
	return set, nil
}

func newOrigin(text []byte) (*manifest.Origin, error) {
	var from Origin
	if err := decode(text, &from); err != nil {
		return nil, err
	}
	if from.Name == "" {
		return nil, errors.New("has no name")
	}
	o := &manifest.Origin{Name: from.Name, Held: from.Held}
	if o.Held {
		o.Findings = []manifest.Finding{{Severity: manifest.Error, Message: "the origin is injected as held"}}
	}
	for i, pod := range from.Pods {
		p, err := newPod(pod, i+1)
		if err != nil {
			return nil, fmt.Errorf("%q: pods[%d]: %w", o.Name, i, err)
		}
		o.Pods = append(o.Pods, p)
	}
	return o, nil
}

func newPod(pod *v1.Pod, document int) (*manifest.Pod, error) {
	if pod == nil || pod.Name == "" || pod.Namespace == "" || pod.UID == "" {
		return nil, errors.New("the pod lacks a name, namespace or uid")
	}
	spec, err := manifest.SpecDigest(pod)
	if err != nil {
		return nil, err
	}
	status, err := manifest.StatusDigest(pod)
	if err != nil {
		return nil, err
	}
	return &manifest.Pod{Pod: pod, Document: document, SpecDigest: spec, StatusDigest: status}, nil
}
