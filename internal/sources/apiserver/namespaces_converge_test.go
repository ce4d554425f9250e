package apiserver

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// TestConvergenceOfObjects: after any changes of objects, references, rights, connections and watches, a gateway has reported
// what the server has of each wanted object, and what it reported of an object never went back.
func TestConvergenceOfObjects(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		server := apitest.New(t, apitest.Config{})
		defer server.Stop()
		s := gateway(t, server, Config{WatchSecrets: WatchNamespace})
		s.refusedFor = 5 * time.Millisecond
		s.gate.pace = rate.NewLimiter(rate.Inf, 0)
		f := followBy(t, s)
		count, model, stored, holding := 0, map[string]string{}, map[string]bool{}, false
		wanted := map[string]bool{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		settle := func() {
			want := map[string]string{}
			for n := range wanted {
				want[n] = "missing"
				if stored[n] {
					want[n] = model[n]
				}
			}
			f.await(t, want)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				count++
				model[n], stored[n] = strconv.Itoa(count), true
				server.Put(newSecret(n, model[n]))
			},
			"recreate": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				count++
				model[n], stored[n] = strconv.Itoa(count), true
				o := newSecret(n, model[n])
				o.UID = types.UID("u" + model[n])
				server.Put(o)
			},
			"delete": func(rt *rapid.T) {
				n := name.Draw(rt, "name")
				if !stored[n] {
					rt.Skip("there is no object")
				}
				stored[n] = false
				server.Delete(newSecret(n, ""))
			},
			"want": func(rt *rapid.T) {
				wanted = map[string]bool{}
				var keys []sources.ObjectKey
				for _, n := range rapid.SliceOfNDistinct(name, 0, 5, rapid.ID).Draw(rt, "wanted") {
					wanted[n] = true
					keys = append(keys, secretKey(n))
				}
				f.wanted <- keys
			},
			"rights": func(rt *rapid.T) {
				refuses := map[string]func(apitest.Request) bool{
					"none": nil,
					"lists": func(r apitest.Request) bool {
						return r.Resource == "secrets" && (isList(r) || isWatch(r)) && r.FieldSelector == ""
					},
					"gets": isGet,
				}[rapid.SampledFrom([]string{"none", "lists", "gets"}).Draw(rt, "refused")]
				server.Answer(func(r apitest.Request) *apitest.Reply {
					if refuses != nil && refuses(r) {
						return forbidden("secrets")
					}
					return nil
				})
			},
			"end watches": func(*rapid.T) { server.EndWatches() },
			"drop":        func(*rapid.T) { server.DropConnections() },
			"compact":     func(*rapid.T) { server.Compact() },
			"hold": func(*rapid.T) {
				holding = !holding
				server.HoldEvents(holding)
			},
			"settle": func(*rapid.T) {
				if holding {
					holding = false
					server.HoldEvents(false)
				}
				settle()
			},
		})
		server.HoldEvents(false)
		settle()
		all, _ := f.all()
		last := map[string]int{}
		for _, r := range all {
			if r.object == nil {
				continue
			}
			n, err := strconv.Atoi(valueOf(r))
			if err != nil || n < last[r.key.Name] {
				rt.Fatal(fmt.Sprintf("%s was %d after %d", r.key.Name, n, last[r.key.Name]))
			}
			last[r.key.Name] = n
		}
	})
}
