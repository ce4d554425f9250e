package apiserver

import (
	"fmt"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func isList(r apitest.Request) bool      { return r.Verb == "list" }
func isStream(r apitest.Request) bool    { return r.InitialEvents }
func isOpenWatch(r apitest.Request) bool { return r.Verb == "watch" && r.Code == 200 }

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
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	r := read(t, server)
	_, at := r.awaitPods(0, "ns/a")
	server.AwaitWatches("pods", 1)
	server.Put(onNode(newPod("elsewhere"), "n2")) // moves the version, and this watch doesn't learn of it
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
		if isList(request) || isStream(request) {
			t.Errorf("the pods were read anew: %+v", request)
		}
	}
}

func TestGoneIsReadAnew(t *testing.T) {
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
