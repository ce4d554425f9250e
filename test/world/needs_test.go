package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/inside"
)

// feature is a feature that not every node has. The zero value means none.
type feature string

// The features. They are detected separately on each node.
const (
	userNamespaces           feature = "user namespaces"
	recursiveReadOnly        feature = "recursive read-only mounts"
	imageVolumes             feature = "image volumes"
	supplementalGroupsPolicy feature = "supplementalGroupsPolicy"
	appArmor                 feature = "AppArmor"
	seLinux                  feature = "SELinux"
	swap                     feature = "swap"
	hugePages                feature = "huge pages"
	systemd                  feature = "systemd"
	cgroupV2                 feature = "cgroup v2"
	cpusets                  feature = "cpuset with cgroup v2"
	processors               feature = "more than one processor"
)

var probes = map[feature]func(context.Context, runtimeapi.RuntimeServiceClient) (bool, error){
	userNamespaces: ofRuntime(func(s *runtimeapi.StatusResponse) bool {
		return anyHandler(s, (*runtimeapi.RuntimeHandlerFeatures).GetUserNamespaces)
	}),
	recursiveReadOnly: ofRuntime(func(s *runtimeapi.StatusResponse) bool {
		return anyHandler(s, (*runtimeapi.RuntimeHandlerFeatures).GetRecursiveReadOnlyMounts)
	}),
	supplementalGroupsPolicy: ofRuntime(func(s *runtimeapi.StatusResponse) bool { return s.GetFeatures().GetSupplementalGroupsPolicy() }),
	imageVolumes: func(ctx context.Context, cri runtimeapi.RuntimeServiceClient) (bool, error) {
		v, err := cri.Version(ctx, &runtimeapi.VersionRequest{})
		if err != nil {
			return false, err
		}
		numbers := strings.SplitN(strings.TrimPrefix(v.GetRuntimeVersion(), "v"), ".", 3)
		major, err := strconv.Atoi(numbers[0])
		return major > 2 || major == 2 && len(numbers) > 1 && numbers[1] != "0", err
	},
	appArmor:  ofFile("/sys/module/apparmor/parameters/enabled", func(text []byte) bool { return bytes.HasPrefix(text, []byte("Y")) }),
	swap:      ofFile("/proc/swaps", func(text []byte) bool { return bytes.Count(text, []byte("\n")) > 1 }),
	hugePages: ofFile("/proc/sys/vm/nr_hugepages", func(text []byte) bool { return string(bytes.TrimSpace(text)) != "0" }),
	seLinux: func(context.Context, runtimeapi.RuntimeServiceClient) (bool, error) {
		return inside.Look().SELinux != "", nil
	},
	systemd:  exists("/run/systemd/private"),
	cgroupV2: exists("/sys/fs/cgroup/cgroup.controllers"),
	cpusets:  ofFile("/sys/fs/cgroup/cgroup.controllers", func(text []byte) bool { return slices.Contains(strings.Fields(string(text)), "cpuset") }),
	processors: func(context.Context, runtimeapi.RuntimeServiceClient) (bool, error) {
		return runtime.NumCPU() > 1, nil
	},
}

func ofRuntime(has func(*runtimeapi.StatusResponse) bool) func(context.Context, runtimeapi.RuntimeServiceClient) (bool, error) {
	return func(ctx context.Context, cri runtimeapi.RuntimeServiceClient) (bool, error) {
		s, err := cri.Status(ctx, &runtimeapi.StatusRequest{})
		return err == nil && has(s), err
	}
}

func anyHandler(s *runtimeapi.StatusResponse, has func(*runtimeapi.RuntimeHandlerFeatures) bool) bool {
	return slices.ContainsFunc(s.GetRuntimeHandlers(), func(h *runtimeapi.RuntimeHandler) bool { return has(h.GetFeatures()) })
}

func ofFile(path string, says func([]byte) bool) func(context.Context, runtimeapi.RuntimeServiceClient) (bool, error) {
	return func(context.Context, runtimeapi.RuntimeServiceClient) (bool, error) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil && says(text), err
	}
}

func exists(path string) func(context.Context, runtimeapi.RuntimeServiceClient) (bool, error) {
	return func(context.Context, runtimeapi.RuntimeServiceClient) (bool, error) {
		_, err := os.Stat(path)
		return err == nil, nil
	}
}

// detects reports whether the node has the feature. Features of the machine need no runtime.
func detects(t *testing.T, f feature, cri runtimeapi.RuntimeServiceClient) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found, err := probes[f](ctx, cri)
	check(t, err)
	if found {
		lacking.found(f)
	}
	return found
}

// can reports whether the node has the feature. If it hasn't, the test is listed at the end, and there must be a golden
// of that name.
func can(t *testing.T, needs feature, cri runtimeapi.RuntimeServiceClient, golden string) bool {
	t.Helper()
	if detects(t, needs, cri) {
		return true
	}
	lacking.add(needs, t.Name())
	t.Logf("this node has no %s", needs)
	for _, ext := range []string{".yaml", ".golden"} {
		if _, err := os.Stat(filepath.Join(goldens, golden+ext)); golden == "" || err != nil {
			t.Errorf("what can't run here has to have a golden in package criconfig: %v", err)
		}
	}
	return false
}

// goldens is the directory of the runtime's expected requests for rows that can't run here.
const goldens = "../../internal/execsvc/pod/criconfig/testdata/golden"

// lacking are the rows that didn't run, by the feature that they need.
var lacking = missing{rows: map[feature]map[string]bool{}, had: map[feature]bool{}}

type missing struct {
	mu   sync.Mutex
	rows map[feature]map[string]bool
	// had are the features that a node has.
	had map[feature]bool
}

func (m *missing) add(needs feature, row string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[needs] == nil {
		m.rows[needs] = map[string]bool{}
	}
	m.rows[needs][row] = true
}

func (m *missing) found(f feature) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.had[f] = true
}

// print lists the features that no node has.
func (m *missing) print() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.rows, func(f feature, _ map[string]bool) bool { return m.had[f] })
	for _, needs := range slices.Sorted(maps.Keys(m.rows)) {
		fmt.Fprintf(os.Stderr, "No node here has %s; tested as the runtime's request only:\n", needs)
		for _, row := range slices.Sorted(maps.Keys(m.rows[needs])) {
			fmt.Fprintf(os.Stderr, "\t%s\n", row)
		}
	}
}
