package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// listening runs a command that serves, and returns its address. A signal ends it with the test.
func listening(t *testing.T, args ...string) (address string) {
	t.Helper()
	signals := make(chan os.Signal, 1)
	reader, writer := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- run(context.Background(), args, signals, writer, t.Output()) }() // t.Context ends too soon
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		signals <- syscall.SIGTERM
		if code := <-done; code != exitTerminated {
			t.Errorf("exit code %d, want %d", code, exitTerminated)
		}
	})
	match := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(line)
	if match == nil {
		t.Fatalf("no address in %q", line)
	}
	return match[1]
}

func TestServeAnswers(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	base := "http://" + listening(t, "serve", "--ready="+ready, "127.0.0.1:0")
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	get := func(path string) (code int, header http.Header, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "pod.example"
		request.Header.Set("X-Probe", "one")
		request.Header.Add("X-Probe", "two")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		read, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header, string(read)
	}
	want := func(path string, code int, text string) {
		t.Helper()
		if got, _, body := get(path); got != code || !strings.Contains(body, text) {
			t.Errorf("%s: %d %q, want %d %q", path, got, body, code, text)
		}
	}
	want("/", http.StatusOK, "hello\n")
	want("/anything/else", http.StatusOK, "hello\n")
	want("/drip?pieces=2", http.StatusOK, "hello\nhello\n")
	want("/live", http.StatusOK, "hello\n")
	want("/ready", http.StatusServiceUnavailable, ready)
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want("/ready", http.StatusOK, "hello\n")
	if err := os.Remove(ready); err != nil {
		t.Fatal(err)
	}
	want("/ready", http.StatusServiceUnavailable, ready)

	_, _, body := get("/headers")
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if !slices.IsSorted(lines) {
		t.Errorf("not sorted: %q", lines)
	}
	for _, line := range []string{"Host: pod.example", "X-Probe: one", "X-Probe: two"} {
		if !slices.Contains(lines, line) {
			t.Errorf("no %q in %q", line, lines)
		}
	}
	code, header, _ := get("/redirect?to=http://other.example:81/x?y=z")
	if to := header.Get("Location"); code != http.StatusFound || to != "http://other.example:81/x?y=z" {
		t.Errorf("redirect: %d to %q", code, to)
	}
}

// A gRPC client gets the same answers as from a gRPC health server.
func TestGRPCHealth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "healthy")
	for _, service := range []string{"", "a.service"} {
		args := []string{"grpc-health", "127.0.0.1:0", file}
		if service != "" {
			args = append(args, service)
		}
		conn, err := grpc.NewClient(listening(t, args...), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		client := healthpb.NewHealthClient(conn)
		check := func(service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
			response, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			return response.GetStatus(), err
		}
		if have, err := check(service); err != nil || have != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("without the file: %v, %v", have, err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if have, err := check(service); err != nil || have != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("with the file: %v, %v", have, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if _, err := check("another"); status.Code(err) != codes.NotFound {
			t.Errorf("another service: %v", err)
		}
		if _, err := check(strings.Repeat("x", maxHealthRequest)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("too long a name: %v", err)
		}
		if _, err := client.List(t.Context(), &healthpb.HealthListRequest{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("another method: %v", err)
		}
	}
}

func FuzzReadHealthRequest(f *testing.F) {
	f.Add("\x00\x00\x00\x00\x00")
	f.Add("\x00\x00\x00\x00\x03\x0a\x01x")
	f.Add("\x00\x00\x00\x00\x01\x0a")
	f.Add("\x01\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, body string) {
		if service, err := readHealthRequest(strings.NewReader(body)); err == nil && !strings.Contains(body, service) {
			t.Errorf("service %q from %q", service, body)
		}
	})
}
