package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func isList(r apitest.Request) bool   { return r.Verb == "list" }
func isOfPods(r apitest.Request) bool { return r.Resource == "pods" }
func isStream(r apitest.Request) bool { return r.InitialEvents }

func TestInitialList(t *testing.T) {
	for name, test := range map[string]struct {
		mode  apitest.WatchListMode
		lists int
	}{
		"streaming":                       {apitest.WatchListServed, 0},
		"etcd without progress":           {apitest.WatchListWithoutProgress, 3},
		"old server, or the gate is shut": {apitest.WatchListForbidden, 3},
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.WatchList(test.mode)
			const pods = 1200
			for i := range pods {
				server.Put(newPod(fmt.Sprintf("p%04d", i)))
			}
			r := read(t, server)
			set, at := r.await("a set", 0, func(manifest.Set) bool { return true })
			if set.Err != nil || len(set.Origins) != pods {
				t.Fatalf("the first set has error %v and %d pods", set.Err, len(set.Origins))
			}
			server.AwaitWatches("pods", 1)
			view := server.View()
			if n := view.Answered(isList); n != test.lists {
				t.Errorf("it took %d lists; want %d", n, test.lists)
			}
			if n := view.Answered(isStream); n != 1 {
				t.Errorf("a streaming list was asked for %d times; want once", n)
			}
			server.Put(newPod("q"))
			r.await("the next pod", at, func(s manifest.Set) bool { return len(s.Origins) == pods+1 })
		})
	}
}

func TestContinueTokenExpiresInTheMiddleOfAList(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.WatchList(apitest.WatchListForbidden)
	for i := range 600 {
		server.Put(newPod(fmt.Sprintf("p%04d", i)))
	}
	server.Answer(func(r apitest.Request) *apitest.Reply {
		if r.Continue != "" {
			server.Compact()
		}
		return nil
	})
	set, _ := read(t, server).await("a set", 0, func(manifest.Set) bool { return true })
	if set.Err != nil || len(set.Origins) != 600 {
		t.Errorf("the first set has error %v and %d pods", set.Err, len(set.Origins))
	}
}

func TestBookmarkKeepsTheVersionFresh(t *testing.T) {
	// By HTTP/2 all requests share a connection. A watch that begins on one of several, and is dropped with it at once, is
	// followed by a list.
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newPod("a"))
	r := read(t, server)
	_, at := r.awaitPods(0, "ns/a")
	server.AwaitWatches("pods", 1)
	server.Put(onNode(newPod("elsewhere"), "n2")) // changes the version, and this watch doesn't receive it
	server.Bookmark()
	bookmarked, at := r.awaitPods(at, "ns/a")
	if sets, _ := r.all(); bookmarked.Origins[0] != sets[0].Origins[0] {
		t.Error("a bookmark gave a pod another Origin")
	}
	server.Compact()
	before := len(server.View().Requests)
	server.DropConnections()
	server.Put(newPod("b"))
	r.awaitPods(at, "ns/a", "ns/b")
	for _, request := range server.View().Requests[before:] {
		if isList(request) && !isProbe(request) || isStream(request) {
			t.Errorf("the pods were read again: %+v", request)
		}
	}
}

func TestGoneIsReadAgain(t *testing.T) {
	for name, mode := range map[string]apitest.WatchListMode{
		"streaming": apitest.WatchListServed, "list": apitest.WatchListForbidden,
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.WatchList(mode)
			server.Put(newPod("stays"), newPod("goes"))
			r := read(t, server)
			first, at := r.awaitPods(0, "ns/goes", "ns/stays")
			server.AwaitWatches("pods", 1)
			server.Stop()
			server.Delete(newPod("goes"))
			server.Put(newPod("new"))
			server.Compact()
			server.Start()
			second, _ := r.awaitPods(at, "ns/new", "ns/stays")
			if first.Origins[1] != second.Origins[1] {
				t.Error("a pod that didn't change has another Origin")
			}
		})
	}
}

func TestStreamThatNeverEndsWellGivesWayToAList(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	server.Answer(func(r apitest.Request) *apitest.Reply {
		if !r.InitialEvents {
			return nil
		}
		return &apitest.Reply{
			ContentType: "application/json",
			Body: []byte(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1",` +
				`"metadata":{"namespace":"ns","name":"half","uid":"u","resourceVersion":"1"},"spec":{"nodeName":"n1"}}}` + "\n"),
		}
	})
	r := read(t, server)
	r.awaitPods(0, "ns/a")
	if n := server.View().Answered(isStream); n > maxUnfinished {
		t.Errorf("a streaming list was asked for %d times", n)
	}
	if sets, _ := r.all(); len(sets[0].Origins) != 1 || sets[0].Origins[0].Name != "ns/a" {
		t.Errorf("the first set is %s", describe(sets[0]))
	}
}

// TestStreamThatFallsSilentGivesWayToAList: a server, or a proxy before it, that accepts a streaming list and
// never completes it is reported, and read by a list at once. For a time no streaming list is tried again.
func TestStreamThatFallsSilentGivesWayToAList(t *testing.T) {
	for name, mode := range map[string]apitest.WatchListMode{
		"it never ends": apitest.WatchListEndless, "it isn't answered": apitest.WatchListUnanswered,
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.WatchList(mode)
			server.Put(newPod("a"))
			log := &logtest.Buffer{}
			source := newSource(t, Config{
				RESTConfig: server.RESTConfig(apitest.Identity{}), Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			source.silence = 50 * time.Millisecond
			r := start(t, source)
			failed, at := r.awaitErr(0)
			if !strings.Contains(failed.Err.Error(), "has said nothing for 50ms") {
				t.Errorf("the error is %q", failed.Err)
			}
			_, at = r.awaitPods(at, "ns/a")
			if at != 2 {
				t.Errorf("the pods came in set %d; want one error before it", at)
			}
			server.Await("a watch after the list", func(v apitest.View) bool {
				return v.Count(func(r apitest.Request) bool { return !r.InitialEvents }, "pods") == 1
			})
			server.Stop()
			server.Put(newPod("b"))
			server.Compact()
			server.Start()
			r.awaitPods(at, "ns/a", "ns/b")
			if n := server.View().Answered(isStream); n != 1 {
				t.Errorf("a streaming list was asked for %d times", n)
			}
			r.stop()
			if n := strings.Count(log.String(), "has said nothing"); n != 1 {
				t.Errorf("the log is\n%s", log.String())
			}
		})
	}
}

// TestPatience: a streaming list may take as long as a list, if it continues to send. Once it is complete it
// may be silent for any time.
func TestPatience(t *testing.T) {
	complete := newPod("")
	complete.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	for _, tc := range []struct {
		name string
		// every is the time between two of this many events. After them it is complete or silent.
		every    time.Duration
		events   int
		complete bool
		// after is when the attempt is ended. Zero means that it isn't.
		after time.Duration
		want  string
	}{
		{"nothing comes", 0, 0, false, 30 * time.Second, "has said nothing for 30s"},
		{"it goes on and falls silent", 20 * time.Second, 6, false, 150 * time.Second, "has said nothing for 30s"},
		{"it goes on without an end", 20 * time.Second, 14, false, listTimeout, "hasn't answered for 5m0s"},
		{"it goes on and is complete", 20 * time.Second, 14, true, 0, ""},
		{"it is complete at once", 0, 0, true, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, begun := kwatch.NewRaceFreeFake(), time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var gaveUp error
				var after time.Duration
				p := newPatience(initialSilence, func(err error) {
					gaveUp, after = err, time.Since(begun)
					cancel()
				})
				list := &streamingList{boundedWatch{inner, cancel}, make(chan kwatch.Event)}
				go list.forward(ctx, p)
				for range tc.events {
					time.Sleep(tc.every)
					inner.Add(newPod("a"))
					<-list.ResultChan()
				}
				if tc.complete {
					inner.Action(kwatch.Bookmark, complete)
					<-list.ResultChan()
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if after != tc.after || tc.want != "" && (gaveUp == nil || !strings.Contains(gaveUp.Error(), tc.want)) {
					t.Errorf("it is given up after %v, with %v; want %v, %q", after, gaveUp, tc.after, tc.want)
				}
				if tc.complete {
					inner.Modify(newPod("a"))
					if event := <-list.ResultChan(); event.Type != kwatch.Modified {
						t.Errorf("after an hour comes %v", event)
					}
				}
				list.Stop()
			})
		})
	}
}

// TestReplicaThatLags: a replica's cache may be older than the store. A pod that is missing only there must not
// be removed. Later lists are of the version that was read, or newer.
func TestReplicaThatLags(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.WatchList(apitest.WatchListForbidden)
	server.Put(newPod("gone"))
	server.Lag()
	server.Delete(newPod("gone"))
	server.Put(newPod("here"))
	r := read(t, server)
	set, at := r.await("a set", 0, func(manifest.Set) bool { return true })
	if set.Err != nil || !slices.Equal(originNames(set), []string{"ns/here"}) {
		t.Fatalf("the first set is %s", describe(set))
	}
	server.AwaitWatches("pods", 1)
	server.Stop()
	server.Put(newPod("new"))
	server.Compact()
	server.Start()
	r.awaitPods(at, "ns/here", "ns/new")
	sets, _ := r.all()
	for _, set := range sets {
		if set.Err == nil && slices.Contains(originNames(set), "ns/gone") {
			t.Errorf("a set has the deleted pod: %s", describe(set))
		}
	}
}
