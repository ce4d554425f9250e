package apiserver

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/clusteruid"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func isProbe(r apitest.Request) bool { return r.Verb == "list" && r.Namespace != "" }

func isCheck(r apitest.Request) bool { return r.Verb == "get" && r.Resource == "services" }

// TestQuietServerIsHeard: a server without events counts as heard if it answers, and not if it refuses, whether it shows
// which cluster it is of or not.
func TestQuietServerIsHeard(t *testing.T) {
	t.Run("of a known cluster", func(t *testing.T) { quietServerIsHeard(t, apitest.New(t, apitest.Config{}), isCheck) })
	t.Run("of an unknown one", func(t *testing.T) {
		server := apitest.New(t, apitest.Config{})
		server.Delete(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: clusteruid.Namespace, Name: clusteruid.Service}})
		quietServerIsHeard(t, server, isProbe)
	})
}

func quietServerIsHeard(t *testing.T, server *apitest.Server, isProbe func(apitest.Request) bool) {
	t.Helper()
	server.Put(newPod("a"))
	source := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{})})
	source.probeInterval = 5 * time.Millisecond
	r := start(t, source)
	first, at := r.awaitPods(0, "ns/a")
	server.AwaitWatches("pods", 1)
	for range 3 {
		var next manifest.Set
		next, at = r.awaitPods(at, "ns/a")
		if !next.ReadTime.After(first.ReadTime) || next.Origins[0] != first.Origins[0] {
			t.Errorf("a set read at %v after one of %v, with another origin: %v", next.ReadTime, first.ReadTime, next.Origins[0] != first.Origins[0])
		}
	}
	if n := server.View().Answered(isProbe); n < 3 {
		t.Errorf("%d probes were answered, want one for each set at least", n)
	}
	server.Answer(func(r apitest.Request) *apitest.Reply {
		if !isProbe(r) {
			return nil
		}
		return apitest.TooManyRequests(1)
	})
	before := server.View().Answered(isProbe)
	server.Await("refused probes", func(v apitest.View) bool { return v.Answered(isProbe) >= before+20 })
	sets, _ := r.all()
	server.Await("more refused probes", func(v apitest.View) bool { return v.Answered(isProbe) >= before+30 })
	if later, _ := r.all(); len(later) > len(sets) {
		t.Errorf("%d sets came while each probe was refused", len(later)-len(sets))
	}
}

// TestHeardNeedsPods: an answer confirms the pods only if they were read, and while they can be read.
func TestHeardNeedsPods(t *testing.T) {
	p := newPods(func(*v1.Pod) bool { return true })
	taken := func(when string, want bool) {
		t.Helper()
		p.heard()
		if got := p.take(); got.good != want {
			t.Errorf("%s an answer makes a good set: %v, want %v", when, got.good, want)
		}
	}
	taken("before the first list", false)
	if err := p.Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	p.take()
	taken("after the list", true)
	p.failed(errors.New("away"))
	p.take()
	taken("after a failure", false)
	if err := p.Bookmark("2"); err != nil {
		t.Fatal(err)
	}
	p.take()
	taken("once it is read again", true)
}
