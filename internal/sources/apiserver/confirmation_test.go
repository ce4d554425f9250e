package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// newTestIdentity returns an identity whose checks get makes.
func newTestIdentity(get func(context.Context) (types.UID, error)) *identity {
	return newIdentity(&identity{
		get: get, dials: func() uint64 { return 0 }, known: func() []types.UID { return nil }, address: "https://here",
		positions: func() position.Positions { return nil },
		clock:     clocktesting.NewFakePassiveClock(time.Now()), log: slog.New(slog.DiscardHandler),
	})
}

// TestNoAnswerFromAfterTheChange: once the cluster has changed, no answer is confirmed, however many callers share checks.
func TestNoAnswerFromAfterTheChange(t *testing.T) {
	for range 50 {
		var cluster atomic.Value
		cluster.Store(types.UID("a"))
		i := newTestIdentity(func(context.Context) (types.UID, error) { return cluster.Load().(types.UID), nil })
		if err := i.confirm(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		for n := range 20 {
			callers.Go(func() {
				for range 50 {
					answer := cluster.Load().(types.UID)
					err := i.confirm(t.Context(), nil)
					if err == nil && answer == "b" {
						t.Error("an answer of the other cluster was confirmed")
					}
				}
			})
			if n == 10 {
				callers.Go(func() { cluster.Store(types.UID("b")) })
			}
		}
		callers.Wait()
	}
}

// TestSharedChecks: callers that wait while a check is under way take one further check together, also if it fails.
func TestSharedChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, release := 0, make(chan struct{})
		i := newTestIdentity(func(context.Context) (types.UID, error) {
			asked++
			<-release
			return "", errors.New("away")
		})
		for range 50 {
			go func() {
				if err := i.confirm(t.Context(), nil); err == nil {
					t.Error("a check that failed confirms")
				}
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := i.confirm(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has ended gets %v", err)
		}
		close(release)
		synctest.Wait()
		if asked != 2 {
			t.Errorf("%d checks were made for callers at one time, want 2", asked)
		}
	})
}

// TestUnexpectedAnswers: what a server answers in place of its Service, once its cluster is known and before. The pods of a
// server that isn't shown to be of the cluster are kept.
func TestUnexpectedAnswers(t *testing.T) {
	fail := func(code int, reason metav1.StatusReason) func(*apitest.Server) {
		return func(server *apitest.Server) {
			server.Answer(func(q apitest.Request) *apitest.Reply {
				if !isCheck(q) {
					return nil
				}
				return apitest.Fail(code, reason, "no\x1b[2J")
			})
		}
	}
	show := func(uid types.UID) func(*apitest.Server) {
		return func(server *apitest.Server) { server.Put(service(uid)) }
	}
	for name, tc := range map[string]struct {
		begin func(*apitest.Server)
		// used: the server is used while its cluster isn't known.
		used bool
		want string
	}{
		"forbidden":            {fail(http.StatusForbidden, metav1.StatusReasonForbidden), true, "doesn't show whether"},
		"not found":            {fail(http.StatusNotFound, metav1.StatusReasonNotFound), true, "doesn't show whether"},
		"gone":                 {fail(http.StatusGone, metav1.StatusReasonGone), false, "answers: "},
		"unauthorized":         {fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized), false, "answers: "},
		"an error":             {fail(http.StatusInternalServerError, metav1.StatusReasonInternalError), false, "answers: "},
		"a UID of a megabyte":  {show(types.UID(strings.Repeat("a", 1<<20-200))), false, "doesn't show which"},
		"more than a megabyte": {show(types.UID(strings.Repeat("a", 4<<20))), false, "doesn't show which"},
		"a UID with an escape": {show("\x1b[2J"), false, "doesn't show which"},
		"a UID with lines":     {show("a\nb"), false, "doesn't show which"},
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.Put(newPod("a"))
			ours := server.Cluster()
			r := start(t, ofCluster(t, server, ""))
			_, at := r.awaitPods(0, "ns/a")
			server.AwaitWatches("pods", 1)
			tc.begin(server)
			server.EndWatches()
			at = awaitRefused(t, server, r, at, tc.want)
			server.Delete(newPod("a"))
			awaitRefused(t, server, r, at-1)
			server.Answer(nil)
			server.Put(service(ours))
			r.awaitPods(at)
			r.stop()

			server.Put(newPod("b"))
			tc.begin(server)
			r = start(t, ofCluster(t, server, ""))
			if tc.used {
				r.awaitPods(0, "ns/b")
				return
			}
			awaitRefused(t, server, r, 0, tc.want)
		})
	}
}

// TestHungCheck: a check that isn't answered ends, and so does the Source meanwhile.
func TestHungCheck(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	s := ofCluster(t, server, "")
	s.probeInterval = time.Hour
	var limit atomic.Int64
	limit.Store(int64(time.Hour))
	get := s.server.identity.get
	s.server.identity.get = func(ctx context.Context) (types.UID, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(limit.Load()))
		defer cancel()
		return get(ctx)
	}
	r := start(t, s)
	_, at := r.awaitPods(0, "ns/a")
	hang, hung := make(chan struct{}), make(chan struct{}, 1000)
	defer close(hang)
	server.Answer(func(q apitest.Request) *apitest.Reply {
		if isCheck(q) {
			hung <- struct{}{}
			<-hang
		}
		return nil
	})
	limit.Store(int64(20 * time.Millisecond))
	server.Delete(newPod("a"))
	server.EndWatches()
	r.awaitErr(at)
	limit.Store(int64(time.Hour))
	for len(hung) > 0 {
		<-hung
	}
	<-hung
	r.stop()
}
