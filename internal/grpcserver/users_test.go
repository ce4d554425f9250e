package grpcserver_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/roottest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// childSocket names the socket that a child process of TestOtherUser calls.
const childSocket = "PODSTREAM_TEST_SOCKET"

// child is the part of TestOtherUser that runs as another user: it prints its identity, and the health.
func child(socket string) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err == nil {
		fmt.Printf("%s %s; ", resp.GetSources()[0].GetName(), resp.GetSources()[0].GetLocation())
	} else {
		fmt.Printf("%s %s; ", status.Code(err), status.Convert(err).Message())
	}
	_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	fmt.Printf("health %s", status.Code(err))
}

// TestOtherUser: on a socket, only the users that are listed get more than health.
func TestOtherUser(t *testing.T) {
	roottest.Need(t, "a process of another user")
	const other = 65534
	file := filepath.Join(t.TempDir(), "access")
	certtest.WriteFile(t, file, []byte("clients:\n- {uid: 65534, role: inspector}\n"))
	for _, tc := range []struct {
		name string
		cfg  access.Config
		mode fs.FileMode
		want string
	}{
		{"no user is listed", access.Config{}, 0o600, "Unavailable connection error: desc = \"transport: Error while dialing: dial unix"},
		{"another is listed", access.Config{AllowUIDs: []uint32{1234}}, 0o666, "PermissionDenied no role for uid 65534; the access file (--access-file) gives roles, and --allow-uid the role consumer; health OK"},
		{"it is listed", access.Config{AllowUIDs: []uint32{1234, other}}, 0o666, "uid:65534 consumer; health OK"},
		{"it is in the access file", access.Config{File: file}, 0o666, "uid:65534 inspector; health OK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := access.New(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			g := guard(t, a, grpcserver.Limits{}, nil)
			if info, err := os.Stat(g.unix); err != nil || info.Mode().Perm() != tc.mode {
				t.Errorf("the socket is %v, %v; want mode %v", info, err, tc.mode)
			}
			if err := os.Chmod(filepath.Dir(g.unix), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe")
			cmd.Env, cmd.Dir = []string{childSocket + "=" + g.unix}, "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), tc.want) {
				t.Errorf("uid 65534 is told %q, %v; want %q", out, err, tc.want)
			}
			if who, err := whoami(t, g.local()); err != nil || who != "uid:0 operator" {
				t.Errorf("root is %q, %v; want an operator", who, err)
			}
		})
	}
}
