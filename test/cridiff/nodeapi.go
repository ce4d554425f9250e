package cridiff

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeAPI is the API of an agent, which is the process of that ID, in a network namespace of its own.
type nodeAPI int

// serving is the longest time from an agent's start to its first answer, on a machine with several processors.
const serving = 30 * time.Second

// await waits until the agent answers: what it takes to start counts for no pod.
func (pid nodeAPI) await(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		_, err := pid.pods(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agent doesn't answer within %v: %w", limit, err)
		case <-time.After(pollPause):
		}
	}
}

// pods returns the pods that the agent knows.
func (pid nodeAPI) pods(ctx context.Context) (map[types.UID]*v1.Pod, error) {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // The certificate is self-signed, and only we are there.
		DialContext:     func(_ context.Context, network, address string) (net.Conn, error) { return pid.dial(network, address) },
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort("127.0.0.1", apiPort)+"/pods", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", req.URL, resp.Status)
	}
	var list v1.PodList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("get %s: %w", req.URL, err)
	}
	pods := map[types.UID]*v1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].UID] = &list.Items[i]
	}
	return pods, nil
}

// namespaceOf returns the file of the network namespace of a process.
func namespaceOf(pid int) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }

// isApart returns an error if the process is still in our network namespace.
func (pid nodeAPI) isApart() error {
	// The main thread may be one of those that dial has left in another namespace.
	ours, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	its, err := os.Readlink(namespaceOf(int(pid)))
	if err == nil && its == ours {
		err = fmt.Errorf("process %d is in our %s", pid, its)
	}
	return err
}

// dial connects from the process's network namespace.
func (pid nodeAPI) dial(network, address string) (net.Conn, error) {
	type result struct {
		net.Conn
		error
	}
	done := make(chan result)
	go func() {
		// No other goroutine uses the thread, as it stays locked.
		runtime.LockOSThread()
		namespace, err := os.Open(namespaceOf(int(pid)))
		if err != nil {
			done <- result{error: err}
			return
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil { //nolint:gosec // A descriptor fits.
			done <- result{error: fmt.Errorf("enter the network namespace of process %d: %w", pid, err)}
			return
		}
		conn, err := net.DialTimeout(network, address, 10*time.Second)
		done <- result{conn, err}
	}()
	r := <-done
	return r.Conn, r.error
}
