package handler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podstream/podstream/internal/porttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeExecer answers each command as a test says, and records the calls.
type fakeExecer struct {
	stdout, stderr string
	err            error

	id      string
	cmd     []string
	timeout time.Duration
}

func (f *fakeExecer) ExecSync(_ context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, error) {
	f.id, f.cmd, f.timeout = id, cmd, timeout
	return []byte(f.stdout), []byte(f.stderr), f.err
}

// serve starts a container's HTTP server, and returns its target: its port is called "web".
func serve(t *testing.T, start func(*httptest.Server), handle http.HandlerFunc) Target {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	server.EnableHTTP2 = true
	start(server)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return targetAt(t, u.Host)
}

var (
	plain   = (*httptest.Server).Start
	withTLS = (*httptest.Server).StartTLS
)

// listen is a listener on loopback that is closed with the test. The kernel accepts connections, and no program
// answers.
func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// closedPort returns the address of a port without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", porttest.Reserve(t))
}

// fullPort returns the address of a port whose queue is full, as connections are not accepted: the kernel leaves
// further connections without an answer.
func fullPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port))
	conn, err := net.Dial("tcp", addr) // A queue of 0 takes one.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return addr
}

func targetAt(t *testing.T, addr string) Target {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return Target{
		Pod:       &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid", Namespace: "ns", Name: "pod"}},
		Container: "main", ContainerID: "c1", PodIP: host,
		Ports: []v1.ContainerPort{{Name: "other", ContainerPort: 1}, {Name: "web", ContainerPort: int32(number)}},
	}
}

// web is the port that the test's server listens on.
var web = intstr.FromString("web")

func httpProbe(action v1.HTTPGetAction) *v1.Probe {
	if action.Port == (intstr.IntOrString{}) {
		action.Port = web
	}
	return &v1.Probe{TimeoutSeconds: 1, ProbeHandler: v1.ProbeHandler{HTTPGet: &action}}
}
