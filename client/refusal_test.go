package client_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRefused: a consumer without a role retries, as it may get one, and so does one whose request is invalid, as podconfigd may
// be replaced. It logs the refusal each minute, and an invalid request as an error once it is repeated. Once it is admitted
// it gets the pods.
func TestRefused(t *testing.T) {
	for code, errs := range map[codes.Code]int{codes.PermissionDenied: 3, codes.Unauthenticated: 3, codes.InvalidArgument: 2} {
		synctest.Test(t, func(t *testing.T) {
			admitted := time.Now().Add(150 * time.Second)
			s := newScript()
			refuser := &refuser{script: s, code: code, until: admitted}
			var log bytes.Buffer
			c, stop := bubbleWith(t, refuser, client.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			done := errors.New("in step")
			err := c.Watch(t.Context(), client.WatchOptions{}, func(context.Context, client.Event) error { return done })
			stop()
			if !errors.Is(err, done) {
				t.Errorf("%v: Watch returns %v; want the handler's error, once admitted", code, err)
			}
			if late := time.Since(admitted); late > 4*time.Second {
				t.Errorf("%v: in step %v after it was admitted; want at most the longest pause", code, late)
			}
			if n := strings.Count(log.String(), "level=ERROR"); n != errs || !strings.Contains(log.String(), "no role for it") {
				t.Errorf("%v: refused for 150 s, it is said %d times; want %d, with the reason:\n%s", code, n, errs, &log)
			}
		})
	}
}

// refuser refuses all callers for some time, and then sends synced.
type refuser struct {
	*script
	code  codes.Code
	until time.Time
}

func (r *refuser) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, stream serverStream) error {
	if time.Now().Before(r.until) {
		return status.Error(r.code, "no role for it")
	}
	send(stream, synced(1))
	<-stream.Context().Done()
	return nil
}
