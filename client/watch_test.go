package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/podstream/podstream/client"
)

// TestWatch delivers whole pods, op by op.
func TestWatch(t *testing.T) {
	p, d := testPlace(t), newDaemon()
	up(t, p, d)
	w := watch(t, p, client.Config{Consumer: "test"}, client.WatchOptions{})
	e := w.want("synced")
	if len(e.Sources) != 2 || e.Sources[0] != (client.Source{Name: "file"}) || e.Sources[1] != (client.Source{Name: "api"}) {
		t.Errorf("synced tells of sources %v; want file and api, not ready", e.Sources)
	}
	d.set("file", "a: web(image=nginx:1,phase=Running) db()")
	e = w.want("ADD file: web db")
	add := e.Ops[0]
	if !add.SourceReady || add.Observed.Unix() != 1 || e.Cursor.GetRevision() != 1 {
		t.Errorf("the ADD has ready=%v, observed in second %d, revision %d; want true, 1, 1", add.SourceReady, add.Observed.Unix(),
			e.Cursor.GetRevision())
	}
	pod := add.Pods[0]
	if pod.Name != "web" || pod.Namespace != "default" || pod.Source != "file" || pod.SpecDigest == "" || pod.StatusDigest == "" {
		t.Errorf("the pod is %+v; want default/web of file with its digests", pod)
	}
	if pod.Object == nil || pod.Object.Spec.Containers[0].Image != "nginx:1" || pod.Object.Status.Phase != "Running" {
		t.Errorf("the pod's object is %v; want image nginx:1, Running", pod.Object)
	}
	d.set("file", "a: web(image=nginx:2,phase=Running) new()")
	e = w.want("REMOVE file: db", "ADD file: new", "UPDATE file: web")
	if removed := e.Ops[0].Pods[0]; removed.Object != nil || removed.Name != "db" {
		t.Errorf("the removed pod is %+v; want db, without object", removed)
	}
	d.set("api", "")
	w.want("ADD api:")
}

// TestWatchEnds lists all ways in which Watch returns.
func TestWatchEnds(t *testing.T) {
	p := testPlace(t)
	up(t, p, newDaemon())
	t.Run("its context ends", func(t *testing.T) {
		w := watch(t, p, client.Config{}, client.WatchOptions{})
		w.want("synced")
		w.cancel()
		if err := w.wantEnd(); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returns %v; want context.Canceled", err)
		}
	})
	t.Run("its context ends while there is no podconfigd", func(t *testing.T) {
		w := watch(t, testPlace(t), client.Config{}, client.WatchOptions{})
		w.cancel()
		if err := w.wantEnd(); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returns %v; want context.Canceled", err)
		}
	})
	t.Run("the client is closed", func(t *testing.T) {
		w := watch(t, p, client.Config{}, client.WatchOptions{})
		w.want("synced")
		if err := w.client.Close(); err != nil {
			t.Errorf("Close returns %v; want nil", err)
		}
		if err := w.wantEnd(); !errors.Is(err, client.ErrClosed) {
			t.Errorf("Watch returns %v; want ErrClosed", err)
		}
		if err := w.client.Close(); err != nil {
			t.Errorf("a second Close returns %v; want nil", err)
		}
	})
	t.Run("its handler fails", func(t *testing.T) {
		c, err := client.New(client.Config{Endpoint: p.endpoint})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		full := errors.New("the disk is full")
		calls := 0
		err = c.Watch(t.Context(), client.WatchOptions{}, func(context.Context, client.Event) error {
			calls++
			return full
		})
		if !errors.Is(err, full) || calls != 1 {
			t.Errorf("Watch returns %v after %d calls; want the handler's own error after one", err, calls)
		}
	})
}

func TestNewRefusesEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"unix://relative": "want unix:///path or tcp://host:port", "/run/x.sock": "want unix:///path", "localhost:1": "want unix:///path",
		"tcp://localhost": "want tcp://host:port", "tcp://:1": "want tcp://host:port", "tcp://localhost:1": "needs a certificate file and a key file",
	} {
		c, err := client.New(client.Config{Endpoint: endpoint})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("New with endpoint %q: %v; want an error that says %q", endpoint, err, want)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}

// TestG7ResumesAfterRestart checks G7 and G3 end to end: podconfigd restarts with its history; the consumer receives
// the changes meanwhile, each once.
func TestG7ResumesAfterRestart(t *testing.T) {
	p, d := testPlace(t), newDaemon()
	stop := up(t, p, d)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("synced")
	d.set("file", "a: web() db()")
	w.want("ADD file: web db")
	stop()
	d.set("file", "a: web(image=2) db()")
	d.set("file", "a: web(image=2)")
	up(t, p, d)
	w.want("UPDATE file: web")
	w.want("REMOVE file: db")
	w.want("synced")
	d.set("file", "a:")
	w.want("REMOVE file: web")
}

// TestG7DifferenceAfterNewInstance checks G7 end to end for a podconfigd that lost its history: the consumer gets the
// difference to its pods, and pods of a source that isn't ready stay until it is (G9).
func TestG7DifferenceAfterNewInstance(t *testing.T) {
	p, before := testPlace(t), newDaemon()
	stop := up(t, p, before)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("synced")
	before.set("file", "a: f-same() f-gone()")
	w.want("ADD file: f-same f-gone")
	before.set("api", "x: a-same() a-changed() a-gone()")
	w.want("ADD api: a-same a-changed a-gone")
	stop()

	now := newDaemon()
	now.set("api", "x: a-same() a-changed(image=2) a-new()")
	up(t, p, now)
	e := w.want("REMOVE api: a-gone", "ADD api: a-new", "UPDATE api: a-changed")
	if gone := e.Ops[0].Pods[0]; gone.Name != "a-gone" || gone.Namespace != "default" {
		t.Errorf("the removed pod is %s/%s; want default/a-gone, from what the consumer held", gone.Namespace, gone.Name)
	}
	w.want("synced")
	now.set("file", "a: f-same()")
	w.want("REMOVE file: f-gone", "ADD file:")
}

// TestWatchOptions: a consumer that stored cursor and pods resumes after its own restart.
func TestWatchOptions(t *testing.T) {
	p, d := testPlace(t), newDaemon()
	up(t, p, d)
	first := watch(t, p, client.Config{}, client.WatchOptions{})
	first.want("synced")
	d.set("file", "a: web() db()")
	e := first.want("ADD file: web db")
	first.cancel()
	d.set("file", "a: web(image=2)")

	kept := client.WatchOptions{ResumeAfter: e.Cursor, Known: pods(e)}
	second := watch(t, p, client.Config{}, kept)
	second.want("REMOVE file: db", "UPDATE file: web")
	second.want("synced")

	foreign := kept
	foreign.ResumeAfter = nil
	third := watch(t, p, client.Config{}, foreign)
	third.want("REMOVE file: db", "UPDATE file: web")
	third.want("synced")
}
