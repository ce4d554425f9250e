package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/certtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Users that have no name on the machine.
const (
	consumerUID  = 65530
	inspectorUID = 65532
	strangerUID  = 65533
	floodUID     = 65531
)

// remote calls over TCP from the given loopback address. It doesn't wait for the connection: a rejected caller
// receives the answer at once.
func (e *exposed) remote(creds credentials.TransportCredentials, from string) podconfigv1.PodConfigServiceClient {
	e.t.Helper()
	return e.dialWith(creds, func(context.Context, string) (net.Conn, error) { return e.connect(0, from) })
}

// identified calls over TCP with a valid certificate of that name.
func (e *exposed) identified(name, from string) podconfigv1.PodConfigServiceClient {
	e.t.Helper()
	return e.remote(credentials.NewTLS(e.ca.Client(e.ca, certtest.Request{CommonName: name})), from)
}

// user calls on the socket as another user.
func (e *exposed) user(uid int) podconfigv1.PodConfigServiceClient {
	e.t.Helper()
	return e.dialWith(insecure.NewCredentials(), func(context.Context, string) (net.Conn, error) { return e.connect(uid, "") })
}

func (e *exposed) dialWith(
	creds credentials.TransportCredentials, dialer func(context.Context, string) (net.Conn, error),
) podconfigv1.PodConfigServiceClient {
	e.t.Helper()
	conn, err := grpc.NewClient("passthrough:///127.0.0.1", grpc.WithTransportCredentials(creds), grpc.WithContextDialer(dialer))
	check(e.t, err)
	e.conns = append(e.conns, conn)
	return podconfigv1.NewPodConfigServiceClient(conn)
}

// connect makes a connection over TCP from an address of loopback or, if that is empty, on the socket as that user.
func (e *exposed) connect(uid int, from string) (conn net.Conn, err error) {
	if from == "" {
		become := asUser(uid, func() {
			// EAGAIN means that the socket's queue is full at the moment, not a refusal.
			for conn, err = net.Dial("unix", e.socket); errors.Is(err, unix.EAGAIN); conn, err = net.Dial("unix", e.socket) {
				runtime.Gosched()
			}
		})
		return conn, errors.Join(become, err)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return dialer.Dial("tcp", e.tcp)
}

// asUser runs do as another user: on a thread whose user ID is changed, and changed back.
func asUser(uid int, do func()) error {
	own, ended := os.Geteuid(), make(chan error, 1)
	go func() {
		// The thread is never unlocked, so it ends with this goroutine if its user can't be changed back.
		runtime.LockOSThread()
		become := func(uid int) error {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
				return fmt.Errorf("become user %d: %w", uid, errno)
			}
			return nil
		}
		err := become(uid)
		if err == nil {
			do()
			err = become(own)
		}
		if err == nil {
			runtime.UnlockOSThread()
		}
		ended <- err
	}()
	return <-ended
}

// awaitEnd reads until the other side closes.
func awaitEnd(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buffer := make([]byte, 512)
	for {
		if _, err := conn.Read(buffer); errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("still open: %w", err)
		} else if err != nil {
			return nil //nolint:nilerr // any error means that it has ended
		}
	}
}

// refusal fails unless err has the code and contains the words.
func refusal(t *testing.T, what string, err error, code codes.Code, words string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v; want %s with %q", what, err, code, words)
	}
}

func listReferences(ctx context.Context, api podconfigv1.PodConfigServiceClient) (*podconfigv1.ListPodsResponse, error) {
	return api.ListPods(ctx, &podconfigv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
}
