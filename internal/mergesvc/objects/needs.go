package objects

import (
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// references returns what a pod refers to: by itself, and through the claims that it names. A pod of an API server has its
// claims there, also one that came through a relay.
func (h *Hub) references(p *revision.Pod) []manifest.ObjectKey {
	keys := manifest.References(p.Object)
	if kind := firstKind(p); kind == apiKind || kind == "" {
		return keys
	}
	s := h.source(p.Source)
	// A claim is named by the pod, its PersistentVolume by the claim, and so on.
	for next := manifest.Claims(p.Object); len(next) > 0; {
		keys = append(keys, next...)
		var needed []manifest.ObjectKey
		for _, key := range next {
			if v := s.current(key); v.State == Present {
				if key, ok := v.Object.content.Needs(); ok {
					needed = append(needed, key)
				}
			}
		}
		next = needed
	}
	slices.SortFunc(keys, manifest.ObjectKey.Compare)
	return slices.Compact(keys)
}

// firstKind returns the kind of the source that the pod had first: that of a relayed pod is the last one on its path.
func firstKind(p *revision.Pod) string {
	source := p.Source
	if path := p.Object.Annotations[manifest.RelayPathAnnotation]; path != "" {
		_, source, _ = strings.Cut(path[strings.LastIndex(path, ",")+1:], "/")
	}
	kind, _, _ := strings.Cut(source, ":")
	return kind
}

// current returns the value of an object as pods that refer to it have it.
func (s *source) current(key manifest.ObjectKey) Value {
	if e := s.entries[key]; e != nil && e.live > 0 {
		return e.values[len(e.values)-1].Value
	}
	return s.value(Ref{s.name, key})
}

// follows takes in that an object's value has changed, and with it what its pods refer to through it.
func (h *Hub) follows(r *revisionOf, e *entry) {
	if e.ref.Kind != manifest.ClaimKind && e.ref.Kind != manifest.VolumeKind {
		return
	}
	var referrers []*referrer
	for _, p := range e.places {
		for _, record := range p.records {
			if record.to == 0 {
				referrers = append(referrers, record.who)
			}
		}
	}
	for _, who := range referrers {
		known := h.pods[who.pod.UID()]
		if known == nil || known.who != who {
			continue
		}
		keys := h.references(who.pod)
		before := known.keys
		known.keys = keys
		for _, key := range keys {
			if !slices.Contains(before, key) {
				h.refer(r, Ref{known.source, key}, known.node, who)
			}
		}
		for _, key := range before {
			if !slices.Contains(keys, key) {
				h.unrefer(r, Ref{known.source, key}, known.node, who)
			}
		}
	}
}
