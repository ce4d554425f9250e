package fault

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// controls are the ways to set faults.
type control interface {
	Add(ctx context.Context, f Fault) (int, error)
	Remove(ctx context.Context, id int) error
	Release(ctx context.Context, id int) error
	Await(ctx context.Context, id, calls int) error
}

// served returns a Client of the table's handler.
func served(t *testing.T, table *Table) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "fault") // t.TempDir is too long for the name of a socket.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: table.Handler()}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	client := NewClient(socket)
	t.Cleanup(func() {
		client.Close()
		server.Close()
		served.Wait()
	})
	return client
}

// TestFaults: directly and over the socket, a fault acts on its calls only, as often as it says; it is awaited, released and removed.
func TestFaults(t *testing.T) {
	for name, connect := range map[string]func(*Table) control{
		"direct": func(table *Table) control { return table },
		"socket": func(table *Table) control { return served(t, table) },
	} {
		t.Run(name, func(t *testing.T) {
			table := &Table{}
			c := connect(table)
			ctx := t.Context()
			id, err := c.Add(ctx, Fault{Method: "NodeStageVolume", Volume: "a", Action: Hold, Times: 1, Delay: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if table.Meet("NodeStageVolume", "b") != nil || table.Meet("NodeUnstageVolume", "a") != nil {
				t.Error("the fault acts on other calls")
			}
			met := make(chan *Met, 1)
			go func() { met <- table.Meet("NodeStageVolume", "a") }()
			if err := c.Await(ctx, id, 1); err != nil {
				t.Fatal(err)
			}
			m := <-met
			if m == nil || m.Action != Hold || m.Delay != time.Second {
				t.Fatalf("the call meets %+v", m)
			}
			if table.Meet("NodeStageVolume", "a") != nil {
				t.Error("the fault acts twice")
			}
			select {
			case <-m.Released:
				t.Error("the call is released before Release")
			default:
			}
			if err := c.Release(ctx, id); err != nil {
				t.Error(err)
			}
			<-m.Released
			if err := c.Remove(ctx, id); err != nil {
				t.Error(err)
			}
			if c.Remove(ctx, id) == nil || c.Release(ctx, id) == nil {
				t.Error("a removed fault is found")
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			if c.Await(ended, id, 2) == nil {
				t.Error("a call that never came is awaited with success")
			}
		})
	}
}

// TestRemoveReleases: removal releases the calls that a fault holds, and later calls don't meet it.
func TestRemoveReleases(t *testing.T) {
	var table Table
	id, err := table.Add(t.Context(), Fault{Action: Hold})
	if err != nil {
		t.Fatal(err)
	}
	m := table.Meet("Probe", "")
	if err := table.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	<-m.Released
	if table.Meet("Probe", "") != nil {
		t.Error("a removed fault acts")
	}
}

// TestWrongFaults: a fault that would do nothing is refused.
func TestWrongFaults(t *testing.T) {
	client := served(t, &Table{})
	for _, f := range []Fault{{}, {Action: "explode"}, {Action: Delay}, {Action: Fail}, {Action: ActFail, Code: codes.OK}, {Action: Hang, Times: -1}} {
		if _, err := client.Add(t.Context(), f); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}
