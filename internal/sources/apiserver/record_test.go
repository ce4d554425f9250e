package apiserver

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// TestNoClusterFile: what can't be read as the file is an error, and no sign that nothing is stored. Reading it doesn't
// wait for the writer of a FIFO, and the Source ends.
func TestNoClusterFile(t *testing.T) {
	for name, put := range map[string]func(file string) error{
		"a FIFO":          func(file string) error { return unix.Mkfifo(file, 0o600) },
		"a directory":     func(file string) error { return os.Mkdir(file, 0o700) },
		"a dangling link": func(file string) error { return os.Symlink(filepath.Join(filepath.Dir(file), "none"), file) },
		"a device":        func(file string) error { return os.Symlink("/dev/zero", file) },
		"a looping link":  func(file string) error { return os.Symlink(filepath.Base(file), file) },
	} {
		t.Run(name, func(t *testing.T) {
			server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
			if err := put(file); err != nil {
				t.Fatal(err)
			}
			server.Put(newPod("a"))
			r := start(t, ofCluster(t, server, file))
			at := awaitRefused(t, server, r, 0, file, "can't be read")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			r.awaitPods(at, "ns/a")
		})
	}
}

// TestFileRemovedBeforeTheChange: a file that was removed while its own cluster answers is stored again. Its absence
// doesn't confirm a change that comes later.
func TestFileRemovedBeforeTheChange(t *testing.T) {
	server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
	server.Put(newPod("a"))
	ours := server.Cluster()
	r := start(t, ofCluster(t, server, file))
	_, at := r.awaitPods(0, "ns/a")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	before := server.View().Answered(isCheck)
	server.Await("two more checks", func(v apitest.View) bool { return v.Answered(isCheck) >= before+2 })
	_, at = r.awaitPods(at, "ns/a") // The first of these checks has ended.
	if stored, err := (&record{path: file}).read(); err != nil || stored != ours {
		t.Errorf("%q is stored: %v; want %q again", stored, err, ours)
	}
	server.ReplaceStore()
	awaitRefused(t, server, r, at, "is of another cluster")
}

// TestClusterFileCantBeWritten: it is logged once, however often it is tried, and the pods are used.
func TestClusterFileCantBeWritten(t *testing.T) {
	server, dir := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "root")
	server.Put(newPod("a"))
	log := &logtest.Buffer{}
	file := filepath.Join(dir, "cluster.json")
	r := start(t, ofCluster(t, server, file, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) }))
	_, at := r.awaitPods(0, "ns/a")
	server.Await("checks", func(v apitest.View) bool { return v.Answered(isCheck) >= 10 })
	n := 0
	for _, line := range log.Lines() {
		if strings.Contains(line, "can't be stored") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d lines say that it can't be stored, want 1:\n%s", n, strings.Join(log.Lines(), "\n"))
	}
	// Its removal can't confirm anything then.
	server.ReplaceStore()
	awaitRefused(t, server, r, at, "is of another cluster", "restart podconfigd")
	r.stop()
	// Once it can be written, it is.
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, ofCluster(t, server, file)).awaitPods(0)
	if stored, err := (&record{path: file}).read(); err != nil || stored != server.Cluster() {
		t.Errorf("%q is stored: %v; want %q", stored, err, server.Cluster())
	}
}

// TestConfirmedClusterIsNotShown: the removal of the file confirms a server, too, that doesn't show its UID.
func TestConfirmedClusterIsNotShown(t *testing.T) {
	server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
	server.Put(newPod("a"))
	r := start(t, ofCluster(t, server, file))
	_, at := r.awaitPods(0, "ns/a")
	server.Answer(func(r apitest.Request) *apitest.Reply {
		if !isCheck(r) {
			return nil
		}
		return apitest.Fail(403, metav1.StatusReasonForbidden, `services "kubernetes" is forbidden`)
	})
	at = awaitRefused(t, server, r, at, "doesn't show", "remove "+file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.awaitPods(at, "ns/a")
}
