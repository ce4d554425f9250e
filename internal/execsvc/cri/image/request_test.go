package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
)

func jsonOf(t *testing.T, m proto.Message) string {
	t.Helper()
	data, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		t.Fatal(err)
	}
	return compact.String()
}

// request requests an image.
func request(t *testing.T, p *Puller, image string) *Request {
	t.Helper()
	r, err := p.Request(image)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return r
}

// The limits and the queue of pods' pulls are those of requests.
func TestRequestIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{began: time.Now()}
		p := New(Config{Images: r, Serial: true, Done: func(uid types.UID) {
			if strings.HasPrefix(string(uid), "request") {
				t.Errorf("done for %s", uid)
			}
		}})
		defer p.Close()
		pullOf(t, p, "1", "a:1")
		asked := request(t, p, "b:1")
		defer asked.Close()
		if now := asked.Pull(); now.Image != "b:1" || !now.Started.IsZero() {
			t.Errorf("in the queue: %+v", now)
		}
		<-asked.Changed()
		if now := asked.Pull(); now.Started.Sub(r.began) != time.Second {
			t.Errorf("after its start: %+v", now)
		}
		if diff := cmp.Diff([]string{"docker.io/library/b:1"}, p.Pulling()); diff != "" {
			t.Errorf("pulling (-want +got):\n%s", diff)
		}
		<-asked.Ended()
		if image, err := asked.Result(); err != nil || image.ID != "b:1" {
			t.Errorf("%+v, %v", image, err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{`0s a:1 with ""`, `1s b:1 with ""`}, r.lines); diff != "" {
			t.Errorf("pulls (-want +got):\n%s", diff)
		}
		asked.Close()
		p.Drop("1")
		if len(p.pods)+len(p.requests)+len(p.pulls) > 0 {
			t.Error("something of the request is left")
		}
	})
}

// A request that is closed ends its pull, unless a pod waits for it; and the other way round.
func TestRequestIsShared(t *testing.T) {
	for name, tc := range map[string]struct {
		user  string
		close func(p *Puller, r *Request)
		want  []string
	}{
		"the request is closed":               {"", func(_ *Puller, r *Request) { r.Close() }, []string{`0s a:1 with ""`}},
		"the pod is gone":                     {"", func(p *Puller, _ *Request) { p.Drop("1") }, []string{`0s a:1 with ""`}},
		"both are":                            {"", func(p *Puller, r *Request) { r.Close(); p.Drop("1") }, []string{`0s a:1 with ""`, "500ms a:1 broken off"}},
		"the pod's credentials aren't node's": {"me", func(_ *Puller, r *Request) { r.Close() }, []string{`0s a:1 with "me"`, `0s a:1 with ""`, "500ms a:1 broken off"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := &registry{began: time.Now()}
				p := New(Config{Images: registry, Credentials: ownKeys{}})
				defer p.Close()
				asking := pod("1", "Always a:1")
				asking.Annotations = map[string]string{"user": tc.user}
				if _, wait, err := p.Ensure(t.Context(), asking, &asking.Spec.Containers[0], nil); wait == nil || err != nil {
					t.Fatalf("%+v, %v", wait, err)
				}
				synctest.Wait()
				// The annotation "user" is set, also if it is empty: a pod's pull has another key than that of a request.
				r := request(t, p, "a:1")
				defer r.Close()
				time.Sleep(500 * time.Millisecond)
				tc.close(p, r)
				time.Sleep(time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(tc.want, registry.lines); diff != "" {
					t.Errorf("pulls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A pod doesn't share a pull that was requested without a pod: the runtime may have a policy for its namespace.
func TestPodSharesNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := &registry{began: time.Now()}
		p := New(Config{Images: registry})
		defer p.Close()
		defer request(t, p, "a:1").Close()
		pullOf(t, p, "1", "a:1")
		if diff := cmp.Diff([]string{`0s a:1 with ""`, `0s a:1 with ""`}, registry.lines); diff != "" {
			t.Errorf("pulls (-want +got):\n%s", diff)
		}
	})
}

// Requests are bounded, and their names are checked.
func TestRequestsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Images: &registry{began: time.Now()}})
		for _, name := range []string{"", "A:1", "a b", "sha256:" + strings.Repeat("a", 64), strings.Repeat("a", 64), strings.Repeat("a", 1<<20)} {
			if _, err := p.Request(name); !errors.Is(err, ErrReference) || len(err.Error()) > 4<<10 {
				t.Errorf("%.100q: %.200v", name, err)
			}
		}
		var all []*Request
		for range maxRequests {
			all = append(all, request(t, p, "a:1"))
		}
		if _, err := p.Request("a:1"); !errors.Is(err, ErrTooManyRequests) {
			t.Errorf("one more: %v", err)
		}
		all[0].Close()
		all[0] = request(t, p, "a:1")
		p.Close()
		for _, r := range all {
			<-r.Ended()
			if _, err := r.Result(); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
			r.Close()
		}
		if _, err := p.Request("a:1"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// The runtime's error is the request's, and bounded.
func TestRequestFails(t *testing.T) {
	s := newSim(t, Config{})
	r, err := s.Request("missing/app:1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	<-r.Ended()
	if _, err := r.Result(); err == nil || !strings.Contains(err.Error(), "failed to resolve reference") {
		t.Errorf("%v", err)
	}
}
