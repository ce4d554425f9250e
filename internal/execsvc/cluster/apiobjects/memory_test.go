package apiobjects

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readFile returns the file's content, which is complete at any time.
func readFile(t *testing.T, path string) (d document, services []service) {
	t.Helper()
	data := must[[]byte](t)(os.ReadFile(path))
	if err := errors.Join(json.Unmarshal(data, &d), json.Unmarshal(d.Objects, &services)); err != nil {
		t.Fatalf("%s has %q: %v", path, data, err)
	}
	return d, services
}

// A file that can't be used is logged with its path, and ignored; objects that are read replace it.
func TestMemoryUnusable(t *testing.T) {
	good := `{"Version":1,"Server":"https://here:6443","Time":"2026-01-02T03:04:05Z","Objects":[{"Namespace":"shop","Name":"web","IP":"10.0.0.8","Ports":[{"Name":"","Protocol":"TCP","Number":80}]}]}`
	for name, tc := range map[string]struct{ content, seen, log string }{
		"good":            {content: good, seen: "WEB=10.0.0.8", log: "as_of=2026-01-02T03:04:05"},
		"none":            {},
		"empty":           {content: "\n", log: "JSON"},
		"cut short":       {content: good[:len(good)-30], log: "JSON"},
		"overwritten":     {content: good + "\x00\x00", log: "JSON"},
		"without objects": {content: `{"Version":1,"Server":"https://here:6443"}`, log: "JSON"},
		"other objects":   {content: strings.Replace(good, `"shop"`, `["shop"]`, 1), log: "JSON"},
		"newer version":   {content: strings.Replace(good, `"Version":1`, `"Version":2`, 1), log: "version 2"},
		"no version":      {content: `{}`, log: "version 0"},
		"other server":    {content: strings.Replace(good, "here", "there", 1), log: "https://there:6443"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *harness) {
				dir := t.TempDir()
				path := filepath.Join(dir, "services.json")
				if tc.content != "" {
					if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				h.goAway(errRefused)
				h.next(dir, here)
				pod := podOf("a", "api")
				h.wantSeen(pod, "")
				h.run()
				time.Sleep(time.Minute)
				h.wantSeen(pod, tc.seen)
				var want []string
				if tc.log != "" {
					want = append(want, tc.log)
				}
				if tc.log != "" && tc.seen == "" {
					h.mu.Lock()
					if !strings.Contains(h.log.String(), "level=WARN") || !strings.Contains(h.log.String(), "path="+path) {
						t.Errorf("the log has no warning with %s", path)
					}
					h.mu.Unlock()
				}
				h.wantLog(want...)
				h.goAway(nil)
				time.Sleep(time.Minute)
				h.wantSeen(pod, "WEB=10.0.0.3")
				if d, services := readFile(t, path); d.Server != here || d.Version != memoryVersion || len(services) != 1 || services[0].IP != "10.0.0.3" {
					t.Errorf("then %+v is remembered", d)
				}
			}, webAt("10.0.0.3"))
		})
	}
}

// Changes are written at most each few seconds, the last of them at the end; nothing is where there are none. The file is whole all the time,
// so that a life which is killed leaves what it wrote last.
func TestMemoryWrites(t *testing.T) {
	in(t, func(h *harness) {
		path := filepath.Join(t.TempDir(), "services.json")
		h.next(filepath.Dir(path), here)
		end := h.run()
		first, services := readFile(t, path)
		if len(services) != 1 {
			t.Errorf("after the first list %v is remembered", services)
		}
		time.Sleep(time.Hour)
		// It has another version now, and nothing that is kept has changed.
		touched := at(webAt("10.0.0.3"), "12")
		must[*v1.Service](t)(h.api.CoreV1().Services("shop").Update(t.Context(), touched, metav1.UpdateOptions{}))
		synctest.Wait()
		if d, _ := readFile(t, path); !d.Time.Equal(first.Time) {
			t.Errorf("it was written again at %v without a change", d.Time)
		}
		time.Sleep(time.Hour)
		began, times := time.Now(), map[time.Time]bool{}
		const changes = 63
		for i := range changes {
			s := newService("shop", fmt.Sprint("s", i), "10.1.0.1", v1.ServicePort{Port: 80})
			must[*v1.Service](t)(h.api.CoreV1().Services("shop").Create(t.Context(), s, metav1.CreateOptions{}))
			synctest.Wait()
			d, _ := readFile(t, path)
			times[d.Time] = true
			time.Sleep(writePause / 10)
		}
		if got := len(times); got < 6 || got > 8 {
			t.Errorf("in %v it was written %d times; want one each %v", time.Since(began), got, writePause)
		}
		synctest.Wait()
		if _, services := readFile(t, path); len(services) == 1+changes {
			t.Error("the last change was written at once")
		}
		end()
		if _, services := readFile(t, path); len(services) != 1+changes {
			t.Errorf("at the end %d services are remembered", len(services))
		}
	}, webAt("10.0.0.3"))
}

// A full disk, for example, is one warning; the objects are written when that is possible again.
func TestMemoryUnwritable(t *testing.T) {
	in(t, func(h *harness) {
		dir := filepath.Join(t.TempDir(), "dir")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		h.next(dir, here)
		end := h.run()
		pod := podOf("a", "api")
		h.wantSeen(pod, "WEB=10.0.0.3")
		time.Sleep(time.Hour)
		h.wantLog("objects=services", "objects=RuntimeClasses")
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(unwritablePause)
		h.wantLog("again", "again")
		end()
		if _, services := readFile(t, filepath.Join(dir, "services.json")); len(services) != 1 {
			t.Errorf("%v is remembered", services)
		}
	}, webAt("10.0.0.3"))
}
