package apiserver

import (
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// balancer is a proxy that has servers of several clusters behind it.
type balancer struct {
	*httptest.Server

	mu sync.Mutex
	// choose returns the server that gets a request.
	choose func(isCheck bool) *apitest.Server
}

func newBalancer(t *testing.T, choose func(isCheck bool) *apitest.Server) *balancer {
	t.Helper()
	b := &balancer{choose: choose}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		b.mu.Lock()
		defer b.mu.Unlock()
		to, err := url.Parse(b.choose(r.In.URL.Path == "/api/v1/namespaces/default/services/kubernetes").URL())
		if err != nil {
			t.Error(err)
		}
		r.SetURL(to)
	}})
	t.Cleanup(func() { b.CloseClientConnections(); b.Close() })
	return b
}

// send changes the choice.
func (b *balancer) send(choose func(isCheck bool) *apitest.Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.choose = choose
}

// to chooses the server for each request.
func to(server *apitest.Server) func(bool) *apitest.Server {
	return func(bool) *apitest.Server { return server }
}

// behind has a Source read the balancer.
func (b *balancer) behind() func(*Config) {
	return func(c *Config) { c.RESTConfig = &rest.Config{Host: b.URL} }
}

// uids are the UIDs of the pods of a set.
func uids(set manifest.Set) []types.UID {
	var out []types.UID
	for _, o := range set.Origins {
		out = append(out, o.Pods[0].UID)
	}
	return out
}

// TestPodOfTheOtherClusterIsNoSign: a pod of the other cluster that came by a watch, before the next check, doesn't show
// that the other cluster is the first one.
func TestPodOfTheOtherClusterIsNoSign(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	var mu sync.Mutex
	var known []types.UID
	s := ofCluster(t, server, "", func(c *Config) {
		c.Known = func() []types.UID {
			mu.Lock()
			defer mu.Unlock()
			return known
		}
	})
	s.probeInterval = time.Hour
	r := start(t, s)
	set, at := r.awaitPods(0, "ns/a")
	store := func(set manifest.Set) {
		mu.Lock()
		defer mu.Unlock()
		known = uids(set)
	}
	store(set)
	server.AwaitWatches("pods", 1)
	server.Put(service("another"))
	server.Put(newPod("foreign"))
	set, at = r.awaitPods(at, "ns/a", "ns/foreign") // No check was made since.
	store(set)
	server.Delete(newPod("a"))
	set, at = r.awaitPods(at, "ns/foreign")
	store(set)
	server.EndWatches()
	awaitRefused(t, server, r, at, "is of another cluster")
}

// TestResumedAfterAnotherCluster: what a watch of another cluster has added, as its check reached the first one, is gone
// when the first one is read again: the watch isn't resumed.
func TestResumedAfterAnotherCluster(t *testing.T) {
	ours, theirs := apitest.New(t, apitest.Config{}), apitest.New(t, apitest.Config{})
	ours.Put(newPod("a"), newPod("b"))
	theirs.Put(newPod("x"), newPod("y"), newPod("z"))
	b := newBalancer(t, to(ours))
	s := ofCluster(t, ours, "", b.behind())
	s.probeInterval = time.Hour
	r := start(t, s)
	_, at := r.awaitPods(0, "ns/a", "ns/b")
	ours.AwaitWatches("pods", 1)
	b.send(func(isCheck bool) *apitest.Server {
		if isCheck {
			return ours
		}
		return theirs
	})
	ours.EndWatches()
	theirs.AwaitWatches("pods", 1)
	theirs.Put(newPod("foreign"))
	_, at = r.await("the other cluster's pod", at, func(s manifest.Set) bool { return slices.Contains(originNames(s), "ns/foreign") })
	// The first cluster goes on, so that its versions follow that of the other one's pod.
	for range 10 {
		ours.Put(newPod("b"))
	}
	// One check reaches the other cluster. All other requests reach the first one.
	once := true
	b.send(func(isCheck bool) *apitest.Server {
		if isCheck && once {
			once = false
			return theirs
		}
		return ours
	})
	if err := s.server.identity.confirm(t.Context(), nil); !isIdentity(err) {
		t.Fatalf("the check returned %v", err)
	}
	r.awaitPods(at, "ns/a", "ns/b")
}

// TestTwoClustersInTurn: a proxy that sends each request to another cluster than the one before is detected.
func TestTwoClustersInTurn(t *testing.T) {
	for name, first := range map[string]int{"the first cluster's turn": 0, "the second cluster's turn": 1} {
		t.Run(name, func(t *testing.T) {
			servers := []*apitest.Server{apitest.New(t, apitest.Config{}), apitest.New(t, apitest.Config{})}
			servers[0].Put(newPod("a"))
			servers[1].Put(newPod("foreign"))
			b := newBalancer(t, to(servers[0]))
			s := ofCluster(t, servers[0], "", b.behind())
			s.probeInterval = time.Hour
			r := start(t, s)
			_, at := r.awaitPods(0, "ns/a")
			servers[0].AwaitWatches("pods", 1)
			requests, many := 0, make(chan struct{})
			b.send(func(bool) *apitest.Server {
				if requests++; requests == 40 {
					close(many)
				}
				return servers[(first+requests)%2]
			})
			servers[0].EndWatches()
			_, _ = r.await("a refusal", at, func(s manifest.Set) bool { return s.Err != nil && isIdentity(s.Err) })
			<-many
			sets, _ := r.all()
			for _, set := range sets {
				if slices.Contains(originNames(set), "ns/foreign") {
					t.Fatal("the second cluster's pod was handed over")
				}
			}
		})
	}
}

// TestRefusedWhileAWatchBegins: a check ends a watch that isn't answered yet. The reason stays that of the check.
func TestRefusedWhileAWatchBegins(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.WatchList(apitest.WatchListUnanswered)
	s := ofCluster(t, server, "")
	s.probeInterval = time.Hour
	if err := s.server.identity.confirm(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r := start(t, s)
	server.AwaitWatches("pods", 1)
	server.Put(service("another"))
	if err := s.server.identity.confirm(t.Context(), nil); !isIdentity(err) {
		t.Fatalf("the check returned %v", err)
	}
	if set, _ := r.awaitErr(0); !isIdentity(set.Err) {
		t.Errorf("the first reason is: %v", set.Err)
	}
}
