package apiserver

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// asking returns a Source that polls objects at an interval.
func asking(t *testing.T, server *apitest.Server, often time.Duration) *Source {
	t.Helper()
	s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), ChangeDetection: Get})
	s.resync = often
	return s
}

func isGetOf(name string) func(apitest.Request) bool {
	return func(r apitest.Request) bool { return r.Verb == "get" && r.Name == name }
}

// TestPolledObjectLife: with Get, as with Watch, each change is reported once. There is no watch for the
// object.
func TestPolledObjectLife(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newConfigMap("c", "1"))
	f := followBy(t, asking(t, server, time.Millisecond))
	f.wanted <- []sources.ObjectKey{configKey("c")}
	if first := f.next(1); first.key != configKey("c") || first.object.ConfigMap.Data["key"] != "1" {
		t.Errorf("reported %+v", first)
	}
	server.Put(newConfigMap("c", "2"))
	if second := f.next(2); second.object.ConfigMap.Data["key"] != "2" {
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
	server.Put(newSecret("s", "later"))
	if s := f.next(5); string(s.object.Secret.Data["key"]) != "later" {
		t.Errorf("reported %+v", s)
	}
	for _, r := range server.View().Requests {
		if r.Verb != "get" {
			t.Errorf("a request that asks for more than an object: %+v", r)
		}
	}
}

// TestPolledFromALaggingCache: the server's cache is only used for newer objects: neither for an older one, nor for a
// missing one.
func TestPolledFromALaggingCache(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newConfigMap("old", "1"))
	server.Lag()
	server.Put(newConfigMap("old", "2"), newConfigMap("new", "1"))
	f := followBy(t, asking(t, server, time.Millisecond))
	f.wanted <- []sources.ObjectKey{configKey("old"), configKey("new")}
	f.next(2)
	for _, name := range []string{"old", "new"} {
		server.Await("looks at "+name, func(v apitest.View) bool { return v.Answered(isGetOf(name)) >= 10 })
	}
	all, _ := f.all()
	for _, reported := range all {
		if reported.object == nil || reported.key == configKey("old") && reported.object.ConfigMap.Data["key"] != "2" || len(all) != 2 {
			t.Errorf("reported %+v for %s, which is one of %d", reported.object, reported.key.Name, len(all))
		}
	}
	// The first read is never from the cache.
	firsts := map[string]bool{}
	for _, r := range server.View().Requests {
		if !firsts[r.Name] && r.ResourceVersion != "" {
			t.Errorf("the first look at %s is %+v", r.Name, r)
		}
		firsts[r.Name] = true
	}
}

// TestPolledWhenAPodRefersToIt: the objects of a pod that is added or changed are read at once; other changes don't
// cause that.
func TestPolledWhenAPodRefersToIt(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newConfigMap("c", "1"))
	s := asking(t, server, time.Hour)
	f, pods := followBy(t, s), start(t, s)
	_, seen := pods.awaitPods(0)
	f.wanted <- []sources.ObjectKey{configKey("c")}
	f.next(1)
	looks := func() int { return server.View().Answered(isGetOf("c")) }

	pod := newPod("p")
	pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "c"}}}}
	server.Put(newConfigMap("c", "2"))
	server.Put(withUID(pod, "u"))
	if reported := f.next(2); reported.object.ConfigMap.Data["key"] != "2" {
		t.Errorf("when a pod was added, reported %+v", reported.object.ConfigMap)
	}
	_, seen = pods.awaitPods(seen, "ns/p")

	before := looks()
	changed := pod.DeepCopy()
	changed.Status.Phase = v1.PodRunning
	server.Put(changed)
	pods.await("the pod runs", seen, func(set manifest.Set) bool {
		return len(set.Origins) == 1 && set.Origins[0].Pods[0].Status.Phase == v1.PodRunning
	})
	if after := looks(); after != before {
		t.Errorf("for a change of a status it was asked for %d times", after-before)
	}
	server.Put(newConfigMap("c", "3"))
	changed = changed.DeepCopy()
	changed.Spec.Containers[0].Image = "image:2"
	server.Put(changed)
	if reported := f.next(3); reported.object.ConfigMap.Data["key"] != "3" {
		t.Errorf("when the pod changed, reported %+v", reported.object.ConfigMap)
	}
}

// TestPolledWhileTheServerIsAway: while the server fails, or refuses, nothing is reported and it is retried.
func TestPolledWhileTheServerIsAway(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newSecret("s", "1"))
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusForbidden, metav1.StatusReasonForbidden, "no relationship found between node and this object")
	})
	f := followBy(t, asking(t, server, time.Millisecond))
	f.wanted <- []sources.ObjectKey{secretKey("s")}
	server.Await("tries", func(v apitest.View) bool { return v.Answered(isGetOf("s")) >= 3 })
	if all, _ := f.all(); len(all) > 0 {
		t.Errorf("reported %+v for an object that can't be read", all)
	}
	server.Answer(nil)
	f.next(1)
	server.Stop()
	server.Put(newSecret("s", "2"))
	server.Start()
	if reported := f.next(2); string(reported.object.Secret.Data["key"]) != "2" {
		t.Errorf("reported %+v when it was back", reported.object.Secret)
	}
}

// TestPolledImmutableObject: an immutable object isn't read again.
func TestPolledImmutableObject(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	yes := true
	immutable := newSecret("s", "1")
	immutable.Immutable = &yes
	server.Put(immutable, newConfigMap("c", "1"))
	f := followBy(t, asking(t, server, time.Millisecond))
	f.wanted <- []sources.ObjectKey{secretKey("s")}
	f.next(1)
	f.wanted <- []sources.ObjectKey{secretKey("s"), configKey("c")}
	f.next(2)
	before := server.View().Answered(isGetOf("s"))
	server.Await("looks at another", func(v apitest.View) bool { return v.Answered(isGetOf("c")) >= 10 })
	if after := server.View().Answered(isGetOf("s")); after > before {
		t.Errorf("it was asked for %d times more", after-before)
	}
}

// TestNodeTTL: with Cache, the time is the Node's TTL, if it can be read. It is read again at intervals.
func TestNodeTTL(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	clock := clocktesting.NewFakeClock(time.Now())
	every := func(nodes ...string) time.Duration {
		t.Helper()
		s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), ChangeDetection: Cache, Clock: clock, Nodes: nodes})
		return s.objects.(polling).every(t.Context())
	}
	annotated := func(ttl string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{v1.ObjectTTLAnnotationKey: ttl}}}
	}
	if got := every(); got != time.Minute {
		t.Errorf("without a Node it is %v", got)
	}
	for ttl, want := range map[string]time.Duration{"300": 5 * time.Minute, "0": time.Minute, "15": time.Minute, "-1": time.Minute, "soon": time.Minute} {
		server.Put(annotated(ttl))
		if got := every(); got != want {
			t.Errorf("with the annotation %s it is %v; want %v", ttl, got, want)
		}
	}
	server.Put(annotated("300"))
	if got := every("n1", "n2"); got != time.Minute {
		t.Errorf("for several nodes it is %v", got)
	}
	s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), ChangeDetection: Cache, Clock: clock})
	how := s.objects.(polling).every
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	got := []time.Duration{how(cancelled), how(t.Context())}
	server.Put(annotated("600"))
	got = append(got, how(t.Context()))
	clock.Step(nodeFrequency)
	got = append(got, how(t.Context()))
	if want := []time.Duration{time.Minute, 5 * time.Minute, 5 * time.Minute, 10 * time.Minute}; !slices.Equal(got, want) {
		t.Errorf("it is %v; want %v", got, want)
	}
}

// TestNodeTTLOfANodeThatIsAway: while the Node can't be read its last TTL is valid, and a Node whose annotation was
// removed has none.
func TestNodeTTLOfANodeThatIsAway(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	clock := clocktesting.NewFakeClock(time.Now())
	s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), ChangeDetection: Cache, Clock: clock})
	every := func(what string, want time.Duration) {
		t.Helper()
		if got := s.objects.(polling).every(t.Context()); got != want {
			t.Errorf("%s it is %v; want %v", what, got, want)
		}
		clock.Step(nodeFrequency)
	}
	every("before", time.Minute)
	server.Put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{v1.ObjectTTLAnnotationKey: "300"}}})
	every("with the annotation", 5*time.Minute)
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError, "too much to do")
	})
	every("while the server is in trouble", 5*time.Minute)
	every("for long", 5*time.Minute)
	server.Answer(nil)
	server.Put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	every("without the annotation", time.Minute)
}

// TestPolledFreshAfterAFailure: a read for a new pod is of the newest version, even after several attempts.
// More pods don't shorten the pauses between the attempts.
func TestPolledFreshAfterAFailure(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newConfigMap("c", "1"))
	s := asking(t, server, time.Hour)
	clock := clocktesting.NewFakeClock(time.Now())
	s.cfg.Clock = clock
	f, ended := &follower{key: configKey("c"), updates: newUpdates(), again: make(chan struct{}, 1), log: s.cfg.Logger}, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		s.objects.follow(ctx, f)
	}()
	answered := func(n int) {
		t.Helper()
		server.Await("looks", func(v apitest.View) bool { return v.Answered(isGetOf("c")) >= n })
	}
	waits := func() {
		for !clock.HasWaiters() {
			runtime.Gosched()
		}
	}
	answered(1)
	waits()
	server.Lag()
	server.Put(newConfigMap("c", "2"))
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusForbidden, metav1.StatusReasonForbidden, "not yet")
	})
	f.again <- struct{}{}
	answered(2)
	waits()
	f.again <- struct{}{}
	if len(f.again) == 0 {
		t.Error("a server that has just refused is asked again for the next pod")
	}
	server.Answer(nil)
	clock.Step(time.Minute)
	answered(3)
	for _, r := range server.View().Requests {
		if isGetOf("c")(r) && r.ResourceVersion != "" {
			t.Errorf("a look may be at the server's cache: %+v", r)
		}
	}
}

func TestUnknownStrategy(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	if _, err := New(Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Node: node, ChangeDetection: "Guess"}); err == nil {
		t.Error("a source that guesses was made")
	}
}
