package oci

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// TestHang: a registry that hangs or drips, at any request, is left at the end of the time. The pods stay.
func TestHang(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{
		"the digest": "/manifests/prod", "the manifest": "/manifests/sha256:", "the signatures": ".sig", "the layer": "/blobs/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTrusted(t, Config{})
			digest := n.hub.Push("pods", "prod", at(20), pods("web", "v2"))
			n.hub.SignSimple(n.signer, "pods", digest)
			stuck := make(chan struct{}, 10)
			n.hub.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, part) {
					return false
				}
				w.Header().Set("Content-Type", ocitest.ManifestType)
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				stuck <- struct{}{}
				<-r.Context().Done()
				return true
			})
			n.timer.c <- time.Time{}
			await(t, stuck, "the request")
			n.clock.expired <- time.Time{}
			set, rev := n.hear()
			n.checkRefusal(set, rev, "no complete answer within 17s")
			if n.serves() != 2 {
				t.Errorf("%d pods are served", n.serves())
			}
			n.hub.Intercept(nil)
			n.expect("web.yaml=v2")
		})
	}
}

// TestStop: Run ends while the registry hangs.
func TestStop(t *testing.T) {
	n := newTrusted(t, Config{})
	stuck := make(chan struct{}, 1)
	n.hub.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		stuck <- struct{}{}
		<-r.Context().Done()
		return true
	})
	n.timer.c <- time.Time{}
	await(t, stuck, "the request")
	n.cancel()
	if err := await(t, n.done, "the end of Run"); err != nil {
		t.Errorf("Run: %v", err)
	}
	n.cancel = nil
}
