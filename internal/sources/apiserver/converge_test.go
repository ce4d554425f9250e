package apiserver

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// TestConvergence: after any events of the pods, the connections and the server, the source has the server's
// pods.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		server := apitest.New(t, apitest.Config{})
		defer server.Stop()
		model := map[string]string{} // the versions, by name
		s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{})})
		r := start(t, s)
		defer r.stop()
		up := true
		settle := func() {
			want := maps.Clone(model)
			r.await(fmt.Sprint("the server's pods ", want), 0, func(s manifest.Set) bool {
				held := map[string]string{}
				for _, o := range s.Origins {
					held[o.Name] = o.Pods[0].ResourceVersion
				}
				return s.Err == nil && maps.Equal(held, want)
			})
		}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				model["ns/"+n] = server.Put(newPod(n))
			},
			"recreate": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				model["ns/"+n] = server.Put(withUID(newPod(n), rapid.StringMatching("[a-z]{8}").Draw(rt, "uid")))
			},
			"delete": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				if model["ns/"+n] == "" {
					rt.Skip("there is no pod")
				}
				delete(model, "ns/"+n)
				server.Delete(newPod(n))
			},
			"compact":   func(*rapid.T) { server.Compact() },
			"bookmark":  func(*rapid.T) { server.Bookmark() },
			"truncate":  func(*rapid.T) { server.TruncateNext() },
			"end":       func(*rapid.T) { server.EndWatches() },
			"drop":      func(*rapid.T) { server.DropConnections() },
			"garbage":   func(*rapid.T) { server.Inject([]byte("\x00\x00\x00\x02no")) },
			"watchlist": func(rt *rapid.T) { server.WatchList(apitest.WatchListMode(rapid.IntRange(0, 2).Draw(rt, "mode"))) },
			"settle": func(*rapid.T) {
				if up {
					settle()
				}
			},
			"restart": func(*rapid.T) {
				if up {
					server.Stop()
				} else {
					server.Start()
				}
				up = !up
			},
		})
		if !up {
			server.Start()
		}
		model["ns/last"] = server.Put(newPod("last"))
		settle()
	})
}
