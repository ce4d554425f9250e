package failover

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestClose: calls that wait for a selection end with Close, and so do later ones.
func TestClose(t *testing.T) {
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		f.servers["a"].deaf, f.servers["b"].deaf = true, true
		ended := make(chan error, 2)
		for range cap(ended) {
			go func() {
				_, _, err := f.try()
				ended <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		_ = f.Close()
		for range cap(ended) {
			if err := <-ended; status.Code(err) != codes.Canceled {
				t.Errorf("a stream ends with %v; want CANCELED", err)
			}
		}
		if _, _, err := f.try(); status.Code(err) != codes.Canceled || time.Since(start) > 0 {
			t.Errorf("after %v a later stream has the error %v; want CANCELED at once", time.Since(start), err)
		}
		// A selection that ends after Close.
		if f.use(&link{}, nil) {
			t.Error("after Close a connection is used; want none")
		}
	})
}

// TestCanceledSelection: the end of one call doesn't end the wait of another one.
func TestCanceledSelection(t *testing.T) {
	run(t, "a b", nil, func(t *testing.T, f *fleet) {
		f.servers["a"].deaf = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error)
		go func() {
			_, err := f.get(ctx)
			first <- err
		}()
		synctest.Wait()
		f.wantOn("b")
		if err := <-first; status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the call with a deadline has the error %v; want DEADLINE_EXCEEDED", err)
		}
	})
}

// TestLookupTakesTime: a name server that doesn't answer costs a bounded time.
func TestLookupTakesTime(t *testing.T) {
	silent := func(c *Config) {
		c.Endpoints = append(c.Endpoints, Endpoint{Text: "tcp://name:7", Host: "name", Port: "7"}, Endpoint{Text: "tcp://other:7", Host: "other", Port: "7"})
		c.Lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	run(t, "a b", silent, func(t *testing.T, f *fleet) {
		start := time.Now()
		f.wantOn("a")
		if took := time.Since(start); took > lookupTimeout {
			t.Errorf("the choice takes %v; want at most %v", took, lookupTimeout)
		}
	})
}

// TestSpreadAgain: without an order a client goes back to its own first server only if it is configured to.
func TestSpreadAgain(t *testing.T) {
	for _, age := range []time.Duration{0, time.Minute} {
		run(t, "a b c", func(c *Config) { c.Listed, c.ReturnAfter = false, age }, func(t *testing.T, f *fleet) {
			s, first := f.watch()
			f.servers[first].down()
			_, _ = s.Recv()
			_, second := f.watch()
			f.servers[first].up()
			time.Sleep(time.Hour)
			if want := map[bool]string{true: first, false: second}[age > 0]; f.on() != want {
				t.Errorf("with the age %v the client is on %s; want %s of %s and %s", age, f.on(), want, first, second)
			}
		})
	}
}

// TestOnlyCandidate: the only address isn't checked.
func TestOnlyCandidate(t *testing.T) {
	run(t, "-a", nil, func(t *testing.T, f *fleet) {
		f.wantOn("a")
		time.Sleep(time.Hour)
		if dials, checks := f.servers["a"].counts(); dials != 1 || checks != 0 {
			t.Errorf("there were %d connections and %d checks; want one connection", dials, checks)
		}
		f.servers["a"].down()
		f.servers["a"].up()
		f.wantMoved("a")
	})
}
