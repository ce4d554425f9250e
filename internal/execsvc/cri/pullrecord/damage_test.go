package pullrecord

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// TestDamaged: a record that can't be read gives no access and isn't removed; the next pull replaces it.
func TestDamaged(t *testing.T) {
	const good = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":null,"imageRef":"` + id + `",` +
		`"credentialMapping":{"registry.example/team/app":{"nodePodsAccessible":true}}}`
	for name, text := range map[string]string{
		"empty": "", "cut off": good[:60], "no JSON": "hello", "another image": strings.Replace(good, id, "sha256:2222", 1),
		"another kind": strings.Replace(good, "ImagePulledRecord", "ImagePullIntent", 1), "another version": strings.Replace(good, "v1beta1", "v2", 1),
		"an unknown field": strings.Replace(good, `"imageRef"`, `"exceptFor":"x","imageRef"`, 1),
		"a doubled field":  strings.Replace(good, `"imageRef"`, `"imageRef":"x","imageRef"`, 1),
		"more after it":    good + good, "too long": good + strings.Repeat(" ", maxFile),
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			path := filepath.Join(n.pulled, fileName(id))
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if n.may(app, id, nil, secretOf("a")) {
					t.Error("it gives access")
				}
				n.list()
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("it was changed: %v", err)
			}
			if !strings.Contains(n.log.String(), fileName(id)) {
				t.Errorf("the log has no line with the file:\n%s", &n.log)
			}
			n.pull(app, id, secretOf("a"))
			if !n.may(app, id, nil, secretOf("a")) || n.may(app, id, nil, secretOf("b")) || n.may(app, id, nil) {
				t.Error("after a pull it isn't for the pod with the secret only")
			}
		})
	}
	n := newNode(t)
	if err := os.WriteFile(filepath.Join(n.pulled, fileName(id)), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if !n.may(app, id, nil) {
		t.Error("the good record has no effect: this test shows nothing")
	}
}

// TestDiskFull: if the intent can't be written, nothing may be pulled; if the record can't, the image counts as pulled.
func TestDiskFull(t *testing.T) {
	n := newNode(t)
	full := func(dir string) (free func()) {
		// A file in the place of the directory: root isn't stopped by permissions.
		if err := errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	free := full(n.pulling)
	if _, err := n.Intend(app, ""); err == nil {
		t.Error("the intent was written")
	}
	free()
	if !n.may(app, id, []string{app}) {
		t.Error("an image counts as pulled without a pull")
	}
	i := n.intend(app, "")
	free = full(n.pulled)
	if err := i.Pulled(pulledAs(app, id), []imageaccess.Login{secretOf("a")}); err == nil {
		t.Error("the record was written")
	}
	free()
	for range 2 {
		if n.may(app, id, []string{app}, secretOf("a")) {
			t.Error("without a record it may be used")
		}
		n.restart()
	}
	n.list(id + " " + app)
	n.wantFiles(0, 1)
	if n.may(app, id, []string{app}, secretOf("a")) {
		t.Error("with a record without credentials it may be used")
	}
}

// TestGone: the record of an image goes when two listings lack it.
func TestGone(t *testing.T) {
	n := newNode(t)
	n.pull(app, id, secretOf("a"))
	n.list(id, "sha256:2222")
	n.list()
	n.list(id)
	n.list("sha256:2222")
	n.wantFiles(0, 1)
	if n.may(app, id, nil) {
		t.Error("it may be used although one listing had it")
	}
	n.list("sha256:2222")
	n.wantFiles(0, 0)
	if !n.may(app, id, nil) {
		t.Error("loaded again, it can't be used")
	}
}

// TestPulledDuringListing: a record stays if the image is pulled again while the images are listed, also if it has the
// login already. Wall clocks have no part in this.
func TestPulledDuringListing(t *testing.T) {
	n := newNode(t)
	n.pull(app, id, secretOf("a"))
	n.list()
	done := n.Listing()
	n.pull(app, id, secretOf("a"))
	done(nil)
	n.wantFiles(0, 1)
	if n.may(app, id, nil) {
		t.Error("it may be used by all")
	}
	// The next two rounds that lack it are what counts.
	n.list(id)
	n.list()
	n.wantFiles(0, 1)
	n.list()
	n.wantFiles(0, 0)
}

// TestConcurrent: pods use, pull and verify the same images at the same time, and none gets access to another's.
func TestConcurrent(t *testing.T) {
	n := newNode(t)
	var pods, rounds sync.WaitGroup
	for _, tenant := range []string{"a", "b", "c"} {
		pods.Go(func() {
			for i := range 20 {
				image := fmt.Sprintf("sha256:%d", i%4)
				if err := n.intend(app, "").Pulled(pulledAs(app, image), []imageaccess.Login{secretOf(tenant)}); err != nil {
					t.Error(err)
				}
				if !n.may(app, image, []string{app}, secretOf(tenant)) {
					t.Errorf("%s has no access to what it has pulled", tenant)
				}
				if n.may(app, image, []string{app}, secretOf("x")) {
					t.Error("another one has access")
				}
			}
		})
	}
	stop := make(chan struct{})
	rounds.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				n.list("sha256:0", "sha256:1", "sha256:2", "sha256:3")
			}
		}
	})
	pods.Wait()
	close(stop)
	rounds.Wait()
	n.wantFiles(0, 4)
}
