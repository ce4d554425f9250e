package layout

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/podstream/podstream/"

// forbidden are the dependencies that must not be, direct or not. A pattern that ends in "/" covers all beneath it.
var forbidden = []struct{ from, to, why string }{
	{"cmd/podexecd", module + "internal/sources/", "podexecd learns of pods from the stream only"},
	{"cmd/podexecd", module + "internal/mergesvc/", "the daemons meet only in proto/"},
	{"cmd/podexecd", module + "internal/manifest", "podexecd never sees a manifest"},
	{"cmd/podconfigd", "k8s.io/cri-api/", "podconfigd has nothing to do with the runtime"},
	{"cmd/podconfigd", "k8s.io/cri-client/", "podconfigd has nothing to do with the runtime"},
	{"cmd/podconfigd", module + "internal/execsvc/", "the daemons meet only in proto/"},
	{"cmd/podconfigd", module + "test/", "what injects pods for tests isn't shipped"},
	{"cmd/podctl", module + "internal/mergesvc/", "podctl knows the daemons by their services"},
	{"cmd/podctl", module + "internal/execsvc/", "podctl knows the daemons by their services"},
	{"client", module + "internal/", "what others import stands by itself"},
	{"internal/manifest", module + "internal/", "the bottom layer: bytes to pods"},
	{"internal/boltfile", module, "a file that both daemons' stores stand on knows of neither"},
	{"internal/sources/file", module + "internal/mergesvc/", "a source hands its set on and knows no more"},
	{"internal/sources/http", module + "internal/mergesvc/", "a source hands its set on and knows no more"},
	{"internal/sources/apiserver", module + "internal/mergesvc/", "a source hands its set on and knows no more"},
	{"internal/sources/relay", module + "internal/mergesvc/", "a relay is a consumer of another podconfigd's streams"},
	{"internal/mergesvc/service", module + "internal/sources/", "the merge doesn't know where sets come from"},
	{"test/injectd/inject", module + "internal/mergesvc/", "test/differential uses it beside another version of Kubernetes"},
	{"internal/mergesvc/history", module + "internal/mergesvc/merge", "the history knows revisions, not how they are made"},
	{"internal/execsvc/criconfig", module + "internal/", "translation is pure"},
	{"internal/execsvc/volume", module + "internal/execsvc/runtime", "volumes are mounts, not containers"},
	{"internal/execsvc/volume", module + "internal/execsvc/world", "a world is made of volumes, and not the other way round"},
	{"internal/execsvc/downward", module + "internal/", "the fields of a pod are a pure function of it"},
	{"internal/execsvc/admit", module + "internal/execsvc/runtime", "admission is decided on values"},
	{"internal/execsvc/admit", module + "internal/execsvc/nodeinfo", "admission is decided on values"},
	{"internal/execsvc/podenv", module + "internal/execsvc/volume", "an environment reads files only through a function"},
	{"internal/execsvc/cgroup", module + "internal/execsvc/runtime", "pods' cgroups are there before the runtime knows the pod"},
	{"internal/execsvc/runtime", module + "internal/execsvc/world", "the runtime knows a World only as an interface"},
	{"internal/execsvc/worker", module + "internal/execsvc/runtime", "workers know their Syncer only as an interface"},
	{"internal/execsvc/worker", module + "internal/execsvc/pleg", "workers know their Syncer only as an interface"},
	{"internal/execsvc/status", module + "internal/execsvc/runtime", "a status is made of values"},
	{"internal/execsvc/actions", module + "internal/execsvc/runtime", "what to do is decided before it is done"},
	{"internal/execsvc/apistatus", module + "internal/execsvc/runtime", "who tells the API server reads the board"},
	{"internal/execsvc/mirror", module + "internal/execsvc/apistatus", "mirror pods are made whether or not anybody tells their status"},
	{"internal/execsvc/node/nodestatus", "k8s.io/client-go/", "a node's status is made of values"},
	{"internal/execsvc/server/auth", module + "internal/execsvc/board", "who may ask is decided before anything is looked at"},
	{"internal/execsvc/worker", "k8s.io/client-go/kubernetes", "no pod's life waits for an API server"},
	{"internal/execsvc/syncloop", "k8s.io/client-go/kubernetes", "no pod's life waits for an API server"},
	{"cmd/podconfigd", "k8s.io/kubernetes/", "upstream is read, not linked"},
	{"cmd/podexecd", "k8s.io/kubernetes/", "upstream is read, not linked"},
}

func TestDependenciesPointOneWay(t *testing.T) {
	deps := map[string][]string{}
	for _, rule := range forbidden {
		if deps[rule.from] == nil {
			deps[rule.from] = dependencies(t, rule.from)
		}
		for _, dep := range deps[rule.from] {
			if breaks(rule.from, rule.to, dep) {
				t.Errorf("%s depends on %s, but %s", rule.from, dep, rule.why)
			}
		}
	}
}

// The check above would pass if the list of dependencies were empty or the patterns matched nothing.
func TestCheckCanFail(t *testing.T) {
	if !breaks("cmd/podexecd", "k8s.io/cri-client/", "k8s.io/cri-client/pkg") {
		t.Error("a package beneath a forbidden path isn't seen as forbidden")
	}
	if breaks("internal/manifest", module+"internal/", module+"internal/manifest") {
		t.Error("a package is seen as its own dependency")
	}
	if !slices.ContainsFunc(dependencies(t, "cmd/podexecd"), func(d string) bool { return strings.HasPrefix(d, "k8s.io/cri-client/") }) {
		t.Error("podexecd's dependencies don't include the CRI client: the list is wrong")
	}
}

func breaks(from, to, dep string) bool {
	if dep == module+from {
		return false
	}
	return dep == strings.TrimSuffix(to, "/") || strings.HasSuffix(to, "/") && strings.HasPrefix(dep, to)
}

func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "./"+pkg)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps ./%s: %v\n%s", pkg, err, stderr.String())
	}
	return strings.Fields(string(out))
}
