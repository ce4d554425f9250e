package podctl

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Both daemons' versions stand below podctl's own.
func TestVersion(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{version: &podconfigv1.GetVersionResponse{Version: "v1.2.4", GoVersion: "go1.26", Platform: "linux/amd64"}})
	n.busy(&busyPodexecd{version: &podexecv1.GetVersionResponse{Version: "v1.2.2\x1b[2J", GoVersion: "go1.25", Platform: "linux/arm64",
		RuntimeName: "containerd", RuntimeVersion: "v2.1.4", RuntimeApiVersion: "v1"}})
	own := fmt.Sprintf("podctl v1.2.3 (%s, %s/%s)\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	want := own + "podconfigd v1.2.4 (go1.26, linux/amd64)\npodexecd v1.2.2\\x1b[2J (go1.25, linux/arm64)\ncontainerd v2.1.4 (CRI v1)\n"
	if code := n.run(t.Context(), "version"); code != exitOK || n.stdout.String() != want || n.stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", code, n.stderr, n.stdout, want)
	}
	n.stdout = newScreen()
	if code := n.run(t.Context(), "version", "--client"); code != exitOK || n.stdout.String() != own {
		t.Errorf("--client: exit code %d, stdout:\n%s", code, n.stdout)
	}
	n.stdout = newScreen()
	if code := n.run(t.Context(), "version", "-o", "json"); code != exitOK {
		t.Errorf("-o json: exit code %d", code)
	}
	var doc map[string]map[string]string
	if err := json.Unmarshal([]byte(n.stdout.String()), &doc); err != nil {
		t.Fatal(err)
	}
	got := []string{doc["podctl"]["version"], doc["podconfigd"]["version"], doc["podexecd"]["platform"], doc["runtime"]["name"], doc["runtime"]["version"]}
	if diff := cmp.Diff([]string{"v1.2.3", "v1.2.4", "linux/arm64", "containerd", "v2.1.4"}, got); diff != "" {
		t.Errorf("-o json (-want +got):\n%s", diff)
	}
}

// A daemon that doesn't answer, or is older than the call, is a reported failure; the rest is shown.
func TestVersionIncomplete(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{})
	if code := n.run(t.Context(), "version"); code != exitFailed || strings.Count(n.stdout.String(), "\n") != 1 ||
		!strings.Contains(n.stderr.String(), "can't reach podconfigd") || !strings.Contains(n.stderr.String(), "doesn't know this call") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}
