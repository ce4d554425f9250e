package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// gateway returns a Source of all nodes, as podconfigd with --nodes=* has it.
func gateway(t *testing.T, server *apitest.Server, cfg Config) *Source {
	t.Helper()
	cfg.RESTConfig, cfg.Nodes = server.RESTConfig(apitest.Identity{}), []string{AllNodes}
	s := newSource(t, cfg)
	s.refusedFor = 20 * time.Millisecond
	return s
}

func isGet(r apitest.Request) bool   { return r.Verb == "get" && r.Resource != "services" }
func isWatch(r apitest.Request) bool { return r.Verb == "watch" }

// isWhole reports whether a request is for whole objects of a namespace.
func isWhole(r apitest.Request) bool { return isList(r) && !r.Metadata }

// TestObjectsOfANamespace: on a gateway one watch of metadata serves the ConfigMaps of a namespace, with changes, deletions,
// objects that are made again, and references that come later. Objects of no pod aren't read.
func TestObjectsOfANamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newConfigMap("a", "1"), newConfigMap("b", "1"), newConfigMap("of no pod", "1"), newConfigMap("later", "1"))
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- []sources.ObjectKey{configKey("a"), configKey("b"), configKey("c")}
	f.next(3)
	server.AwaitWatches("configmaps", 1)
	if w := server.View().Watches[0]; !w.Metadata || w.FieldSelector != "" || w.Namespace != "ns" || w.InitialEvents {
		t.Errorf("the watch is %+v; want one of the namespace's metadata, after a list", w)
	}
	server.Put(newConfigMap("a", "2"))
	if got := f.next(4); got.key != configKey("a") || got.object.ConfigMap.Data["key"] != "2" || got.object.ConfigMap.Kind != "ConfigMap" {
		t.Errorf("after a change, reported %+v", got)
	}
	server.Delete(newConfigMap("a", ""))
	if got := f.next(5); got.key != configKey("a") || got.object != nil {
		t.Errorf("after a deletion, reported %+v", got)
	}
	again := newConfigMap("b", "again")
	again.UID = "another"
	server.Put(again)
	if got := f.next(6); got.key != configKey("b") || got.object != nil && got.object.ConfigMap.Data["key"] != "again" {
		t.Errorf("of an object that was made again, reported %+v", got)
	}
	server.Put(newConfigMap("c", "1"))
	server.Put(newConfigMap("of no pod", "2"))
	f.await(t, map[string]string{"a": "missing", "b": "again", "c": "1"})
	f.wanted <- []sources.ObjectKey{configKey("a"), configKey("b"), configKey("c"), configKey("later")}
	f.await(t, map[string]string{"a": "missing", "b": "again", "c": "1", "later": "1"})
	for _, r := range server.View().Requests {
		if isGet(r) && (r.Name == "of no pod" || r.ResourceVersion != "") {
			t.Errorf("a request that isn't for the latest version of a needed object: %+v", r)
		}
	}
	f.wanted <- nil
	server.AwaitWatches("configmaps", 0)
}

// await waits until the last report of each wanted object is as said.
func (f *following) await(t *testing.T, want map[string]string) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for {
		all, changed := f.all()
		got := map[string]string{}
		for _, r := range all {
			if _, ok := want[r.key.Name]; ok {
				got[r.key.Name] = valueOf(r)
			}
		}
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("reported %v; want %v", got, want)
		}
	}
}

func valueOf(r reported) string {
	switch {
	case r.object == nil:
		return "missing"
	case r.object.Secret != nil:
		return string(r.object.Secret.Data["key"])
	default:
		return r.object.ConfigMap.Data["key"]
	}
}

// putMany puts n objects, and returns their keys and values.
func putMany(server *apitest.Server, n int, key func(string) sources.ObjectKey) (keys []sources.ObjectKey, want map[string]string) {
	want = map[string]string{}
	for i := range n {
		name := fmt.Sprintf("o%04d", i)
		if key(name) == configKey(name) {
			server.Put(newConfigMap(name, "1"))
		} else {
			server.Put(newSecret(name, "1"))
		}
		keys, want[name] = append(keys, key(name)), "1"
	}
	return keys, want
}

// TestManyObjectsOfANamespace: many ConfigMaps are read by one list, in pages. One that isn't in it doesn't exist.
func TestManyObjectsOfANamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	keys, want := putMany(server, 1200, configKey)
	want["missing one"] = "missing"
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- append(keys, configKey("missing one"))
	f.await(t, want)
	server.AwaitWatches("configmaps", 1)
	if v := server.View(); v.Answered(isGet) > 0 || v.Answered(isWhole) != 3 {
		t.Errorf("%d requests of one object, and %d of whole objects; want 3 pages", v.Answered(isGet), v.Answered(isWhole))
	}
}

// TestFewObjectsOfALargeNamespace: if most objects of a namespace are of no pod, a list of all is given up after a page.
func TestFewObjectsOfALargeNamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	keys, want := putMany(server, 2*objectPage, configKey)
	keys = keys[len(keys)-20:]
	maps.DeleteFunc(want, func(name, _ string) bool { return !slices.Contains(keys, configKey(name)) })
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- keys
	f.await(t, want)
	if v := server.View(); v.Answered(isGet) != len(keys) || v.Answered(isWhole) != 1 {
		t.Errorf("%d requests of one object, and %d pages; want %d, and 1", v.Answered(isGet), v.Answered(isWhole), len(keys))
	}
}

// TestLargeObjectsOfANamespace: pages of whole objects, and of metadata, are bounded in bytes.
func TestLargeObjectsOfANamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	var keys []sources.ObjectKey
	want := map[string]string{}
	for i := range 100 {
		o := newConfigMap(fmt.Sprintf("o%04d", i), "1")
		o.Annotations = map[string]string{"large": strings.Repeat("x", 250<<10)}
		server.Put(o)
		keys, want[o.Name] = append(keys, configKey(o.Name)), "1"
	}
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- keys
	f.await(t, want)
	server.AwaitWatches("configmaps", 1)
	if v := server.View(); v.Answered(isWhole) != 1 || v.Answered(isGet) != len(keys) {
		t.Errorf("%d lists of whole objects, and %d requests of one; want 1, which is too large, and %d", v.Answered(isWhole),
			v.Answered(isGet), len(keys))
	}
}

// TestSecretsByName: by default each Secret has a watch of its own, on a gateway, too.
func TestSecretsByName(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	keys, want := putMany(server, 30, secretKey)
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- keys
	f.await(t, want)
	server.AwaitWatches("secrets", len(keys))
	for _, r := range server.View().Requests {
		if r.Resource == "secrets" && r.FieldSelector == "" {
			t.Errorf("a request of more than one Secret: %+v", r)
		}
	}
}

// TestSecretsByNamespace: with WatchNamespace the metadata of all Secrets of a namespace is watched. The values of those of no
// pod aren't requested.
func TestSecretsByNamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	keys, want := putMany(server, 30, secretKey)
	server.Put(newSecret("of no pod", "1"))
	f := followBy(t, gateway(t, server, Config{WatchSecrets: WatchNamespace}))
	f.wanted <- keys
	f.await(t, want)
	server.AwaitWatches("secrets", 1)
	server.Put(newSecret("of no pod", "2"))
	server.Put(newSecret("o0000", "2"))
	want["o0000"] = "2"
	f.await(t, want)
	for _, r := range server.View().Requests {
		if r.Resource == "secrets" && (!isGet(r) && !r.Metadata || r.Name == "of no pod") {
			t.Errorf("a request that has values of Secrets that no pod refers to: %+v", r)
		}
	}
}

// TestImmutableObjectOfANamespace: it is read once, and not again when its metadata changes.
func TestImmutableObjectOfANamespace(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	yes := true
	fixed := func(label string) *v1.ConfigMap {
		o := newConfigMap("fixed", "1")
		o.Immutable, o.Labels = &yes, map[string]string{"label": label}
		return o
	}
	server.Put(fixed("1"), newConfigMap("b", "1"))
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- []sources.ObjectKey{configKey("fixed"), configKey("b")}
	f.await(t, map[string]string{"fixed": "1", "b": "1"})
	server.AwaitWatches("configmaps", 1)
	server.Put(fixed("2"))
	server.Put(newConfigMap("b", "2"))
	f.await(t, map[string]string{"fixed": "1", "b": "2"})
	if n := server.View().Answered(isGetOf("fixed")); n != 1 {
		t.Errorf("it was read %d times", n)
	}
}

// TestWatchBehindTheReadings: what was read stays when the watch shows an older version afterwards, and each change is read.
func TestWatchBehindTheReadings(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newConfigMap("a", "1"), newConfigMap("b", "1"))
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- []sources.ObjectKey{configKey("a"), configKey("b")}
	f.await(t, map[string]string{"a": "1", "b": "1"})
	server.AwaitWatches("configmaps", 1)
	server.HoldEvents(true)
	for i := 2; i < 20; i++ {
		server.Put(newConfigMap("a", strconv.Itoa(i)))
	}
	server.Delete(newConfigMap("b", ""))
	server.Put(newConfigMap("b", "2"))
	server.HoldEvents(false)
	f.await(t, map[string]string{"a": "19", "b": "2"})
	server.EndWatches()
	server.Put(newConfigMap("a", "20"))
	server.Compact()
	f.await(t, map[string]string{"a": "20", "b": "2"})
	all, _ := f.all()
	last := 0
	for _, r := range all {
		if r.key == configKey("a") {
			n, _ := strconv.Atoi(valueOf(r))
			if n < last {
				t.Errorf("%d was reported after %d", n, last)
			}
			last = n
		}
	}
}

// TestNamespaceWithoutObjects: when all objects of a namespace are deleted with it, they are reported missing, and a namespace
// that is made again works.
func TestNamespaceWithoutObjects(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	keys, want := putMany(server, 40, configKey)
	f := followBy(t, gateway(t, server, Config{}))
	f.wanted <- keys
	f.await(t, want)
	server.AwaitWatches("configmaps", 1)
	for name := range want {
		server.Delete(newConfigMap(name, ""))
		want[name] = "missing"
	}
	f.await(t, want)
	putMany(server, 40, configKey)
	for name := range want {
		want[name] = "1"
	}
	f.await(t, want)
}
