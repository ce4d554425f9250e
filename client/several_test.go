package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/certtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestNewRefusesLists: a list of endpoints has one kind, each endpoint once, and a known order.
func TestNewRefusesLists(t *testing.T) {
	for endpoint, want := range map[string]string{
		"unix:///a,tcp://h:1": "don't go together", "tcp://h:1,unix:///a": "don't go together",
		"unix:///a,unix:///a": "unix:///a is listed twice", "unix:///a,": "want unix:///path", "unix:///a,b": "want unix:///path",
		"tcp://h:1,tcp://:1": "want tcp://host:port", "tcp://h:1,tcp://h:2": "needs a certificate file and a key file",
		"unix:///a" + strings.Repeat(",unix:///b", 17):  "listed twice",
		"unix:///0" + list(1, 17):                       "more than 16",
		"tcp://h:1,tcp://h:2,tcp://h:3,unix://relative": "want unix:///path",
	} {
		_, err := client.New(client.Config{Endpoint: endpoint})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("New with endpoint %q: %v; want an error that says %q", endpoint, err, want)
		}
	}
	if _, err := client.New(client.Config{Order: "first"}); err == nil || !strings.Contains(err.Error(), `the order is "first"`) {
		t.Errorf("New with another order: %v; want an error that names it", err)
	}
	if got, err := client.SplitEndpoints("unix:///0" + list(1, 16)); err != nil || len(got) != 16 || got[15] != "unix:///15" {
		t.Errorf("a list of 16 is %q, with the error %v", got, err)
	}
}

func list(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, ",unix:///%d", i)
	}
	return b.String()
}

// gateways are podconfigds over TLS at made-up addresses, port 7443.
type gateways struct {
	t  *testing.T
	ca *certtest.CA
	// addresses are the real ones.
	addresses map[string]string
	names     map[string][]string
}

func newGateways(t *testing.T) *gateways {
	t.Helper()
	return &gateways{t: t, ca: certtest.NewCA(t, "ours"), addresses: map[string]string{}, names: map[string][]string{}}
}

// serve has a podconfigd serve at an address, with a certificate of that name.
func (g *gateways) serve(address, name string, api podconfigv1.PodConfigServiceServer) {
	g.t.Helper()
	g.addresses[address+":7443"] = strings.TrimPrefix(serveTLSWith(g.t, g.ca, name, api), "tcp://")
}

// config returns the configuration for a list of hosts.
func (g *gateways) config(files client.TLS, hosts ...string) client.Config {
	cfg := client.Config{TLS: files, Endpoint: "tcp://" + strings.Join(hosts, ":7443,tcp://") + ":7443", Order: client.Listed}
	cfg.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		listener, ok := g.addresses[address]
		if !ok {
			return nil, errors.New("connection refused")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", listener)
	})}
	return client.WithLookup(cfg, func(_ context.Context, host string) (out []netip.Addr, err error) {
		for _, a := range g.names[host] {
			out = append(out, netip.MustParseAddr(a))
		}
		if out == nil {
			err = errors.New("no such host")
		}
		return out, err
	})
}

// TestCertificateOfEachEndpoint: the certificate at each address must have the name of the endpoint, not that of
// another endpoint in the list.
func TestCertificateOfEachEndpoint(t *testing.T) {
	g := newGateways(t)
	g.names["one"], g.names["two"] = []string{"10.9.0.1"}, []string{"10.9.0.2", "10.9.0.3"}
	files := issue(t, g.ca, "agent")
	g.serve("10.9.0.1", "two", named{})
	g.serve("10.9.0.2", "one", named{})
	got := whoAmI(t, g.config(files, "one", "two"))
	for _, want := range []string{"tcp://one:7443 (10.9.0.1): ", "not one", "tcp://two:7443 (10.9.0.2): ", "not two", "tcp://two:7443 (10.9.0.3): ", "refused"} {
		if !strings.Contains(got, want) {
			t.Errorf("the error is %q; want it to have %q", got, want)
		}
	}
	g.serve("10.9.0.3", "two", named{})
	if got := whoAmI(t, g.config(files, "one", "two")); !strings.Contains(got, "you are agent") {
		t.Errorf("podconfigd says %q; want that it serves", got)
	}
	files.ServerName = "one"
	if got := whoAmI(t, g.config(files, "two", "absent")); !strings.Contains(got, "you are agent") {
		t.Errorf("with another name to check podconfigd says %q; want that it serves", got)
	}
}

// counter is a podconfigd that counts its streams.
type counter struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	mu      sync.Mutex
	streams int
}

func (c *counter) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, s serverStream) error {
	c.mu.Lock()
	c.streams++
	c.mu.Unlock()
	if err := s.Send(&podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{}}}); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

// TestSpread: the clients of 100 nodes spread over the three addresses of a name, and over the three names of a list
// without an order. The keys and addresses are fixed, and so is the result; for random keys the standard deviation of
// each share of 33 is 4.7.
func TestSpread(t *testing.T) {
	for _, hosts := range [][]string{{"gateway"}, {"gw-0", "gw-1", "gw-2"}} {
		g := newGateways(t)
		files := issue(t, g.ca, "agent")
		var counters []*counter
		for i := range 3 {
			address := fmt.Sprintf("10.9.0.%d", i+1)
			name := hosts[i%len(hosts)]
			g.names[name] = append(g.names[name], address)
			counters = append(counters, &counter{})
			g.serve(address, name, counters[i])
		}
		var clients sync.WaitGroup
		for i := range 100 {
			cfg := g.config(files, hosts...)
			cfg.Order, cfg.SpreadKey = client.Random, fmt.Sprintf("worker-%02d", i)
			c, err := client.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			clients.Go(func() {
				stream, err := c.API().WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
				if err == nil {
					_, err = stream.Recv()
				}
				if err != nil {
					t.Errorf("a stream has the error %v", err)
				}
			})
		}
		clients.Wait()
		var counts []int
		for _, c := range counters {
			counts = append(counts, c.streams)
		}
		if !within(counts, 0.2) {
			t.Errorf("with the hosts %v the streams spread as %v; want each within 20%% of a third", hosts, counts)
		}
	}
}

// within reports whether each count is within that part of the mean.
func within(counts []int, part float64) bool {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	mean := float64(sum) / float64(len(counts))
	for _, n := range counts {
		if math.Abs(float64(n)-mean) > part*mean {
			return false
		}
	}
	return sum > 0
}

// TestWithin checks the check.
func TestWithin(t *testing.T) {
	for _, counts := range [][]int{{33, 33, 34}, {27, 33, 40}} {
		if !within(counts, 0.2) {
			t.Errorf("%v doesn't count as even", counts)
		}
	}
	for _, counts := range [][]int{{26, 34, 40}, {0, 50, 50}, {0, 0, 0}} {
		if within(counts, 0.2) {
			t.Errorf("%v counts as even", counts)
		}
	}
}

// TestListOfSockets: two podconfigds on Unix sockets of their own; the first one ends.
func TestListOfSockets(t *testing.T) {
	a, b := testPlace(t), testPlace(t)
	first, second := newDaemon(), newDaemon()
	stop := up(t, a, first)
	up(t, b, second)
	for _, d := range []*daemon{first, second} {
		d.set("file", "a: web() db()")
		d.set("api", "x: api()")
	}
	both := place{endpoint: a.endpoint + "," + b.endpoint}
	w := watch(t, both, client.Config{Order: client.Listed}, client.WatchOptions{})
	w.want("ADD file: db web", "ADD api: api")
	w.want("synced")
	second.set("file", "a: web(image=2) db()")
	second.set("file", "a: web(image=2)")
	stop()
	w.want("REMOVE file: db", "UPDATE file: web")
	w.want("synced")
}
