package apiobjects

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// What isn't a regular file of a limited size isn't read, and is an error.
func TestNoFile(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a FIFO":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a device":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"a large file": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxFile+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, read := filepath.Join(t.TempDir(), "services.json"), make(chan error, 1)
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _, err := newMemory[service](path, Config{Server: func() string { return here }}).read(answer{})
				read <- err
			}()
			select {
			case err := <-read:
				if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
					t.Errorf("the error is %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it isn't given up within 30 s")
			}
		})
	}
}

// A list that never ends is a failure. Stored objects are used then.
func TestEndlessList(t *testing.T) {
	in(t, func(h *harness) {
		dir := storedIn(t, h, "c1")
		h.next(dir, here)
		h.lines()
		h.api.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			list, err := page("7", "more", webAt("10.0.0.9"))(metav1.ListOptions{})
			return true, list, err
		})
		h.doing(h.Run)
		h.wantSeen(podOf("a", "api"), "WEB=10.0.0.3")
		if lines := strings.Join(h.lines(), "\n"); !strings.Contains(lines, "more than 1000 pages") {
			t.Errorf("the log is\n%s", lines)
		}
	}, webAt("10.0.0.3"))
}

// Objects that were read are dropped, as stored ones are, when another cluster answers, even if it gives no objects. They
// stay stored, as those of their cluster.
func TestReadThenAnotherCluster(t *testing.T) {
	for name, shown := range map[string]types.UID{"another": "c2", "the same": "c1", "an unknown": ""} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *harness) {
				h.move("c1")
				dir := t.TempDir()
				h.next(dir, here)
				first := watch.NewFake()
				s := &script{
					lists: []func(metav1.ListOptions) (*v1.ServiceList, error){page("7", "", webAt("10.0.0.3")), failing(errForbidden), page("2", "", webAt("10.0.0.4"))},
					watches: []func() (watch.Interface, error){
						func() (watch.Interface, error) { return first, nil },
						func() (watch.Interface, error) { return watch.NewFake(), nil },
						func() (watch.Interface, error) { return watch.NewFake(), nil },
					},
				}
				s.on(h)
				end := h.run()
				pod := podOf("a", "api")
				h.wantSeen(pod, "WEB=10.0.0.3")
				time.Sleep(time.Minute) // A watch that ends at once is followed by a list in any case.
				h.move(shown)
				h.lines()
				first.Stop()
				time.Sleep(2 * firstPause) // The second list has failed, and the third one follows.
				if shown == "c2" {
					h.wantSeen(pod, "")
					if d, services := readFile(t, filepath.Join(dir, "services.json")); d.Cluster != "c1" || services[0].IP != "10.0.0.3" {
						t.Errorf("%v of %q are stored", services, d.Cluster)
					}
					if lines := strings.Join(h.lines(), "\n"); !strings.Contains(lines, "no longer used") || !strings.Contains(lines, "c2") {
						t.Errorf("the log is\n%s", lines)
					}
				} else {
					h.wantSeen(pod, "WEB=10.0.0.3")
				}
				time.Sleep(4 * lastPause)
				if shown != "c1" {
					h.wantSeen(pod, "WEB=10.0.0.4")
				}
				end()
			})
		})
	}
}
