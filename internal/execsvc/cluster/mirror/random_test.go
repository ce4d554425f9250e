package mirror

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Whatever happens to the pods, the server, the stream and podexecd: in the end there is a mirror pod of each static pod, and no other.
func TestRandom(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // A test.
				n := newNode(t)
				for i := range 60 {
					name := fmt.Sprint("web", r.IntN(3))
					static := n.pods.ByName("ns", name)
					switch r.IntN(8) {
					case 0, 1:
						if static != nil {
							n.remove(static)
						}
						n.put(newPod(name, fmt.Sprint("u", i)))
					case 2:
						if static != nil {
							n.remove(static)
						}
					case 3:
						faults := []fakeapi.Fault{
							{}, {}, {Lost: true}, {Lost: true, Done: true}, {Code: http.StatusForbidden}, {Code: http.StatusInternalServerError},
						}
						fault, lag := faults[r.IntN(len(faults))], time.Duration(r.IntN(3))*500*time.Millisecond
						n.with(func() { n.lag, n.fault = lag, func(fakeapi.Request) fakeapi.Fault { return fault } })
					case 4:
						n.api.Update("ns", name, func(p *v1.Pod) {
							grace := int64(30)
							p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
						})
					case 5:
						n.api.Drop("ns", name)
					case 6:
						n.live()
					default:
						time.Sleep(time.Duration(r.IntN(20000)) * time.Millisecond)
					}
					time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
				}
				n.with(func() { n.lag, n.fault = 0, nil })
				time.Sleep(5 * time.Minute)
				for i := range 3 {
					name, want := fmt.Sprint("web", i), ""
					if static := n.pods.ByName("ns", name); static != nil {
						want = static.Annotations[podmeta.HashAnnotation]
					}
					if got := n.hash(name); got != want {
						t.Errorf("%s: the mirror pod is of %q; want %q", name, got, want)
					}
				}
				before := len(n.api.Requests())
				time.Sleep(time.Hour)
				if got := len(n.api.Requests()) - before; got != 0 {
					t.Errorf("there is no rest: %d requests in an hour", got)
				}
			})
		})
	}
}
