package criconfig_test

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/downward"
	"github.com/podstream/podstream/internal/execsvc/setup/dns"
	"github.com/podstream/podstream/internal/execsvc/setup/podenv"
)

var update = flag.Bool("update", false, "rewrite testdata/golden/*.golden")

// goldenNodes are those that a golden pod may name in its first line, "# node: NAME". Without it is the one with no
// name.
var goldenNodes = map[string]func(*criconfig.Node){
	"":                       func(*criconfig.Node) {},
	"cpuCFSQuota-off":        func(n *criconfig.Node) { n.NoCPUQuota = true },
	"cpuCFSQuotaPeriod-10ms": func(n *criconfig.Node) { n.CPUQuotaPeriod = 10 * time.Millisecond },
	"hugepages":              func(n *criconfig.Node) { n.HugePageSizes = []int64{2 << 20, criconfig.GiB} },
	"no-seccomp-dir":         func(n *criconfig.Node) { n.SeccompDir = "" },
	"seccomp-default":        func(n *criconfig.Node) { n.SeccompDefault = true },
	"v1-swap":                func(n *criconfig.Node) { n.SwapAccounting, n.SwapCapacity, n.LimitedSwap = true, 4*criconfig.GiB, true },
	"v2":                     func(n *criconfig.Node) { n.CgroupV2 = true },
	"v2-single-kill":         func(n *criconfig.Node) { n.CgroupV2, n.SingleProcessOOMKill = true, true },
	"v2-no-swap":             func(n *criconfig.Node) { n.CgroupV2, n.SwapAccounting, n.SwapCapacity = true, true, 4*criconfig.GiB },
	"v2-limited-swap": func(n *criconfig.Node) {
		n.CgroupV2, n.SwapAccounting, n.SwapCapacity, n.LimitedSwap = true, true, 4*criconfig.GiB, true
	},
	"v2-memory-qos": func(n *criconfig.Node) {
		n.CgroupV2, n.MemoryQoS, n.MemoryThrottlingFactor, n.MemoryForPods = true, true, 0.9, 7*criconfig.GiB
	},
}

// goldenFacts are the values that variables have of the node and the pod's network.
var goldenFacts = downward.Facts{
	Node: "node", PodIPs: []string{"10.0.0.7"}, HostIPs: []string{"192.0.2.1"},
	Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("7Gi")},
}

// goldenPod is a pod of testdata/golden and the node that it is for.
type goldenPod struct {
	*v1.Pod
	node criconfig.Node
}

// TestGolden compares the messages of each pod in testdata/golden. After an intended change, -update rewrites them, and
// the difference is for review.
func TestGolden(t *testing.T) {
	for name, pod := range goldenPods(t) {
		t.Run(name, func(t *testing.T) {
			got, file := pod.translated(t), filepath.Join("testdata", "golden", name+".golden")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; make it with: go test ./internal/execsvc/pod/criconfig -update", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("the runtime is told something else (-want +got):\n%s", diff)
			}
		})
	}
}

// Each .golden has its pod: otherwise it would check nothing.
func TestGoldenFilesHavePods(t *testing.T) {
	pods := goldenPods(t)
	files, err := filepath.Glob("testdata/golden/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".golden"); pods[name].Pod == nil {
			t.Errorf("%s has no pod", file)
		}
	}
}

// goldenPods are the pods in testdata/golden, by file name.
func goldenPods(t *testing.T) map[string]goldenPod {
	t.Helper()
	files, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pods, error %v", len(files), err)
	}
	pods := map[string]goldenPod{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		g := goldenPod{Pod: &v1.Pod{}, node: criconfig.Node{MemoryCapacity: 8 * criconfig.GiB, SeccompDir: "/seccomp"}}
		if err := yaml.UnmarshalStrict(text, g.Pod); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := ""
		if rest, ok := strings.CutPrefix(string(text), "# node: "); ok {
			name, _, _ = strings.Cut(rest, "\n")
		}
		change, ok := goldenNodes[name]
		if !ok {
			t.Fatalf("%s: there is no node %q", file, name)
		}
		change(&g.node)
		pods[strings.TrimSuffix(filepath.Base(file), ".yaml")] = g
	}
	return pods
}

// translated returns the JSON of the messages, or of the error.
func (g goldenPod) translated(t *testing.T) []byte {
	t.Helper()
	var users *criconfig.UserNamespace
	if !ptr.Deref(g.Spec.HostUsers, true) {
		users = &criconfig.UserNamespace{HostID: 131072, Length: 65536}
	}
	text, err := json.MarshalIndent(map[string]any{"sandbox": g.sandbox(t, users), "containers": g.containers(t, users)}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func (g goldenPod) sandbox(t *testing.T, users *criconfig.UserNamespace) any {
	hostname, domain, err := criconfig.HostnameOf(g.Pod, "cluster.local")
	if err != nil {
		return "error: " + err.Error()
	}
	resolver, _, err := dns.Config(g.Pod, dns.Settings{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", ResolvConf: "testdata/resolv.conf"})
	if err != nil {
		t.Fatal(err)
	}
	config, err := criconfig.SandboxConfig(criconfig.SandboxInput{
		Pod: g.Pod, Agent: "agent", LogsDir: "/logs", Hostname: hostname, Domain: domain, DNS: resolver,
		UserNamespace: users, Node: g.node,
	})
	return asJSON(t, config, err)
}

func (g goldenPod) containers(t *testing.T, users *criconfig.UserNamespace) map[string]any {
	all := slices.Concat(g.Spec.InitContainers, g.Spec.Containers)
	for _, e := range g.Spec.EphemeralContainers {
		all = append(all, v1.Container(e.EphemeralContainerCommon))
	}
	configs := map[string]any{}
	for i := range all {
		c := &all[i]
		env, _, err := podenv.Of(podenv.Input{Pod: g.Pod, Container: c, Facts: goldenFacts})
		if err != nil {
			t.Fatal(err)
		}
		config, err := criconfig.ContainerConfig(criconfig.ContainerInput{
			Pod: g.Pod, Container: c, ImageRef: "sha256:" + c.Image, ImageUser: goldenImageUser(c.Image), Env: env, Mounts: g.mounts(c),
			Agent: "agent", UserNamespace: users, Node: g.node,
		})
		configs[c.Name] = asJSON(t, config, err)
	}
	return configs
}

// goldenImageUser is the user of an image named user-NAME or uid-NUMBER; root for others, and unknown for one named
// unknown.
func goldenImageUser(image string) *criconfig.ImageUser {
	if name, ok := strings.CutPrefix(image, "user-"); ok {
		return &criconfig.ImageUser{Name: name}
	}
	if image == "unknown" {
		return nil
	}
	// What isn't a number is 0.
	uid, _ := strconv.ParseInt(strings.TrimPrefix(image, "uid-"), 10, 64)
	return &criconfig.ImageUser{UID: &uid}
}

// mounts are the container's, as if each volume were a directory or an image.
func (g goldenPod) mounts(c *v1.Container) []criconfig.Mount {
	var list []criconfig.Mount
	for _, m := range c.VolumeMounts {
		mount := criconfig.Mount{
			HostPath: "/volumes/" + m.Name, ContainerPath: m.MountPath, ReadOnly: m.ReadOnly, Propagation: ptr.Deref(m.MountPropagation, ""),
			RecursiveReadOnly: ptr.Deref(m.RecursiveReadOnly, "") == v1.RecursiveReadOnlyEnabled,
		}
		for i := range g.Spec.Volumes {
			if image := g.Spec.Volumes[i].Image; image != nil && g.Spec.Volumes[i].Name == m.Name {
				mount.HostPath, mount.Image = "", &criconfig.ImageMount{Ref: "sha256:" + image.Reference, Given: image.Reference, SubPath: m.SubPath}
			}
		}
		list = append(list, mount)
	}
	return list
}

// asJSON is the message in a form whose order is stable. The lists of masked paths are long, the same everywhere and
// different on other machines: they are put as "by default".
func asJSON(t *testing.T, m proto.Message, err error) any {
	t.Helper()
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	envs, _ := tree["envs"].([]any)
	for _, e := range envs {
		variable := e.(map[string]any)
		plain, err := base64.StdEncoding.DecodeString(variable["value"].(string))
		if err != nil {
			t.Fatal(err)
		}
		variable["value"] = string(plain)
	}
	security := tree["linux"].(map[string]any)["securityContext"].(map[string]any)
	for field, standard := range map[string][]string{"maskedPaths": slices.Concat(criconfig.MaskedPaths, criconfig.ThermalPaths()), "readonlyPaths": criconfig.ReadonlyPaths} {
		if list, _ := security[field].([]any); slices.EqualFunc(list, standard, func(a any, b string) bool { return a == b }) {
			security[field] = "by default"
		}
	}
	return withoutEmpty(tree)
}

// withoutEmpty drops the fields that say nothing. Zeros stay, and the first words of enumerations, and labels and
// annotations whose value is empty: these do.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if key != "labels" && key != "annotations" {
				v[key] = withoutEmpty(inner)
			}
			if text := fmt.Sprint(v[key]); text == "" || text == "[]" || text == "map[]" || text == "false" || text == "<nil>" {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return value
}
