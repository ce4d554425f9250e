package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// following is a running RunObjects, and its reports.
type following struct {
	t      *testing.T
	wanted chan []sources.ObjectKey

	mu       sync.Mutex
	changed  chan struct{}
	reported []reported
}

type reported struct {
	key    sources.ObjectKey
	object *manifest.Object
}

func follow(t *testing.T, server *apitest.Server, logger *slog.Logger) *following {
	t.Helper()
	return followBy(t, newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Logger: logger}))
}

func followBy(t *testing.T, s *Source) *following {
	t.Helper()
	f := &following{t: t, wanted: make(chan []sources.ObjectKey), changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.RunObjects(ctx, f.wanted, f.take); err != nil {
			t.Errorf("RunObjects returned %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Error("RunObjects hasn't ended 30 s after its context")
		}
	})
	return f
}

func (f *following) take(key sources.ObjectKey, o *manifest.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported = append(f.reported, reported{key, o})
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *following) all() ([]reported, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reported[:len(f.reported):len(f.reported)], f.changed
}

// next waits for the n-th report, counted from 1.
func (f *following) next(n int) reported {
	f.t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for {
		all, changed := f.all()
		if len(all) >= n {
			return all[n-1]
		}
		select {
		case <-changed:
		case <-deadline.C:
			f.t.Fatalf("there was no report number %d", n)
		}
	}
}

func configKey(name string) sources.ObjectKey {
	return sources.ObjectKey{Kind: manifest.ConfigMapKind, Namespace: "ns", Name: name}
}

func secretKey(name string) sources.ObjectKey {
	return sources.ObjectKey{Kind: manifest.SecretKind, Namespace: "ns", Name: name}
}

func newConfigMap(name, value string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"key": value}}
}

func newSecret(name, value string) *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"key": []byte(value)}}
}

func TestObjectLife(t *testing.T) {
	for name, mode := range map[string]apitest.WatchListMode{
		"streaming": apitest.WatchListServed, "list": apitest.WatchListWithoutProgress,
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
			server.WatchList(mode)
			server.Put(newConfigMap("c", "1"), newConfigMap("not wanted", "1"))
			f := follow(t, server, nil)
			f.wanted <- []sources.ObjectKey{configKey("c")}
			first := f.next(1)
			if first.key != configKey("c") || first.object.ConfigMap.Data["key"] != "1" || first.object.ConfigMap.Kind != "ConfigMap" {
				t.Errorf("reported %+v", first)
			}
			server.AwaitWatches("configmaps", 1)
			if w := server.View().Watches[0]; w.Namespace != "ns" || w.FieldSelector != "metadata.name=c" {
				t.Errorf("the watch is %+v", w)
			}
			server.Put(newConfigMap("c", "2"))
			if second := f.next(2); second.object.ConfigMap.Data["key"] != "2" || second.object.Digest == first.object.Digest {
				t.Errorf("reported %+v", second.object.ConfigMap)
			}
			server.Delete(newConfigMap("c", ""))
			if gone := f.next(3); gone.object != nil {
				t.Errorf("reported %+v for a deleted object", gone.object)
			}
			f.wanted <- []sources.ObjectKey{configKey("c"), secretKey("s")}
			if missing := f.next(4); missing.object != nil || missing.key != secretKey("s") {
				t.Errorf("reported %+v for a Secret that never existed", missing)
			}
			server.AwaitWatches("secrets", 1)
			server.Put(newSecret("s", "later"))
			if s := f.next(5); string(s.object.Secret.Data["key"]) != "later" {
				t.Errorf("reported %+v for a Secret that was created later", s)
			}
			f.wanted <- nil
			server.AwaitWatches("configmaps", 0)
			server.AwaitWatches("secrets", 0)
		})
	}
}

func TestImmutableObjectIsReadOnce(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	yes := true
	immutable := newSecret("s", "1")
	immutable.Immutable = &yes
	server.Put(immutable)
	f := follow(t, server, nil)
	f.wanted <- []sources.ObjectKey{secretKey("s")}
	f.next(1)
	server.AwaitWatches("secrets", 0)
	// An object that stays wanted isn't read again. One that is wanted again is.
	f.wanted <- []sources.ObjectKey{secretKey("s"), configKey("c")}
	f.next(2)
	f.wanted <- []sources.ObjectKey{configKey("c")}
	f.wanted <- []sources.ObjectKey{secretKey("s"), configKey("c")}
	if again := f.next(3); again.key != secretKey("s") || again.object == nil {
		t.Errorf("reported %+v", again)
	}
}

// TestImmutableObjectIsReportedOnce: without this, its deletion while it is being reported would remain the last
// report.
func TestImmutableObjectIsReportedOnce(t *testing.T) {
	yes := true
	secret := newSecret("s", "1")
	secret.Immutable = &yes
	object, err := asObject(secret)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	s := &follower{key: secretKey("s"), stop: func() { stopped = true }, updates: newUpdates()}
	var got []*manifest.Object
	f := &followers{byKey: map[sources.ObjectKey]*follower{s.key: s}, updates: s.updates, out: func(_ sources.ObjectKey, o *manifest.Object) {
		got = append(got, o)
		s.report("", nil)
	}}
	s.report("u 1", object)
	f.report(f.updates.take())
	f.report(f.updates.take())
	if len(got) != 1 || got[0] != object || !stopped {
		t.Errorf("reported %v, and stopped %v; want only the object", got, stopped)
	}
}

func TestObjectsWhileTheServerIsAway(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newConfigMap("stays", "1"), newConfigMap("goes", "1"))
	f := follow(t, server, nil)
	f.wanted <- []sources.ObjectKey{configKey("stays"), configKey("goes")}
	f.next(2)
	server.AwaitWatches("configmaps", 2)
	server.Stop()
	f.wanted <- []sources.ObjectKey{configKey("stays"), configKey("goes"), configKey("new")}
	server.Delete(newConfigMap("goes", ""))
	server.Put(newConfigMap("new", "1"))
	server.Compact()
	if all, _ := f.all(); len(all) != 2 {
		t.Errorf("reported %+v while the server was away", all[2:])
	}
	server.Start()
	f.next(4)
	server.AwaitWatches("configmaps", 3)
	all, _ := f.all()
	for _, reported := range all[2:] {
		if reported.key == configKey("stays") || (reported.object == nil) != (reported.key == configKey("goes")) {
			t.Errorf("reported %+v when it was back", reported)
		}
	}
}

func TestForbiddenObjectIsLoggedOnce(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newSecret("s", "hidden"))
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusForbidden, metav1.StatusReasonForbidden, "no relationship found between node and this object")
	})
	log := &logtest.Buffer{}
	f := follow(t, server, slog.New(slog.NewTextHandler(log, nil)))
	f.wanted <- []sources.ObjectKey{secretKey("s")}
	server.Await("tries", func(v apitest.View) bool { return v.Answered(isList) >= 5 })
	if all, _ := f.all(); len(all) > 0 {
		t.Errorf("reported %+v for an object that can't be read", all)
	}
	// Access is granted later, as by the node authorizer once the pod is bound.
	server.Answer(nil)
	f.next(1)
	lines := withoutCluster(log.Lines())
	if len(lines) != 1 || !strings.Contains(lines[0], "no relationship found") || !strings.Contains(lines[0], "ns/s") {
		t.Errorf("the log is\n%s", strings.Join(lines, "\n"))
	}
	if bytes.Contains([]byte(strings.Join(lines, "")), []byte("hidden")) {
		t.Error("the log has the secret's value")
	}
}

func TestManyObjectsAtOnce(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	f := follow(t, server, nil)
	var keys []sources.ObjectKey
	for i := range 60 {
		name := fmt.Sprintf("c%02d", i)
		server.Put(newConfigMap(name, "1"), newSecret(name, "1"))
		keys = append(keys, configKey(name), secretKey(name))
	}
	f.wanted <- keys
	f.next(len(keys))
	server.AwaitWatches("configmaps", 60)
	server.AwaitWatches("secrets", 60)
	f.wanted <- keys[:1]
	server.AwaitWatches("configmaps", 1)
	server.AwaitWatches("secrets", 0)
}
