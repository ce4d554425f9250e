package failover

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestChoice: the first endpoint that is SERVING is used, or else the first that answers. An endpoint at which nothing
// listens doesn't matter.
func TestChoice(t *testing.T) {
	for names, want := range map[string]string{
		"a b c": "a", "-a b c": "b", "-a -b c": "c", "-a -b -c": "a", "!a b c": "b", "!a -b c": "c", "!a -b -c": "b", "!a !b !c": "",
	} {
		t.Run(names, func(t *testing.T) {
			run(t, strings.ReplaceAll(names, "!", ""), nil, func(t *testing.T, f *fleet) {
				for name := range strings.FieldsSeq(names) {
					if name, down := strings.CutPrefix(name, "!"); down {
						f.servers[name].down()
					}
				}
				start := time.Now()
				s, got, err := f.try()
				switch {
				case want == "" && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "unix:///c: ")):
					t.Errorf("the error is %v; want UNAVAILABLE with the error of each endpoint", err)
				case want != "" && got != want:
					t.Errorf("the stream is that of %q (error %v); want %s", got, err, want)
				case time.Since(start) > 0:
					t.Errorf("the choice takes %v; want no wait", time.Since(start))
				}
				if s.cancel != nil {
					s.cancel(nil)
				}
			})
		})
	}
}

// TestOneConnection: all streams and calls have the same server, whatever the others' health becomes.
func TestOneConnection(t *testing.T) {
	run(t, "-a b c", nil, func(t *testing.T, f *fleet) {
		f.wantOn("b")
		f.servers["a"].set(true)
		for range 5 {
			f.wantOn("b")
			if got, err := f.objects(); got != "b" {
				t.Fatalf("the objects are those of %q (error %v); want b", got, err)
			}
			time.Sleep(time.Hour)
		}
		if dials, _ := f.servers["b"].counts(); dials != 1 {
			t.Errorf("there were %d connections to b; want 1", dials)
		}
		if dials, _ := f.servers["c"].counts(); dials != 0 {
			t.Errorf("there were %d connections to c; want none", dials)
		}
	})
}

// TestBreak: when the server goes away, both streams end and the next ones have another server. The client doesn't
// go back by itself.
func TestBreak(t *testing.T) {
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		s, _ := f.watch()
		f.servers["a"].down()
		if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
			t.Fatalf("the stream ends with %v; want UNAVAILABLE", err)
		}
		f.wantOn("b")
		f.servers["a"].up()
		time.Sleep(24 * time.Hour)
		f.wantOn("b")
		f.servers["b"].down()
		time.Sleep(2 * suspectTime)
		f.wantMoved("a")
	})
}

// TestReturn: a client goes back to the preferred endpoint after it returned, not at once, and its stream learns why
// it ends.
func TestReturn(t *testing.T) {
	const age = 10 * time.Minute
	run(t, "a b c", func(c *Config) { c.ReturnAfter = age }, func(t *testing.T, f *fleet) {
		f.servers["a"].down()
		s, got := f.watch()
		if got != "b" {
			t.Fatalf("the stream is that of %s; want b", got)
		}
		time.Sleep(3 * time.Hour)
		f.servers["a"].up()
		f.servers["a"].set(false)
		time.Sleep(3 * time.Hour)
		if got := f.on(); got != "b" {
			t.Fatalf("the client is on %s, which isn't healthy or isn't preferred; want b", got)
		}
		f.servers["a"].set(true)
		took := f.after("a", 2*age)
		if took > age*3/2+2*checkInterval {
			t.Errorf("the client returns after %v; want at most %v", took, age*3/2+2*checkInterval)
		}
		if _, err := s.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "moved from podconfigd at unix:///b") {
			t.Errorf("the stream ends with %v; want that the client moved", err)
		}
		f.wantOn("a")
	})
}

// TestReturnIsSpread: many clients don't return at once.
func TestReturnIsSpread(t *testing.T) {
	const age = 10 * time.Minute
	first, last := time.Duration(1<<62), time.Duration(0)
	for range 20 {
		run(t, "a b", func(c *Config) { c.ReturnAfter = age }, func(t *testing.T, f *fleet) {
			f.servers["a"].down()
			f.wantOn("b")
			f.servers["a"].up()
			took := f.after("a", 2*age)
			first, last = min(first, took), max(last, took)
		})
	}
	if first < age || last-first < age/8 {
		t.Errorf("20 clients return between %v and %v after they left; want at least %v, and not all at once", first, last, age)
	}
}

// TestUnhealthy: a client leaves a server that isn't SERVING for one that is. It stays if there is none, and then
// looks for one ever more rarely.
func TestUnhealthy(t *testing.T) {
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		s, _ := f.watch()
		f.servers["b"].set(false)
		f.servers["a"].set(false)
		time.Sleep(time.Hour)
		if got := f.on(); got != "a" {
			t.Fatalf("the client is on %s while no server is healthy; want a, where it was", got)
		}
		if dials, _ := f.servers["b"].counts(); dials > 15 {
			t.Errorf("in an hour the client connected %d times to b, which isn't healthy; want at most 15", dials)
		}
		f.servers["b"].set(true)
		if took := f.after("b", time.Hour); took > maxLook*checkInterval*3/2 {
			t.Errorf("the client moves after %v", took)
		}
		if _, err := s.Recv(); !strings.Contains(err.Error(), "moved") {
			t.Errorf("the stream ends with %v; want that the client moved", err)
		}
	})
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		f.wantOn("a")
		f.servers["a"].set(false)
		if took := f.after("b", time.Hour); took < checkInterval || took > 3*checkInterval*3/2 {
			t.Errorf("the client moves after %v; want after two checks", took)
		}
	})
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		f.wantOn("a")
		for range 100 {
			// One bad check in succession at most.
			f.servers["a"].set(false)
			time.Sleep(checkInterval)
			f.servers["a"].set(true)
			time.Sleep(2 * checkInterval)
		}
		if got := f.on(); got != "a" {
			t.Errorf("the client is on %s after short failures of a; want a", got)
		}
	})
}

// TestBlackHole: a server that accepts connections and never answers costs the time of one check, and the next
// selection tries it last.
func TestBlackHole(t *testing.T) {
	run(t, "a b c", nil, func(t *testing.T, f *fleet) {
		f.servers["a"].deaf = true
		start := time.Now()
		f.wantOn("b")
		if took := time.Since(start); took > checkTimeout {
			t.Errorf("the choice takes %v; want at most %v", took, checkTimeout)
		}
		f.servers["b"].down()
		start = time.Now()
		f.wantMoved("c")
		if took := time.Since(start); took > 0 {
			t.Errorf("the second choice takes %v; want no wait", took)
		}
	})
}

// TestSilence: a stream that its consumer gives up as silent has its server tried last; one that its consumer ends
// otherwise doesn't.
func TestSilence(t *testing.T) {
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		s, _ := f.watch()
		s.cancel(nil)
		_, _ = s.Recv()
		s, got := f.watch()
		if got != "a" {
			t.Fatalf("after a stream that the consumer ended the client is on %s; want a", got)
		}
		s.cancel(stream.ErrSilent)
		_, _ = s.Recv()
		f.wantOn("b")
	})
}

// TestRefusal: a server that refuses the stream of pods is left; one that refuses only the objects isn't.
func TestRefusal(t *testing.T) {
	for _, code := range []codes.Code{
		codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted, codes.Unimplemented, codes.Internal, codes.Unavailable,
	} {
		run(t, "a b", nil, func(t *testing.T, f *fleet) {
			f.servers["a"].refusal = status.Error(code, "no")
			if _, got, err := f.try(); status.Code(err) != code {
				t.Fatalf("the stream is that of %q, with the error %v; want %v", got, err, code)
			}
			f.wantOn("b")
		})
	}
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		f.servers["a"].objectRefusal = status.Error(codes.PermissionDenied, "no")
		if got, err := f.objects(); status.Code(err) != codes.PermissionDenied {
			t.Fatalf("the objects are those of %q, with the error %v; want PERMISSION_DENIED", got, err)
		}
		f.wantOn("a")
	})
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		f.servers["a"].refusal = status.Error(codes.InvalidArgument, "no")
		if _, _, err := f.try(); status.Code(err) != codes.InvalidArgument {
			t.Fatalf("the error is %v; want INVALID_ARGUMENT", err)
		}
		if got := f.on(); got != "a" {
			t.Errorf("after a wrong request the client is on %q; want a", got)
		}
	})
}

// TestSilentSelection: a stream that is given up as silent while the client connects, before the time limit of the check, has the
// server that didn't answer tried last. Otherwise each attempt would begin with it, and end there.
func TestSilentSelection(t *testing.T) {
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		f.servers["a"].deaf = true
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(checkTimeout/2, func() { cancel(stream.ErrSilent) })
		if _, err := podconfigv1.NewPodConfigServiceClient(f).WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{}); err == nil {
			t.Fatal("the first call has a stream; want that it waits for a")
		}
		begin := time.Now()
		f.wantOn("b")
		if took := time.Since(begin); took >= checkTimeout/2 {
			t.Errorf("the next call is on b after %v; want that it doesn't wait for a", took)
		}
	})
}
