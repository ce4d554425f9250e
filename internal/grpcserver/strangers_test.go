package grpcserver_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/roottest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// dialAs makes a connection as another user, as the kernel sees it: on a thread that is that user's for so long.
func dialAs(uid int, path string) (net.Conn, error) {
	become := func(uid int) error {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			return errno
		}
		return nil
	}
	own := os.Geteuid()
	var conn net.Conn
	ended := make(chan error, 1)
	go func() {
		// A thread that can't be made ours again ends with this goroutine, as it is never unlocked.
		runtime.LockOSThread()
		err := become(uid)
		if err == nil {
			conn, err = net.Dial("unix", path)
			back := become(own)
			if back == nil {
				runtime.UnlockOSThread()
			}
			err = errors.Join(err, back)
		}
		ended <- err
	}()
	err := <-ended
	return conn, err
}

// shared is a server whose socket other users can open; uid 1001 is a consumer.
func shared(t *testing.T, cfg access.Config, limits grpcserver.Limits) *guarded {
	t.Helper()
	roottest.Need(t, "a process of another user")
	cfg.AllowUIDs = []uint32{1001}
	a, err := access.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := guard(t, a, limits, nil)
	if err := os.Chmod(filepath.Dir(g.unix), 0o755); err != nil {
		t.Fatal(err)
	}
	return g
}

// as makes a raw connection as another user.
func (g *guarded) as(uid int) net.Conn {
	g.t.Helper()
	conn, err := dialAs(uid, g.unix)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		g.t.Fatal(err)
	}
	return conn
}

// user is a client of another user's.
func (g *guarded) user(uid int) podconfigv1.PodConfigServiceClient {
	conn := g.dial("passthrough:///socket", insecure.NewCredentials(), grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
		return dialAs(uid, g.unix)
	}))
	return podconfigv1.NewPodConfigServiceClient(conn)
}

// TestConnectionsWithoutRole: local users without a role share a few connections, on which they get an error; other
// users have their own.
func TestConnectionsWithoutRole(t *testing.T) {
	g := shared(t, access.Config{}, grpcserver.Limits{MaxConnections: 40})
	var held []net.Conn
	for i := range 16 {
		held = append(held, g.as(2000+i%4))
		speak(t, held[i])
	}
	for i := range 30 {
		closed(t, "a connection without a role too many", g.as(2000+i))
	}
	if got := g.refused("connections_without_role"); got != 30 {
		t.Errorf("%d connections are counted as refused; want 30", got)
	}
	if !strings.Contains(g.log.String(), "callers without one have 16 connections") {
		t.Errorf("the log doesn't tell why:\n%s", g.log)
	}
	for uid, want := range map[int]string{0: "uid:0 operator", 1001: "uid:1001 consumer"} {
		if who, err := whoami(t, g.user(uid)); who != want {
			t.Errorf("uid %d is %q, %v; want %q", uid, who, err, want)
		}
	}
	stranger := g.user(2000)
	if _, err := whoami(t, stranger); status.Code(err) != codes.Unavailable {
		t.Errorf("a caller without a role, besides 16 others: %v; want UNAVAILABLE", err)
	}
	_ = held[0].Close()
	until(t, "a closed connection makes room, and who comes is told that he has no role", func() bool {
		_, err := whoami(t, stranger, grpc.WaitForReady(true))
		return status.Code(err) == codes.PermissionDenied
	})
}

// TestReservedConnections: users who have a role can't take the socket from root.
func TestReservedConnections(t *testing.T) {
	g := shared(t, access.Config{}, grpcserver.Limits{MaxConnections: 8})
	for range 6 {
		speak(t, g.as(1001))
	}
	closed(t, "a connection that is reserved for root", g.as(1001))
	if got := g.refused("connections"); got != 1 {
		t.Errorf("%d connections are counted as refused; want 1", got)
	}
	for range 2 {
		speak(t, g.as(0))
	}
	closed(t, "a connection of root over the limit", g.as(0))
}

// TestStrangerGetsARole: a connection without a role that gets one is closed, and comes back as another user's.
func TestStrangerGetsARole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access")
	certtest.WriteFile(t, file, []byte("clients: []\n"))
	g := shared(t, access.Config{File: file}, grpcserver.Limits{MaxConnectionsWithoutRole: 1})
	client := g.user(2000)
	if _, err := whoami(t, client); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("a caller without a role: %v; want PERMISSION_DENIED", err)
	}
	defer g.hurry()()
	certtest.WriteFile(t, file, []byte("clients:\n- {uid: 2000, role: inspector}\n"))
	until(t, "the caller comes back with its role", func() bool {
		who, _ := whoami(t, client, grpc.WaitForReady(true))
		return who == "uid:2000 inspector"
	})
	if _, err := whoami(t, g.user(2001)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another without a role, once the first has one: %v; want its place and PERMISSION_DENIED", err)
	}
}
