package apiserver

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func TestServerAwayAtStart(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	server.Stop()
	r := read(t, server)
	set, _ := r.awaitErr(0)
	if !strings.Contains(set.Err.Error(), server.URL()) || !strings.Contains(set.Err.Error(), "connection refused") {
		t.Errorf("the error is %q", set.Err)
	}
	server.Start()
	r.awaitPods(0, "ns/a")
	sets, _ := r.all()
	if errs := slices.IndexFunc(sets, func(s manifest.Set) bool { return s.Err == nil }); errs != 1 {
		t.Errorf("%d sets came before the good one; want one error, once", errs)
	}
}

func TestServerRestarts(t *testing.T) {
	for name, ca := range map[string]*certtest.CA{"HTTP/1.1": nil, "HTTP/2": certtest.NewCA(t, "cluster")} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{CA: ca})
			server.Put(newPod("a"), newPod("b"))
			r := read(t, server)
			first, at := r.awaitPods(0, "ns/a", "ns/b")
			server.AwaitWatches("pods", 1)
			server.Stop()
			_, at = r.awaitErr(at)
			server.Delete(newPod("b"))
			server.Start()
			set, at := r.await("a good set", at, func(s manifest.Set) bool { return s.Err == nil })
			if set.Origins[0] != first.Origins[0] {
				t.Error("a pod that didn't change has another Origin")
			}
			r.awaitPods(at-1, "ns/a")
		})
	}
}

func TestConnectionsDrop(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newPod("a"))
	r := read(t, server)
	_, at := r.awaitPods(0, "ns/a")
	for _, name := range []string{"b", "c", "d"} {
		server.AwaitWatches("pods", 1)
		server.DropConnections()
		server.Put(newPod(name))
		_, at = r.await("pod "+name, at, func(s manifest.Set) bool { return slices.Contains(originNames(s), "ns/"+name) })
	}
}

func TestSilentConnectionIsNoticed(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newPod("a"))
	r := read(t, server)
	_, at := r.awaitPods(0, "ns/a")
	server.AwaitWatches("pods", 1)
	server.Mute()
	begun := time.Now()
	server.Put(newPod("b"))
	r.awaitPods(at, "ns/a", "ns/b")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("it was noticed after %v, which can't be by a ping", took)
	}
}

func TestSilenceThatEnds(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	r := read(t, server)
	_, at := r.awaitPods(0)
	server.AwaitWatches("pods", 1)
	server.Silence(true)
	server.Put(newPod("a"))
	server.Silence(false)
	r.awaitPods(at, "ns/a")
	if n := server.View().Answered(isOfPods); n != 1 {
		t.Errorf("it took %d requests; want the one watch", n)
	}
}

func TestSlowBytes(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	for _, name := range []string{"a", "b", "c"} {
		server.Put(newPod(name))
	}
	server.Slow(16, 100*time.Microsecond)
	r := read(t, server)
	_, at := r.awaitPods(0, "ns/a", "ns/b", "ns/c")
	server.Delete(newPod("b"))
	r.awaitPods(at, "ns/a", "ns/c")
	if sets, _ := r.all(); slices.ContainsFunc(sets, func(s manifest.Set) bool { return s.Err != nil }) {
		t.Error("a slow server was reported as an error")
	}
}

func TestTruncatedAndGarbageFrames(t *testing.T) {
	for name, harm := range map[string]func(*apitest.Server){
		"half an event":  func(s *apitest.Server) { s.TruncateNext() },
		"garbage":        func(s *apitest.Server) { s.Inject([]byte("\x00\x00\x00\x04junk")) },
		"the end":        func(s *apitest.Server) { s.EndWatches() },
		"an empty frame": func(s *apitest.Server) { s.Inject([]byte("\x00\x00\x00\x00")) },
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.Put(newPod("a"))
			r := read(t, server)
			_, at := r.awaitPods(0, "ns/a")
			server.AwaitWatches("pods", 1)
			harm(server)
			server.Put(newPod("b"))
			_, at = r.awaitPods(at, "ns/a", "ns/b")
			server.Put(newPod("c"))
			r.awaitPods(at, "ns/a", "ns/b", "ns/c")
			sets, _ := r.all()
			for _, set := range sets {
				if set.Err == nil && !slices.Contains(originNames(set), "ns/a") {
					t.Errorf("a set without the pod that always existed: %s", describe(set))
				}
			}
		})
	}
}

func TestTooManyRequestsIsHeeded(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	refused := make(chan time.Time, 1)
	server.Answer(func(apitest.Request) *apitest.Reply {
		select {
		case refused <- time.Now():
			return apitest.TooManyRequests(1)
		default:
			return nil
		}
	})
	r := read(t, server)
	set, _ := r.awaitErr(0)
	if !strings.Contains(set.Err.Error(), "too many requests") {
		t.Errorf("the error is %q", set.Err)
	}
	r.awaitPods(0, "ns/a")
	if waited := time.Since(<-refused); waited < time.Second {
		t.Errorf("it was asked again after %v; the server had requested 1 s", waited)
	}
}

func TestForbiddenIsLoggedOnce(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusForbidden, metav1.StatusReasonForbidden, "pods is forbidden: User cannot list resource")
	})
	r := read(t, server)
	set, at := r.awaitErr(0)
	if !strings.Contains(set.Err.Error(), "pods is forbidden") {
		t.Errorf("the error is %q", set.Err)
	}
	server.Await("tries", func(v apitest.View) bool { return v.Answered(isList) >= 5 })
	if sets, _ := r.all(); len(sets) != at {
		t.Errorf("%d sets, of which the first error was number %d; want no further one", len(sets), at)
	}
}

// TestEverythingExpires: a server that rejects every request as too old can't be read. That is logged once, and
// it is retried with growing pauses.
func TestEverythingExpires(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	r := read(t, server)
	_, at := r.awaitPods(0, "ns/a")
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
	})
	server.EndWatches()
	set, at := r.awaitErr(at)
	if !strings.Contains(set.Err.Error(), "too old resource version") {
		t.Errorf("the error is %q", set.Err)
	}
	server.Await("tries", func(v apitest.View) bool { return v.Answered(isList) >= 10 })
	if sets, _ := r.all(); len(sets) != at {
		t.Errorf("%d sets, of which the error was number %d; want no further one", len(sets), at)
	}
	// Each attempt is one streaming list and two lists, because the reflector tries the list twice.
	lists, all := server.View().Answered(isList), server.View().Answered(func(apitest.Request) bool { return true })
	if all > 2*lists+10 {
		t.Errorf("%d requests, of which %d are lists: streaming lists are tried without a pause", all, lists)
	}
	server.Answer(nil)
	r.awaitPods(at, "ns/a")
}

// TestListedButNotWatched: a server that can be listed but not watched is read by lists, and each failed watch
// is an error, if watches are forbidden, and if the version of each list is too old for a watch.
func TestListedButNotWatched(t *testing.T) {
	for name, refusal := range map[string]*apitest.Reply{
		"forbidden": apitest.Fail(http.StatusForbidden, metav1.StatusReasonForbidden, "pods is forbidden: User cannot watch resource"),
		"too old":   apitest.Fail(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"),
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.Put(newPod("a"))
			server.Answer(func(r apitest.Request) *apitest.Reply {
				if r.Verb != "watch" {
					return nil
				}
				return refusal
			})
			r := read(t, server)
			_, at := r.awaitPods(0, "ns/a")
			_, at = r.awaitErr(at)
			server.Put(newPod("b"))
			r.awaitPods(at, "ns/a", "ns/b")
		})
	}
}

func TestRunEndsPromptlyWhileBackingOff(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Stop()
	source := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{})})
	source.backoff.Duration, source.backoff.Cap = time.Hour, time.Hour
	r := start(t, source)
	r.awaitErr(0)
	r.stop() // fails if it takes 5 s
}

// TestLargeRefusal: the reason is bounded, however long the server's text is: it is logged, and ListSources has it.
func TestLargeRefusal(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	r := start(t, ofCluster(t, server, ""))
	_, at := r.awaitPods(0, "ns/a")
	server.Answer(func(q apitest.Request) *apitest.Reply {
		return apitest.Fail(403, metav1.StatusReasonForbidden, strings.Repeat("no ", 2<<20))
	})
	server.EndWatches()
	set, _ := r.awaitErr(at)
	if n := len(set.Err.Error()); n > 8<<10 {
		t.Errorf("the reason has %d bytes", n)
	}
}
