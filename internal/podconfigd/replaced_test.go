package podconfigd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRestartOnReplacedManifests: a directory of manifests that was replaced by a file while podconfigd was down is
// an error of the source, its pods stay, and its mount is remembered.
func TestRestartOnReplacedManifests(t *testing.T) {
	dir := shortDir(t)
	manifests := filepath.Join(dir, "manifests")
	writeManifest(t, dir, "web", "one")
	first := launch(t, dir, t.Output())
	untilReady(t, first.watch(nil))
	first.stop()
	if data, err := os.ReadFile(filepath.Join(dir, "root", "place-file.json")); err != nil || !strings.Contains(string(data), `"mountPoint":"/`) {
		t.Errorf("the mount that is remembered is %s, %v", data, err)
	}
	if err := os.Rename(manifests, filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifests, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := launch(t, dir, t.Output())
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		resp, err := second.api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if text := resp.GetSources()[0].GetLastError(); strings.Contains(text, "it was a directory with manifests and is a file now") {
			break
		} else if time.Now().After(late) {
			t.Fatalf("the source's error is %q", text)
		}
	}
	pods, err := second.api.ListPods(t.Context(), &podconfigv1.ListPodsRequest{})
	if err != nil || len(pods.GetPods()) != 1 {
		t.Errorf("the pods are %v, %v; want web", pods.GetPods(), err)
	}
}
