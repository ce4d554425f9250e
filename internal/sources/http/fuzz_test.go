package http

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

func options(strict bool) manifest.Options {
	return manifest.Options{Origin: "https://config.example/pods", OriginKind: manifest.URLKind, Node: "node", Strict: strict}
}

// FuzzBody checks, for any two consecutive bodies, that they cause no panic, give the same result each time,
// and lose no readable item: an item that Parse turns into a pod is in the set, unless a strict reader holds
// all items.
func FuzzBody(f *testing.F) {
	good := list(pod("web", "v1"), pod("db", "v1"))
	f.Add([]byte(good), []byte(list(bad, nameless)), false)
	f.Add([]byte(good), []byte(good+"\n---\n"+configMap), true)
	f.Fuzz(func(t *testing.T, first, second []byte, strict bool) {
		c := newContent(options(strict), nil)
		for _, text := range [][]byte{first, second, second} {
			body := body{text: text, isJSON: json.Valid(text)}
			next, err := c.take(body)
			again, errAgain := c.take(body)
			if fmt.Sprint(err) != fmt.Sprint(errAgain) || !reflect.DeepEqual(next.items, again.items) {
				t.Fatalf("another result the second time:\n%q %v\n%q %v", show(set(next)), err, show(set(again)), errAgain)
			}
			checkContent(t, c, next, body, err)
			c = next
		}
	})
}

func set(c *content) manifest.Set { return manifest.Set{Origins: c.origins()} }

// checkContent checks the content after a body.
func checkContent(t *testing.T, before, now *content, b body, err error) {
	t.Helper()
	parsed := manifest.Parse(b.text, before.opts)
	if err != nil {
		if now != before || len(parsed.Pods) > 0 || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Fatalf("error %v with %d good pods", err, len(parsed.Pods))
		}
		return
	}
	names, uids := map[string]bool{}, map[types.UID]bool{}
	for _, o := range now.origins() {
		if names[o.Name] {
			t.Errorf("there are two origins %s", o.Name)
		}
		names[o.Name] = true
		hasError := slices.ContainsFunc(o.Findings, func(f manifest.Finding) bool { return f.Severity == manifest.Error })
		if o.Held != hasError {
			t.Errorf("origin %s: Held is %v, its findings are %v", o.Name, o.Held, o.Findings)
		}
		for _, p := range o.Pods {
			uids[p.UID] = true
		}
	}
	held := slices.ContainsFunc(now.items, func(i manifest.Item) bool { return i.Origin.Held })
	if now.good != !held {
		t.Errorf("good is %v, but held is %v", now.good, held)
	}
	if now.opts.Strict && held {
		for _, item := range before.base {
			if !names[item.Origin.Name] {
				t.Errorf("origin %s was lost", item.Origin.Name)
			}
		}
		return
	}
	if now.isPending() {
		// No earlier item is lost, and the next equal answer counts.
		for _, item := range before.base {
			if before.isHoldable(item) && !names[item.Origin.Name] {
				t.Errorf("origin %s was lost", item.Origin.Name)
			}
			for _, p := range item.Origin.Pods {
				if !uids[p.UID] {
					t.Errorf("pod %s/%s was lost", p.Namespace, p.Name)
				}
			}
		}
		if next, err := now.take(b); err != nil || next.isPending() {
			t.Errorf("the same body again doesn't count: %v", err)
		}
		return
	}
	for _, p := range parsed.Pods {
		if !uids[p.UID] {
			t.Errorf("pod %s/%s was lost", p.Namespace, p.Name)
		}
	}
	nameless := slices.ContainsFunc(now.items, func(i manifest.Item) bool { return i.Nameless })
	for _, item := range before.items {
		if nameless && before.isHoldable(item) && !names[item.Origin.Name] {
			t.Errorf("origin %s was lost beside an item without a name", item.Origin.Name)
		}
	}
}

// FuzzPodList builds lists from the fuzzer's bytes, one for each run between zeros, and compares what is served
// after each with a model. A byte is an item: the pod, its version, and whether it is good, bad, or without a
// name.
func FuzzPodList(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0, 1, 0x42, 3, 0, 0xc1, 2})
	f.Add([]byte{1, 2, 0, 0xff, 0, 0, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 256 {
			return
		}
		c := newContent(options(false), nil)
		merger := merge.New([]merge.Source{{Name: "http"}}, merge.Stored{})
		model := map[string]string{}
		for n, run := range strings.Split(string(script), "\x00") {
			var items []string
			now, used, nameless := map[string]string{}, false, false
			for _, b := range []byte(run) {
				name, image := fmt.Sprint("p", b&7), fmt.Sprint("v", b>>3&7)
				switch kind := b >> 6; {
				case slices.Contains(items, pod(name, image)) || hasName(items, name):
					// The merge decides which of two items has the name.
				case kind == 3:
					items, nameless = append(items, namelessItem(b)), true
				case kind == 2:
					items = append(items, strings.Replace(bad, "web", name, 1))
					if old, ok := model[name]; ok {
						now[name] = old
					}
				default:
					items = append(items, pod(name, image))
					now[name], used = image, true
				}
			}
			next, err := c.take(body{text: []byte(list(items...)), isJSON: true})
			if (err != nil) != (nameless && !used) {
				t.Fatalf("run %d: error %v", n, err)
			}
			if err != nil {
				now = model
			} else if nameless {
				for name, image := range model {
					if _, ok := now[name]; !ok {
						now[name] = image
					}
				}
			}
			c, model = next, now
			merger.Apply(manifest.Set{Source: "http", ReadTime: time.Unix(int64(n), 0), Err: err, Origins: originsUnless(c, err)})
			if served := merger.Sources()[0].Pods; served != len(model) {
				t.Fatalf("run %d: %d pods are served, want %v; the set is %q", n, served, model, show(set(c)))
			}
			for _, line := range show(set(c)) {
				if name, image, ok := strings.Cut(strings.TrimPrefix(line, "default/"), "="); ok && model[name] != image {
					t.Fatalf("run %d: %s, want %s", n, line, model[name])
				}
			}
		}
	})
}

func originsUnless(c *content, err error) []*manifest.Origin {
	if err != nil {
		return nil
	}
	return c.origins()
}

func hasName(items []string, name string) bool {
	return slices.ContainsFunc(items, func(i string) bool { return strings.Contains(i, `"name":"`+name+`"`) })
}

// namelessItem returns one of several items without a name.
func namelessItem(b byte) string {
	return []string{nameless, "null", `"web"`, `{"kind":"Job"}`, `{"metadata":{"name":"Web"}}`, "[]", `{"metadata":{"name":7}}`, "{}"}[b&7]
}
