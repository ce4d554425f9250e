package podconfigd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// TestG6DaemonHealth: the store has a health service of its own from the first answer on: a podconfigd whose store
// another process has open serves nevertheless.
func TestG6DaemonHealth(t *testing.T) {
	for name, want := range map[string]healthv1.HealthCheckResponse_ServingStatus{
		"free":  healthv1.HealthCheckResponse_SERVING,
		"taken": healthv1.HealthCheckResponse_NOT_SERVING,
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			if name == "taken" {
				takeStore(t, filepath.Join(dir, "root"))
			}
			launch(t, dir, t.Output())
			if got := healthOf(t, dir, storeHealth); got != want {
				t.Errorf("the store's health is %s; want %s", got, want)
			}
			if got := healthOf(t, dir, ""); got != healthv1.HealthCheckResponse_SERVING {
				t.Errorf("health as a whole is %s; want SERVING", got)
			}
		})
	}
}

// takeStore opens the store in the root directory until the test ends, so that no other process can open it.
func takeStore(t *testing.T, rootDir string) {
	t.Helper()
	if err := os.Mkdir(rootDir, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(filepath.Join(rootDir, storeFile), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
}

// healthOf is the first answer of the podconfigd that was launched in dir.
func healthOf(t *testing.T, dir, part string) healthv1.HealthCheckResponse_ServingStatus {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "s"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, MaxDelay: 5 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	resp, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: part}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetStatus()
}

// TestHealthOfStore: the server gets the hub's last state from before the server was made, and each later one.
func TestHealthOfStore(t *testing.T) {
	var health healthOfStore
	health.set(true)
	health.set(false)
	var reported []bool
	health.notify(func(good bool) { reported = append(reported, good) })
	health.set(true)
	health.set(false)
	if want := []bool{false, true, false}; !slices.Equal(reported, want) {
		t.Errorf("the server is told %v; want %v", reported, want)
	}
}
