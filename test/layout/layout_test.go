package layout

import (
	"bytes"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/podstream/podstream/"

// forbidden are dependencies that are not allowed, direct or indirect. A pattern that ends in "/" matches all
// packages below it.
var forbidden = []struct{ from, to, why string }{
	{"cmd/podexecd", module + "internal/sources/", "podexecd receives pods from the stream only"},
	{"cmd/podexecd", module + "internal/mergesvc/", "the daemons share only proto/"},
	{"cmd/podexecd", module + "internal/manifest", "podexecd reads no manifests"},
	{"cmd/podconfigd", "k8s.io/cri-api/", "podconfigd doesn't use the runtime"},
	{"cmd/podconfigd", "k8s.io/cri-client/", "podconfigd doesn't use the runtime"},
	{"cmd/podconfigd", module + "internal/execsvc/", "the daemons share only proto/"},
	{"cmd/podconfigd", module + "test/", "code that injects pods for tests isn't shipped"},
	{"cmd/podctl", module + "internal/mergesvc/", "podctl uses the daemons' services only"},
	{"cmd/podctl", module + "internal/execsvc/", "podctl uses the daemons' services, and of podexecd's packages the decisions only"},
	{"cmd/podctl", "k8s.io/client-go/kubernetes", "client-go's clientset would double podctl's size"},
	{"cmd/podctl", "k8s.io/client-go/kubernetes/", "client-go's clientset would double podctl's size"},
	{"cmd/podexecd", "k8s.io/client-go/kubernetes", "client-go's clientset would add 10 MiB to podexecd's memory"},
	{"cmd/podexecd", "k8s.io/client-go/kubernetes/", "client-go's scheme would add 10 MiB to podexecd's memory"},
	{"cmd/podconfigd", "k8s.io/client-go/kubernetes/", "client-go's scheme would add 10 MiB to podconfigd's memory"},
	{"client", module + "internal/", "the public client depends on no internal package"},
	{"internal/boltfile", module, "it is the base of both daemons' stores, and depends on neither"},
	{"internal/sources/file", module + "internal/mergesvc/", "a source only hands over its set"},
	{"internal/sources/http", module + "internal/mergesvc/", "a source only hands over its set"},
	{"internal/sources/apiserver", module + "internal/mergesvc/", "a source only hands over its set"},
	{"internal/sources/relay", module + "internal/mergesvc/", "a relay is a consumer of another podconfigd's streams"},
	{"internal/sources/applied", module + "internal/mergesvc/", "a source only hands over its set"},
	{"cmd/podctl", "k8s.io/pod-security-admission/", "podconfigd decides what a deployer may write"},
	{"cmd/podexecd", "k8s.io/pod-security-admission/", "podconfigd decides what a deployer may write"},
	{"internal/mergesvc/service", module + "internal/sources/", "the merge is independent of where sets come from"},
	{"test/injectd/inject", module + "internal/mergesvc/", "test/differential uses it beside another version of Kubernetes"},
	{"internal/mergesvc/history", module + "internal/mergesvc/merge", "the history is independent of how revisions are made"},
	{"internal/execsvc/pod/podmeta", module + "internal/", "a pod's properties are pure functions of it"},
	{"internal/execsvc/pod/downward", module + "internal/", "the fields of a pod are a pure function of it"},
	{"internal/execsvc/decide/admit", module + "internal/execsvc/machine/", "admission is decided on values"},
	{"internal/execsvc/setup/volume", module + "internal/execsvc/cri/", "volumes are mounts, not containers"},
	{"internal/execsvc/setup/podenv", module + "internal/execsvc/setup/volume", "an environment reads files only through a function"},
	{"internal/execsvc/loop/worker", module + "internal/execsvc/cri/", "workers use their Syncer only as an interface"},
	{"internal/execsvc/cluster/apistatus", module + "internal/execsvc/cri/", "statuses for the API server come from the pod view"},
	{"internal/execsvc/decide/nodestatus", "k8s.io/client-go/", "a node's status is computed from values"},
	{"internal/execsvc/serve/kubeletapi/auth", module + "internal/execsvc/pod/", "access is decided before anything is looked up"},
	{"internal/execsvc/loop/worker", "k8s.io/client-go/kubernetes", "no pod waits for an API server"},
	{"internal/execsvc/loop/syncloop", "k8s.io/client-go/kubernetes", "no pod waits for an API server"},
	{"cmd/podconfigd", "connectrpc.com/", "the daemons speak gRPC only: the page of podctl web is podctl's"},
	{"cmd/podexecd", "connectrpc.com/", "the daemons speak gRPC only: the page of podctl web is podctl's"},
	{"cmd/podconfigd", module + "internal/podctl/", "the daemons serve no page"},
	{"cmd/podexecd", module + "internal/podctl/", "the daemons serve no page"},
	{"cmd/podconfigd", "k8s.io/kubernetes/", "upstream is read, not linked"},
	{"cmd/podexecd", "k8s.io/kubernetes/", "upstream is read, not linked"},
}

// decisions are the packages of podexecd that podctl may depend on: `podctl migrate --dry-run` says what podexecd will decide, and
// asks the same functions. Each one is a decision or a value: TestDecisionsArePure.
var decisions = []string{
	"internal/execsvc/decide/actions",
	"internal/execsvc/decide/adoption",
	"internal/execsvc/pod/criconfig",
	"internal/execsvc/pod/observed",
	"internal/execsvc/pod/podmeta",
}

// floors are the directories beneath internal/execsvc, from the lowest one up. A package imports packages of its own
// floor and of lower ones. The Agent, internal/execsvc itself, is above them.
var floors = []string{"pod", "machine", "decide", "cri", "setup", "reclaim", "loop", "cluster", "serve"}

// floorOf returns the number of the package's floor, len(floors) for the Agent, and -1 for packages outside execsvc.
func floorOf(pkg string) int {
	rest, ok := strings.CutPrefix(pkg, module+"internal/execsvc")
	switch {
	case !ok:
		return -1
	case rest == "":
		return len(floors)
	}
	name, _, _ := strings.Cut(rest[1:], "/")
	return slices.Index(floors, name)
}

// TestFloors: no package of execsvc imports one of a higher floor, and each is on a floor.
func TestFloors(t *testing.T) {
	imports := importsOf(t, "./internal/execsvc/...")
	for pkg, all := range imports {
		if floorOf(pkg) < 0 {
			t.Errorf("%s is on no floor of internal/execsvc; the floors are %v", pkg, floors)
		}
		for _, dep := range all {
			if climbs(pkg, dep) {
				t.Errorf("%s imports %s, which is on a higher floor; the order is %v", pkg, dep, floors)
			}
		}
	}
	// The check would pass if there were no packages, or no imports.
	const agent, worker = module + "internal/execsvc", module + "internal/execsvc/loop/worker"
	if !slices.Contains(imports[agent], worker) || !climbs(worker, agent) || climbs(agent, worker) {
		t.Errorf("the Agent imports %v; want %s among them, which must not import the Agent", imports[agent], worker)
	}
	for _, floor := range floors {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(imports)), func(p string) bool { return strings.HasPrefix(p, agent+"/"+floor+"/") }) {
			t.Errorf("there is no package on the floor %s", floor)
		}
	}
}

// climbs reports whether the import of dep by pkg leads to a higher floor.
func climbs(pkg, dep string) bool { return floorOf(dep) > floorOf(pkg) }

// importsOf returns the imports of the packages that match the pattern, without the imports of tests.
func importsOf(t *testing.T, pattern string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, pattern)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pattern, err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		imports[words[0]] = words[1:]
	}
	return imports
}

func TestDependenciesPointOneWay(t *testing.T) {
	deps := map[string][]string{}
	for _, rule := range forbidden {
		if deps[rule.from] == nil {
			deps[rule.from] = dependencies(t, rule.from)
		}
		for _, dep := range deps[rule.from] {
			if breaks(rule.from, rule.to, dep) && !(rule.from == "cmd/podctl" && slices.Contains(decisions, strings.TrimPrefix(dep, module))) {
				t.Errorf("%s depends on %s, but %s", rule.from, dep, rule.why)
			}
		}
	}
}

// pure are packages that translate values, with all internal packages that each one depends on.
var pure = map[string][]string{
	"internal/execsvc/decide/adoption": {
		"internal/execsvc/pod/podmeta", "internal/execsvc/pod/criconfig", "internal/execsvc/pod/observed", "internal/execsvc/decide/actions",
	},
	"internal/execsvc/pod/criconfig": {"internal/execsvc/pod/podmeta"},
	"internal/manifest":              {"internal/manifest/validate"},
	"internal/manifest/validate":     nil,
	"internal/podsecurity":           nil,
	"internal/write":                 {"internal/manifest/validate", "internal/manifest"},
}

// TestPurePackages: each package of pure depends on exactly the internal packages listed there.
func TestPurePackages(t *testing.T) {
	for pkg, want := range pure {
		var internal []string
		for _, dep := range dependencies(t, pkg) {
			if rel, ok := strings.CutPrefix(dep, module); ok && strings.HasPrefix(rel, "internal/") && rel != pkg {
				internal = append(internal, rel)
			}
		}
		if !slices.Equal(internal, want) {
			t.Errorf("%s depends on %v; want %v", pkg, internal, want)
		}
	}
}

// TestCheckCanFail: the tests above would pass if the list of dependencies were empty or the patterns matched nothing.
func TestCheckCanFail(t *testing.T) {
	if !breaks("cmd/podexecd", "k8s.io/cri-client/", "k8s.io/cri-client/pkg") {
		t.Error("a package below a forbidden path isn't found")
	}
	if breaks("internal/manifest", module+"internal/", module+"internal/manifest") {
		t.Error("a package is reported as its own dependency")
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
