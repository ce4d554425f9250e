package e2e

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	shared "github.com/podstream/podstream/test/rig"
)

// addressConnections is podconfigd's limit for an IP address, four times --max-connections-per-peer.
// strangerConnections is the limit for all local users without a role.
const addressConnections, strangerConnections = 4 * 1024, 16

// handshakeTimeout is the time limit of a connection's handshake.
const handshakeTimeout = 10 * time.Second

// floodRequests calls as often as it can, on the socket and over TCP.
func floodRequests(t *testing.T, e *exposed) {
	for peer, api := range map[string]podconfigv1.PodConfigServiceClient{
		fmt.Sprint("uid:", inspectorUID): e.user(inspectorUID), "looker at " + attacker: e.identified("looker", attacker),
	} {
		words := fmt.Sprintf("more than 500 requests a second from %s; try again later", peer)
		var answered, refused atomic.Int32
		began := time.Now()
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for range 500 {
					_, err := api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
					if err == nil {
						answered.Add(1)
						continue
					}
					refused.Add(1)
					refusal(t, "a call over the limit", err, codes.ResourceExhausted, words)
				}
			})
		}
		callers.Wait()
		most := 2000 + int32(500*time.Since(began).Seconds())
		t.Logf("of %s %d calls were answered, %d refused", peer, answered.Load(), refused.Load())
		// On a slow machine, all calls may come at an allowed rate. Then most is more than their number.
		if n := answered.Load(); n < 1500 || n > most {
			t.Errorf("of %s %d calls are answered and %d refused; want 2000 at once and 500 a second, %d in all", peer, n, refused.Load(), most)
		}
	}
}

// floodConnections opens 10,000 connections of one peer, on the socket without a role and over TCP, and keeps
// the accepted ones open.
func floodConnections(t *testing.T, e *exposed) {
	const flood = 10_000
	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur = limit.Max; limit.Max < flood+1000 {
		shared.Lack(t, "a process may have %d open files here; run `ulimit -n 20000` before", limit.Max)
	}
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	for _, side := range []struct {
		from, reason string
		most         int
	}{{"", "connections_without_role", strangerConnections}, {flooder, "connections_per_peer", addressConnections}} {
		from, series := side.from, fmt.Sprintf("podstream_grpc_refused_total{reason=%q}", side.reason)
		before, err := metricOn(e.metrics, series)
		check(t, err)
		ends, began := make(chan error, flood), time.Now()
		var open []net.Conn
		for range flood {
			conn, err := e.connect(floodUID, from)
			check(t, err)
			open = append(open, conn)
			go func() {
				if from == "" {
					_, _ = io.WriteString(conn, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
				}
				ends <- awaitEnd(conn)
			}()
		}
		for range flood - side.most {
			check(t, <-ends)
		}
		_, err = listReferences(t.Context(), e.identified("agent", attacker))
		check(t, err)
		_, err = listReferences(t.Context(), e.user(inspectorUID))
		check(t, err)
		now, err := e.vitals()
		check(t, err)
		t.Logf("with %d connections from %q: %+v", side.most, from, now)
		refused, err := metricOn(e.metrics, series)
		check(t, err)
		// The accepted TCP connections send nothing. When their time limit ends, as many others are accepted.
		rounds := 1
		if from == flooder {
			rounds += int(time.Since(began) / handshakeTimeout)
		}
		if got := int(refused - before); got > flood-side.most || got < flood-rounds*side.most {
			t.Errorf("%d connections from %q are counted as refused; want %d", got, from, flood-side.most)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
		for range side.most {
			<-ends
		}
	}
}
