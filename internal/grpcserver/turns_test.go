package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/certtest"
)

// heldTurns returns turns of which the only one is held.
func heldTurns(t *testing.T) *turns {
	t.Helper()
	turns := newTurns(1)
	if err := turns.acquire("holder", true, time.Minute, nil); err != nil {
		t.Fatal(err)
	}
	return turns
}

// TestTurns: addresses get first turns in rotation, handshakes under way are preferred, but not for ever, and an address
// with many handshakes doesn't keep another one's waiting for more than one of its own.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := heldTurns(t)
		var mu sync.Mutex
		var order []string
		wait := func(name string, first bool) {
			go func() {
				if err := turns.acquire(name[:1], first, time.Minute, nil); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				turns.release()
			}()
			synctest.Wait()
		}
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1"} {
			wait(name, true)
		}
		for _, name := range []string{"x1", "x2", "x3", "x4", "y1"} {
			wait(name, false)
		}
		turns.release()
		synctest.Wait()
		if got, want := strings.Join(order, " "), "x1 y1 x2 a1 x3 x4 b1 a2 a3 a4"; got != want {
			t.Errorf("the turns are of %s; want %s", got, want)
		}
		if others, begun, used := turns.state(); others+begun+used != 0 {
			t.Errorf("in the end %d turns are held, and %d handshakes wait", used, others+begun)
		}
	})
}

// state returns how many handshakes wait, and how many turns are held.
func (t *turns) state() (others, begun, used int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.others.Len(), t.begun.Len(), t.used
}

// TestTurnsRefuse: a handshake whose first turn would come too late is refused at once, unless its address has few others
// that wait; one that was begun waits; and a wait that lasts too long ends.
func TestTurnsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2)
		turns.cost = 100 * time.Millisecond
		for range 2 {
			if err := turns.acquire("holder", true, time.Minute, nil); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 200)
		wait := func(address string, first bool) { ended <- turns.acquire(address, first, 10*time.Second, nil) }
		for range 200 {
			go wait("a", true)
		}
		synctest.Wait()
		// 80 handshakes wait for 4 s, and the 81st for no more.
		if n, _, _ := turns.state(); n != 81 {
			t.Errorf("%d handshakes of one address wait; want 81", n)
		}
		for range 200 - 81 {
			if err := <-ended; !errors.Is(err, errHandshakeQueue) || !strings.Contains(err.Error(), "4.05s") {
				t.Errorf("it is refused with %v", err)
			}
		}
		go wait("b", true)
		go wait("a", false)
		synctest.Wait()
		if others, begun, _ := turns.state(); others != 82 || begun != 1 {
			t.Errorf("%d and %d handshakes wait; want one of another address, and one that was begun", others, begun)
		}
		began := time.Now()
		for range 83 {
			if err := <-ended; !errors.Is(err, errHandshakeQueue) {
				t.Errorf("the wait ends with %v", err)
			}
		}
		if others, begun, used := turns.state(); time.Since(began) != 10*time.Second || others+begun != 0 || used != 2 {
			t.Errorf("after %v %d handshakes wait, and %d turns are held", time.Since(began), others+begun, used)
		}
	})
}

// slowCredentials are a server's, whose handshake holds the turn for some time after each reading. They count those that
// compute at once.
type slowCredentials struct {
	credentials.TransportCredentials
	compute time.Duration

	mu           sync.Mutex
	now, most, n int
}

func (s *slowCredentials) handshake(c net.Conn) error {
	for range 2 {
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return err
		}
		s.mu.Lock()
		s.now++
		s.most = max(s.most, s.now)
		s.mu.Unlock()
		time.Sleep(s.compute)
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
		if _, err := c.Write([]byte{1}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return nil
}

// TestHandshakesEndOneAfterAnother: of a crowd that connects at once, a few handshakes compute at a time, so the first
// clients get in early. Peers that send nothing hold no turn. Without turns all clients would get in at the end.
func TestHandshakesEndOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, compute, most = 100, 10 * time.Millisecond, 2
		g := &guard{turns: newTurns(most), limits: Limits{HandshakeTimeout: time.Minute}}
		slow := &slowCredentials{compute: compute}
		var done sync.WaitGroup
		var mu sync.Mutex
		var took []time.Duration
		began := time.Now()
		for i := range clients + 50 {
			ours, theirs := net.Pipe()
			c := &conn{Conn: ours, peer: fmt.Sprint("address-", i%7), listener: &listener{Listener: tcpListener{}}}
			done.Go(func() {
				err := g.inTurn(c, func() error { return slow.handshake(c) })
				if (err != nil) != (i >= clients) {
					t.Errorf("client %d: %v", i, err)
				}
			})
			if i >= clients {
				time.AfterFunc(time.Minute, func() { _ = theirs.Close() }) // It sends nothing.
				continue
			}
			done.Go(func() {
				for range 2 {
					_, _ = theirs.Write([]byte{1})
					_, _ = theirs.Read(make([]byte, 1))
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			})
		}
		done.Wait()
		slices.Sort(took)
		last := clients * 2 * compute / most
		if took[clients/10] > last/4 || took[clients/2] > last*3/4 || took[clients-1] > last+compute {
			t.Errorf("a tenth of the clients got in after %v, half after %v, all after %v; want up to %v", took[clients/10], took[clients/2], took[clients-1], last)
		}
		if slow.most != most || slow.n != clients || g.turns.used != 0 {
			t.Errorf("%d handshakes computed at once; want %d; %d succeeded", slow.most, most, slow.n)
		}
	})
}

// tcpListener is for its address.
type tcpListener struct{ net.Listener }

func (tcpListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestWaitIsNotThePeers: the time that a handshake waits for its turn is added to its deadline.
func TestWaitIsNotThePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guard{turns: newTurns(1), limits: Limits{HandshakeTimeout: 10 * time.Second}}
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := &conn{Conn: ours, listener: &listener{Listener: tcpListener{}}}
		defer ours.Close()
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := g.turns.acquire("other", true, time.Minute, nil); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(9*time.Second, g.turns.release)
		go func() { _, _ = theirs.Write([]byte{1}) }()
		began := time.Now()
		err := g.inTurn(c, func() error {
			for range 2 {
				if _, err := c.Read(make([]byte, 1)); err != nil {
					return err
				}
			}
			return nil
		})
		if took := time.Since(began); err == nil || took != 19*time.Second {
			t.Errorf("a peer that stops sending ends after %v, %v; want 19 s", took, err)
		}
	})
}

// TestCrowdGetsIn: clients that connect at once over TLS, each with its own certificate, all get in, through one place.
func TestCrowdGetsIn(t *testing.T) {
	ca := certtest.NewCA(t, "ca")
	dir := t.TempDir()
	cert, key := ca.Issue(certtest.Request{Server: true})
	files := map[string][]byte{"cert": cert, "key": key, "ca": ca.PEM, "access": []byte("clients:\n- {commonName: node, role: consumer}\n")}
	for name, data := range files {
		certtest.WriteFile(t, dir+"/"+name, data)
	}
	a, err := access.New(access.Config{CertFile: dir + "/cert", KeyFile: dir + "/key", ClientCAFile: dir + "/ca", File: dir + "/access"})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Config{Register: func(grpc.ServiceRegistrar) {}, Access: a, Limits: Limits{MaxHandshakes: 1}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving, crowd sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx, []net.Listener{l}); err != nil {
			t.Error(err)
		}
	})
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := ca.Client(ca, certtest.Request{CommonName: "node"})
	client.NextProtos = []string{"h2"}
	for range 100 {
		crowd.Go(func() {
			conn, err := tls.Dial("tcp", l.Addr().String(), client)
			if err != nil {
				t.Error(err)
				return
			}
			// In TLS 1.3 the client is done before the server has verified it.
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Error("the server's settings: ", err)
			}
			_ = conn.Close()
		})
	}
	crowd.Wait()
	_ = silent.Close()
	cancel()
	serving.Wait()
	if server.guard.turns.used != 0 || server.guard.turns.cost == firstCost {
		t.Errorf("%d turns are held in the end; a handshake costs %v", server.guard.turns.used, server.guard.turns.cost)
	}
}
