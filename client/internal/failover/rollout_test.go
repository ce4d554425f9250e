package failover

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// follow keeps a stream of pods open, as package client does, until the context ends.
func follow(ctx context.Context, c *Conn) {
	for ctx.Err() == nil {
		if s, err := podconfigv1.NewPodConfigServiceClient(c).WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{}); err == nil {
			for err == nil {
				_, err = s.Recv()
			}
		}
		select {
		case <-time.After(jittered(time.Second)):
		case <-ctx.Done():
		}
	}
}

// TestRollout: three servers are replaced one after another under 1,000 clients. The last one has almost no clients then. Ten
// minutes later the servers' numbers of clients are within 20% of each other, as they were before.
func TestRollout(t *testing.T) {
	const clients, age = 1000, 4 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		servers := map[string]*server{}
		cfg := Config{
			ReturnAfter: age, Service: service, Logger: slog.New(slog.DiscardHandler),
			Dial: func(c Candidate) (*grpc.ClientConn, error) {
				return grpc.NewClient(c.Target, grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
						return servers[address[strings.LastIndex(address, "/")+1:]].dial(ctx)
					}))
			},
		}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			servers[name] = newServer(name, true)
			cfg.Endpoints = append(cfg.Endpoints, Endpoint{Text: "unix:///" + name})
		}
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		var all []*Conn
		for i := range clients {
			cfg.Key = fmt.Sprintf("node-%d", i)
			c := New(cfg)
			all = append(all, c)
			following.Go(func() { follow(ctx, c) })
		}
		defer func() {
			cancel()
			following.Wait()
			for _, c := range all {
				_ = c.Close()
			}
			for _, s := range servers {
				s.down()
			}
		}()
		counts := func() map[string]int {
			out := map[string]int{}
			for _, c := range all {
				if l := c.now(); l != nil {
					out[strings.TrimPrefix(l.String(), "unix:///")]++
				}
			}
			return out
		}
		even := func(when string) {
			t.Helper()
			n := counts()
			t.Logf("%s: %v", when, n)
			if low, high := min(n["a"], n["b"], n["c"]), max(n["a"], n["b"], n["c"]); n["a"]+n["b"]+n["c"] != clients || float64(high) > 1.2*float64(low) {
				t.Errorf("%s the servers have %v of %d clients; want within 20%% of each other", when, n, clients)
			}
		}
		time.Sleep(time.Minute)
		even("at first")
		for _, name := range names {
			servers[name].down()
			time.Sleep(20 * time.Second)
			servers[name].up()
			time.Sleep(20 * time.Second)
		}
		n := counts()
		t.Logf("after the rollout: %v", n)
		if n["c"] > clients/10 {
			t.Errorf("after the rollout the last server has %d clients; the test needs it to have few", n["c"])
		}
		time.Sleep(10 * time.Minute)
		even("ten minutes after the rollout")
	})
}

// TestRolloutOneAddress: a name has one address while a client connects, as in the middle of a rollout. The client spreads like
// the others once the name has more.
func TestRolloutOneAddress(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	var known atomic.Int64
	known.Store(1)
	change := func(c *Config) {
		c.Listed, c.ReturnAfter = false, 4*time.Minute
		c.Endpoints = []Endpoint{{Text: "tcp://gw:7443", Host: "gw", Port: "7443"}}
		c.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return slices.Clone(addresses[:known.Load()]), nil
		}
		dial := c.Dial
		c.Dial = func(o Candidate) (*grpc.ClientConn, error) {
			host, _, _ := net.SplitHostPort(strings.TrimPrefix(o.Target, "passthrough:///"))
			o.Target = "unix:///" + host
			return dial(o)
		}
		// A key of a client that prefers the other address.
		for i := 0; ; i++ {
			c.Key = fmt.Sprintf("node-%d", i)
			b := book{key: c.Key}
			if b.place(0, "tcp://gw:7443 (10.0.0.2)").compare(b.place(0, "tcp://gw:7443 (10.0.0.1)")) < 0 {
				return
			}
		}
	}
	run(t, "10.0.0.1 10.0.0.2", change, func(t *testing.T, f *fleet) {
		f.wantOn("10.0.0.1")
		time.Sleep(time.Hour)
		if _, checks := f.servers["10.0.0.1"].counts(); checks != 0 {
			t.Errorf("the only server was checked %d times; want not at all", checks)
		}
		known.Store(2)
		time.Sleep(7 * time.Minute)
		f.wantOn("10.0.0.2")
	})
}

// TestScaled: below 4 min, a shorter age shortens the other times; a longer one, or none, doesn't.
func TestScaled(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		-1: checkInterval, 0: checkInterval, time.Hour: checkInterval, fullAge: checkInterval,
		fullAge / 20: checkInterval / 20, time.Nanosecond: checkInterval / 100,
	} {
		if got := scaled(checkInterval, age); got != want {
			t.Errorf("with the age %v the interval is %v; want %v", age, got, want)
		}
	}
}
