package grpcserver_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/grpcserver"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestAcceptTCP: until it may accept connections over TCP, the server answers on its socket, and a client over TCP waits.
// It also stops in that time.
func TestAcceptTCP(t *testing.T) {
	for _, opens := range []bool{true, false} {
		files := newTLSDir(t, "clients:\n- {commonName: node, role: consumer}\n")
		a := files.access(nil)
		accept := make(chan struct{})
		g := &guarded{t: t, unix: filepath.Join(socketDir(t), "s")}
		svc := &asker{closing: make(chan struct{})}
		g.server = grpcserver.New(grpcserver.Config{
			Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, svc) },
			Closing:  func() { close(svc.closing) }, Access: a, AcceptTCP: accept,
		})
		listeners, err := grpcserver.ListenFor(a, []string{"unix://" + g.unix, "tcp://127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		g.tcp = listeners[1].Addr().String()
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := g.server.Serve(ctx, listeners); err != nil {
				t.Errorf("Serve returns %v; want nil", err)
			}
		})
		if _, err := g.local().GetPod(t.Context(), &podconfigv1.GetPodRequest{}); err != nil {
			t.Errorf("on the socket: %v", err)
		}
		if n := g.server.Connections()["127.0.0.1"]; n != 0 {
			t.Errorf("%d connections over TCP are accepted; want none", n)
		}
		remote := g.remote(files.ca.Client(files.ca, certtest.Request{CommonName: "node"}))
		answered := make(chan error, 1)
		go func() {
			_, err := remote.GetPod(ctx, &podconfigv1.GetPodRequest{}, grpc.WaitForReady(true))
			answered <- err
		}()
		waiting, err := net.Dial("tcp", g.tcp) // The kernel accepts it.
		if err != nil {
			t.Fatal(err)
		}
		_ = waiting.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := waiting.Read(make([]byte, 1)); err == nil {
			t.Errorf("the server sends %d bytes", n)
		}
		_ = waiting.Close()
		if opens {
			close(accept)
			if err := <-answered; err != nil {
				t.Errorf("over TCP, once it accepts: %v", err)
			}
			answered <- nil
		}
		cancel()
		serving.Wait()
		if err := <-answered; opens != (err == nil) {
			t.Errorf("the call ends with %v", err)
		}
	}
}
