package objects

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// reader is one consumer: a scope, a position, and its objects.
type reader struct {
	name  string
	scope Scope
	// reader has joined at the start.
	reader *Reader
	at     uint64
	held   map[Ref]string
}

// model is the expected state.
type model struct {
	pods   map[string][]*manifest.Pod
	files  map[string]string
	sent   map[string]string
	wanted map[string]bool
	// complete is set if objects that the files don't define don't exist. kept are the last known objects that
	// files' pods refer to.
	complete bool
	kept     map[string]string
	readers  []*reader
}

// snapshot returns the expected view of a scope.
func (m *model) snapshot(s Scope) string {
	seen := map[string]bool{}
	for source, pods := range m.pods {
		for _, p := range pods {
			if s.Nodes != nil && !slices.Contains(s.Nodes, p.Spec.NodeName) || !s.Match(&revision.Pod{Object: p.Pod, Source: source}) {
				continue
			}
			for _, ref := range p.Spec.ImagePullSecrets {
				seen[source+":"+ref.Name+m.value(source, ref.Name)] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), " ")
}

func (m *model) value(source, name string) string {
	if source == "api" {
		if value, ok := m.sent[name]; ok {
			return value
		}
		return "?"
	}
	if value, ok := m.files[name]; ok {
		return "=" + value
	}
	if m.complete {
		return "-"
	}
	if value, ok := m.kept[name]; ok {
		return value
	}
	return "?"
}

// keep stores the known objects that files' pods refer to, while they do.
func (m *model) keep() {
	kept := map[string]string{}
	for _, p := range m.pods["file"] {
		for _, ref := range p.Spec.ImagePullSecrets {
			if value := m.value("file", ref.Name); value != "?" {
				kept[ref.Name] = value
			}
		}
	}
	m.kept = kept
}

// TestHistoryProperty: after any changes of pods and objects, each scope sees the model's objects. So does a
// reader that follows revision by revision, however late, while the ring has its revisions. At the end nothing
// is left of removed objects.
func TestHistoryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, h := newHubs(Config{Revisions: 6})
		m := &model{pods: map[string][]*manifest.Pod{}, files: map[string]string{}, sent: map[string]string{}, wanted: map[string]bool{}}
		api := &feeder{hub: h.Hub, source: "api"}
		label := func(l string) func(*revision.Pod) bool {
			return func(p *revision.Pod) bool { return p.Object.Labels["l"] == l }
		}
		for name, s := range map[string]Scope{
			"everything": everything(), "n1": {Nodes: []string{"n1"}, Match: everything().Match},
			"n1 and n2": {Nodes: []string{"n1", "n2"}, Match: everything().Match}, "x": {Match: label("x")},
			"x on n2": {Nodes: []string{"n2"}, Match: label("x")}, "file": {Match: func(p *revision.Pod) bool { return p.Source == "file" }},
			"nothing": {Nodes: []string{}, Match: everything().Match},
		} {
			m.readers = append(m.readers, &reader{name: name, scope: s, reader: h.NewReader(s), at: h.Number(), held: map[Ref]string{}})
		}
		// past is the view of each reader at each revision.
		past := map[string]map[uint64]string{}
		secrets := []string{"a", "b", "c"}
		pods := func(source string) []*manifest.Pod {
			var out []*manifest.Pod
			for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
				refs := rapid.SliceOfDistinct(rapid.SampledFrom(secrets), rapid.ID[string]).Draw(t, "refs")
				out = append(out, user(fmt.Sprintf("%s-%d", source, i), rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node"),
					rapid.SampledFrom([]string{"x", "y"}).Draw(t, "label"), refs...))
			}
			return out
		}
		t.Repeat(map[string]func(*rapid.T){
			"file": func(t *rapid.T) {
				m.pods["file"], m.complete = pods("file"), rapid.Bool().Draw(t, "complete")
				m.files = map[string]string{}
				var objects []*manifest.Object
				for _, name := range secrets {
					if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, name); value != "" {
						m.files[name] = value
						objects = append(objects, secret(name, value))
					}
				}
				s := set("file", m.pods["file"], objects...)
				if !m.complete {
					s.Origins = append(s.Origins, &manifest.Origin{Name: "broken", Held: true, ObjectsUnknown: true})
				}
				h.Apply(s)
				m.keep()
			},
			"drop": func(*rapid.T) {
				h.Drop("file")
				m.files, m.complete = map[string]string{}, false
			},
			"api": func(t *rapid.T) {
				m.pods["api"] = pods("api")
				h.Apply(set("api", m.pods["api"]))
				// The source accepts the offer at once, and then follows nothing else.
				h.Advance()
				api.offer()
				api.take()
				if again := api.keys; api.offer() != nil && len(again) != len(api.keys) {
					api.take()
				}
				m.wanted = map[string]bool{}
				for _, k := range api.keys {
					m.wanted[k.Name] = true
				}
				maps.DeleteFunc(m.sent, func(name, _ string) bool { return !m.wanted[name] })
			},
			"told": func(t *rapid.T) {
				name, value := rapid.SampledFrom(secrets).Draw(t, "name"), rapid.SampledFrom([]string{"-", "=1", "=2"}).Draw(t, "value")
				var o *manifest.Object
				if value != "-" {
					o = secret(name, value[1:])
				}
				h.Put("api", key(name), o)
				if m.wanted[name] {
					m.sent[name] = value
				}
			},
			"a reader follows": func(t *rapid.T) {
				rapid.SampledFrom(m.readers).Draw(t, "reader").follow(t, h.Hub)
			},
			"": func(t *rapid.T) {
				for _, r := range m.readers {
					now := h.Current(r.scope)
					if diff := cmp.Diff(m.snapshot(r.scope), withSources(now)); diff != "" {
						t.Fatalf("%s sees (-want +got):\n%s", r.name, diff)
					}
					if past[r.name] == nil {
						past[r.name] = map[uint64]string{}
					}
					past[r.name][now.Number] = withSources(now)
					for number, then := range past[r.name] {
						at, kept := h.At(number, r.scope)
						if kept != (number >= h.floor) {
							t.Fatalf("revision %d of %d: kept is %v", number, h.number, kept)
						}
						if kept && withSources(at) != then {
							t.Fatalf("%s saw %q at %d; now it is said to have seen %q", r.name, then, number, withSources(at))
						}
					}
				}
			},
		})
		for _, r := range m.readers {
			r.follow(t, h.Hub)
		}
		h.Apply(set("file", nil))
		h.Apply(set("api", nil))
		for i := range 8 {
			h.Apply(set("file", []*manifest.Pod{user("last", "n9", "x", fmt.Sprint("last-", i))}))
		}
		h.Apply(set("file", nil))
		for h.floor < h.number {
			h.drop(h.recent[0])
			h.recent = h.recent[1:]
		}
		if len(h.nodes) > 0 || len(h.pods) > 0 || len(h.sources["file"].entries)+len(h.sources["api"].entries) > 0 || h.bytes != 0 {
			t.Fatalf("left are %d nodes, %d pods, %d bytes", len(h.nodes), len(h.pods), h.bytes)
		}
	})
}

func withSources(s Snapshot) string {
	var words []string
	for _, item := range s.Items {
		words = append(words, item.Ref.Source+":"+item.Ref.Name+valueText(item.Value))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// follow brings a reader to the current state, and checks that its objects are the ones in its view.
func (r *reader) follow(t *rapid.T, h *Hub) {
	for {
		d, kept, _ := r.reader.Next(r.at)
		if !kept {
			now := h.Current(r.scope)
			r.at, r.held = now.Number, map[Ref]string{}
			for _, item := range now.Items {
				if item.State != Unknown {
					r.held[item.Ref] = valueText(item.Value)
				}
			}
			break
		}
		if d.Number == r.at {
			break
		}
		r.at = d.Number
		for _, c := range d.Changes {
			value := "-"
			if c.Op == Put {
				value = "=" + string(c.Object.content.Secret.Data["v"])
			}
			before, held := r.held[c.Ref]
			switch {
			case c.Op == Remove && held == c.Unsent:
				t.Fatalf("%s receives the removal of %v: unsent %v, held %v", r.name, c.Ref, c.Unsent, held)
			case c.Op == Remove:
				delete(r.held, c.Ref)
			case held && before == value:
				t.Fatalf("%s receives %v%s again", r.name, c.Ref, value)
			default:
				r.held[c.Ref] = value
			}
		}
	}
	for _, item := range h.Current(r.scope).Items {
		if item.State != Unknown && r.held[item.Ref] != valueText(item.Value) {
			t.Fatalf("%s holds %s%s; want %s", r.name, item.Ref.Name, r.held[item.Ref], valueText(item.Value))
		}
	}
	for ref := range r.held {
		if !slices.ContainsFunc(h.Current(r.scope).Items, func(i Item) bool { return i.Ref == ref }) {
			t.Fatalf("%s holds %v, which it doesn't see", r.name, ref)
		}
	}
}
