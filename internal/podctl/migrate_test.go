package podctl

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

// kubeletNode is a node with a kubelet's pod web, whose directories exist, and the flags of migrate for it.
type kubeletNode struct {
	t     *testing.T
	dir   string
	flags []string
	stdin string
}

const webUID = "6a1e3f0c-0000-4000-8000-000000000001"

func newKubeletNode(t *testing.T) *kubeletNode {
	t.Helper()
	k := &kubeletNode{t: t, dir: t.TempDir()}
	endpoint := simtest.Serve(t, simruntime.New(simruntime.Config{}))
	k.flags = []string{
		"migrate", "--dry-run", "--container-runtime-endpoint", endpoint, "--root-dir", k.dir, "--pod-logs-dir", filepath.Join(k.dir, "logs"),
		"--config=", "--kubeconfig=", "--hostname-override=node1",
	}
	for _, dir := range []string{"pods/" + webUID, "logs/default_web_" + webUID} {
		if err := os.MkdirAll(filepath.Join(k.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, labels := range map[string]map[string]string{
		"web": {
			"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.uid": webUID,
		},
		podctltest.Hostile + strings.Repeat("x", 1000): {"io.kubernetes.pod.uid": podctltest.Hostile},
	} {
		client := simtest.Runtime(t, endpoint)
		_, err := client.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "default", Name: name, Uid: name}, Labels: labels,
			Annotations: map[string]string{"kubernetes.io/config.source": "api"}, Linux: &runtimeapi.LinuxPodSandboxConfig{},
		}, "")
		if err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k *kubeletNode) run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(k.t.Context(), Config{
		Args: append(k.flags, args...), Stdin: strings.NewReader(k.stdin), Stdout: &out, Stderr: &errs, Getenv: noVariables,
	})
	return code, out.String(), errs.String()
}

// podList is what kubectl prints of the pod web.
const podList = `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"web","uid":"` + webUID +
	`"},"spec":{"nodeName":"node1","containers":[{"name":"app","image":"localhost/sample:1","volumeMounts":[{"name":"v"}]}],"volumes":[{"name":"v","cephfs":{}}]}}]}`

// TestMigrateTable: the table has the plan, and the lines after it what it is based on; the runtime's texts are harmless and short.
func TestMigrateTable(t *testing.T) {
	k := newKubeletNode(t)
	k.stdin = podList
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		code, stdout, stderr := k.run("--pods", "-", "-o", format)
		if code != exitOK || stderr != "" {
			t.Fatalf("-o %s: exit code %d, stderr %q", format, code, stderr)
		}
		podctltest.CheckHarmless(t, "migrate -o "+format, stdout)
		if strings.HasPrefix(format, "json") {
			var report struct {
				Pods []struct {
					Name, Action string
					Stops, Lacks []string
				}
				WayBack string
			}
			if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Pods) != 2 || report.WayBack == "" ||
				report.Pods[1].Name != "web" || report.Pods[1].Action != "KEEP" || report.Pods[1].Stops == nil || report.Pods[1].Lacks[0] != "spec.volumes[0].cephfs" {
				t.Errorf("the document is %+v, %v:\n%s", report, err, stdout)
			}
		}
	}
	_, stdout, _ := k.run("--pods", "-")
	for _, want := range []string{
		`(?m)^NAMESPACE +NAME +ACTION +REASON$`, `(?m)^default +web +KEEP +podexecd doesn't support spec\.volumes\[0\]\.cephfs, so it starts and stops nothing of the pod$`,
		`(?m)^default +\S{20,} +IGNORE +it has no directories of a pod in `, `(?m)^  default/web: spec\.volumes\[0\]\.cephfs$`,
		`(?m)^Pods: 1 kept, 0 restarted, 0 removed\. Sandboxes that are ignored: 1\.$`,
		`(?m)^Node: node1\. Its pods: the list of --pods\. Static pods: not known\.$`, `(?m)^Way back: .*\n\z`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("the output is\n%s\nwant %s", stdout, want)
		}
	}
	if strings.Contains(stdout, strings.Repeat("x", 300)) {
		t.Errorf("a name isn't cut:\n%s", stdout)
	}
}

// TestMigrateHostileNames: names of containers, which the runtime and the API server give, are harmless and short.
func TestMigrateHostileNames(t *testing.T) {
	k := newKubeletNode(t)
	name := podctltest.Hostile + strings.Repeat("x", 10000)
	client := simtest.Runtime(t, k.flags[3])
	sandboxes, err := client.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.name": "web"}})
	if err != nil || len(sandboxes) != 1 {
		t.Fatalf("%d sandboxes, %v", len(sandboxes), err)
	}
	labels := sandboxes[0].GetLabels()
	id, err := client.CreateContainer(t.Context(), sandboxes[0].GetId(), &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: "localhost/sample:1"}, Labels: labels,
	}, &runtimeapi.PodSandboxConfig{Metadata: sandboxes[0].GetMetadata(), Labels: labels, Linux: &runtimeapi.LinuxPodSandboxConfig{}})
	if err == nil {
		err = client.StartContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]any{"kind": "List", "items": []any{map[string]any{
		"metadata": map[string]any{"namespace": "default", "name": "web", "uid": webUID},
		"spec": map[string]any{"nodeName": "node1", "containers": []any{map[string]any{
			"name": name, "image": "i", "resources": map[string]any{"limits": map[string]any{"example.com/gpu": "1"}},
		}, map[string]any{"name": "app", "image": "i"}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	k.stdin = string(list)
	for _, format := range []string{"table", "wide"} {
		code, stdout, stderr := k.run("--pods", "-", "-o", format)
		if code != exitOK || stderr != "" {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		podctltest.CheckHarmless(t, "migrate -o "+format, stdout)
		if !strings.Contains(stdout, "web: container ") || strings.Contains(stdout, strings.Repeat("x", 1025)) {
			t.Errorf("-o %s has %d bytes:\n%.3000s", format, len(stdout), stdout)
		}
	}
}

// TestMigrateAlone: without the node's pods, the plan says so, and removes nothing.
func TestMigrateAlone(t *testing.T) {
	code, stdout, stderr := newKubeletNode(t).run()
	if code != exitOK || !strings.Contains(stderr, "by their sandboxes alone") || !regexp.MustCompile(`web +KEEP +if it is still one`).MatchString(stdout) {
		t.Errorf("exit code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
}

// TestMigrateErrors: what the user named and can't be used is an error, and so is migrate without --dry-run.
func TestMigrateErrors(t *testing.T) {
	k := newKubeletNode(t)
	empty := filepath.Join(k.dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"missing":                               {"--pods", filepath.Join(k.dir, "missing")},
		"is empty":                              {"--pods", empty},
		"it isn't a list of pods":               {"--pods", "-"},
		"the kubelet's configuration: ":         {"--config", filepath.Join(k.dir, "missing")},
		"the node's pods: ":                     {"--kubeconfig", filepath.Join(k.dir, "missing")},
		"can't be a node's name":                {"--hostname-override", "a/b"},
		"/none.sock":                            {"--container-runtime-endpoint", "unix:///none.sock"},
		"the file doesn't hold an id":           {"--root-dir", damaged(t)},
		"want unix:///PATH":                     {"--container-runtime-endpoint", "tcp://localhost:1"},
		"is a directory":                        {"--pods", k.dir},
		"must not be less than zero":            {"--config", kubeletConfig(t, "fileCheckFrequency: -1s")},
		"--pods: it isn't a list of pods: yaml": {"--pods", "-", "--request-timeout", "0"},
	} {
		k.stdin = "\t"
		code, stdout, stderr := k.run(args...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want %q", args, code, stdout, stderr, want)
		}
	}
	code, _, stderr := runAlone("migrate")
	if code != exitUsage || !strings.Contains(stderr, "podctl migrate only has --dry-run: to migrate, stop the kubelet") || !strings.Contains(stderr, "see docs/install.md") {
		t.Errorf("without --dry-run: exit code %d, stderr %q", code, stderr)
	}
	if code, _, stderr := runAlone("migrate", "--dry-run", "extra"); code != exitUsage || stderr == "" {
		t.Errorf("an argument: exit code %d, stderr %q", code, stderr)
	}
}

// damaged returns a directory whose agent ID is damaged.
func damaged(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent-id"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// kubeletConfig returns a kubelet's configuration file with this field.
func kubeletConfig(t *testing.T, field string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + field + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
