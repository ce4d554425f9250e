package podbench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// oracle is an HTTP server that answers a pod's readiness probe.
type oracle struct {
	*httptest.Server
	ready atomic.Bool
	// fresh is set until the answer has been given once. said receives the time of that.
	fresh atomic.Bool
	said  chan time.Time
}

func newOracle(b *testing.B) *oracle {
	o := &oracle{said: make(chan time.Time, 1)}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ready := o.ready.Load()
		if o.fresh.CompareAndSwap(true, false) {
			o.said <- time.Now()
		}
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	b.Cleanup(o.Close)
	return o
}

// turn changes the answer. said then receives the time at which it is first given.
func (o *oracle) turn(ready bool) {
	o.ready.Store(ready)
	o.fresh.Store(true)
}

func (o *oracle) port() string { return o.URL[strings.LastIndexByte(o.URL, ':')+1:] }

// benchmarkReadiness measures from the first changed answer to a readiness probe to the new status at a
// watcher. The floor is a plain HTTP client that has read the answer.
func (p *pair) benchmarkReadiness(b *testing.B) {
	floor, product := &series{name: "answer read"}, &series{name: "status at a watcher"}
	asked := newOracle(b)
	probed := staying("readiness")
	probed.probes = fmt.Sprintf("    readinessProbe: {httpGet: {host: 127.0.0.1, port: %s}, periodSeconds: 1, failureThreshold: 1}", asked.port())
	p.product.start(b, probed)
	p.product.watcher.await(b, "the pod runs", func(c change) bool { return c.pod == probed.name && c.running })
	plain := newOracle(b)
	for i := range readinesses {
		ready := i%2 == 0
		plain.turn(ready)
		floor.add(plain.get(b).Sub(<-plain.said))

		asked.turn(ready)
		said := <-asked.said
		c := p.product.watcher.await(b, "the pod's readiness has changed", func(c change) bool { return c.pod == probed.name && c.ready == ready })
		product.add(c.at.Sub(said))
	}
	p.product.remove(b, probed)
	report(b, product, floor)
}

// get sends a request, and returns the time of the answer.
func (o *oracle) get(b *testing.B) time.Time {
	b.Helper()
	resp, err := o.Client().Get(o.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return time.Now()
}
