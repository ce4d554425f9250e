package client_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// older answers WatchObjects as a podconfigd does that knows ConfigMaps and Secrets only; test/skew checks that of a real one.
type older struct {
	podconfigv1.PodConfigServiceServer
	// requests is how many there were, and refused how many of them.
	requests, refused *atomic.Int32
}

// WatchObjects is part of podconfig.v1.PodConfigService.
func (o older) WatchObjects(req *podconfigv1.WatchObjectsRequest, s objectStream) error {
	o.requests.Add(1)
	for i, k := range req.GetKnownObjects() {
		if k.GetRef().GetKind() > client.SecretKind {
			o.refused.Add(1)
			return status.Errorf(codes.InvalidArgument, "known_objects[%d].ref: has an unknown kind, or no name", i)
		}
	}
	req.Kinds = nil
	return o.PodConfigServiceServer.WatchObjects(req, s)
}

// TestWatchObjectsOlder: a consumer with a claim goes on with an older podconfigd, which refuses a request that lists the claim,
// and has it again from the next newer one.
func TestWatchObjectsOlder(t *testing.T) {
	for _, secret := range []string{"", "a=1"} {
		apply := func(d *objectDaemon, claims ...string) {
			if secret != "" {
				claims = append(claims, secret)
			}
			d.apply("api")
			d.apply("file", claims...)
		}
		words := func(of ...string) string {
			if secret != "" {
				of = append([]string{"+a=1"}, of...)
			}
			return strings.Join(append(of, "synced file api"), " ")
		}
		p, d := testPlace(t), newObjectDaemon()
		apply(d, "claim/data")
		stop := up(t, p, d)
		var log bytes.Buffer
		w := watchObjectsWith(t, client.Config{Endpoint: p.endpoint, Logger: slog.New(slog.NewTextHandler(&log, nil))},
			client.ObjectOptions{Kinds: []client.ObjectKind{client.ClaimKind}})
		w.want(words("+data"))

		stop()
		var requests, refused atomic.Int32
		d.wrap = func(api podconfigv1.PodConfigServiceServer) podconfigv1.PodConfigServiceServer {
			return older{api, &requests, &refused}
		}
		d.reset()
		apply(d, "claim/data")
		stop = up(t, p, d)
		w.want("-data synced file api")
		if requests.Load() != 2 || refused.Load() != 1 {
			t.Errorf("the older podconfigd got %d requests, and refused %d; want 2, and the first one", requests.Load(), refused.Load())
		}
		stop()
		d.reset()
		apply(d, "claim/data")
		stop = up(t, p, d)
		w.want("synced file api")
		if refused.Load() != 1 {
			t.Errorf("after its restart the older podconfigd has refused %d requests; want the one before", refused.Load())
		}

		stop()
		d.wrap = nil
		d.reset()
		apply(d, "claim/data", "claim/more")
		stop = up(t, p, d)
		w.want("+data +more synced file api")
		_ = w.client.Close()
		<-w.ended
		stop()
		if text := log.String(); strings.Contains(text, "level=ERROR") || !strings.Contains(text, "].ref: has an unknown kind") {
			t.Errorf("the log is\n%s\nwant the refusal, and no error", text)
		}
	}
}
